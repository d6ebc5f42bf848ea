// Keywright's client for C#: activate, validate with signed answers, verify, and keep. MIT license.
// With Json.cs and Ed25519.cs, and without dependencies, for .NET 6, .NET Framework 4.7 and Mono 6 (C# 7).
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Text;
using System.Threading;

namespace Keywright {
using Claims = Dictionary<string, object>;

/// <summary>A signed answer or license file that must not be believed: Code is the rule that it breaks. Or what the
/// server refuses: Code is its problem code, null where it gave no good answer.</summary>
public sealed class KeywrightException : Exception {
    public readonly string Code;
    public readonly bool IsRule;
    /// <summary>Those that hold the places of a full license, where its terms let programs choose.</summary>
    public List<Claims> Devices = new List<Claims>();
    internal bool IsRefusal => !IsRule && Code != null;
    public KeywrightException(string message, string code, bool isRule = false) : base(message) { (Code, IsRule) = (code, isRule); }
}

/// <summary>What an answer must fit; what is null is not compared, but for BuiltAt (like 2026-11-22T08:54:00Z): what is
/// for one build is refused by every other. PublicKeys are base64url of 32 bytes each; Now is in seconds since 1970.
/// Where a Nonce was sent, Operation (the path below /v3/) and Body are the question: a no need not name a license, and
/// would fit another. With MayLackDevice, the answer may name no device.</summary>
public sealed class Expected {
    public IEnumerable<string> PublicKeys;
    public string Issuer, Product, LicenseKey, Fingerprint, BuiltAt, Nonce, Operation, Body;
    public long? Now;
    public bool MayLackDevice;
    public Expected Copy() { return (Expected)MemberwiseClone(); }
}

/// <summary>The rules for signed answers and license files.</summary>
public static class Verifier {
    /// <summary>In seconds: how far a server's clock may be ahead of ours, and ours may move back.</summary>
    public const int Tolerance = 300;
    const int MaxBytes = 65536;
    const string License = "keywright-license+jwt", Keys = "keywright-keys+jwt";
    const string Begin = "-----BEGIN KEYWRIGHT LICENSE-----", End = "-----END KEYWRIGHT LICENSE-----";

    /// <summary>The claims of a signed answer or a license file. Throws KeywrightException.</summary>
    public static Claims Verify(string text, Expected want) {
        Require(Encoding.UTF8.GetByteCount(text) <= MaxBytes, "too_large");
        var claims = Open(Unarmour(text), License, want.PublicKeys);
        Require(new[] { "iat", "nbf", "exp" }.All(name => Get(claims, name) is long), "payload");
        Require(Get(claims, "valid") is bool, "payload");
        var mayLack = !(bool)claims["valid"];
        Require(want.Issuer == null || Equals(Get(claims, "iss"), want.Issuer), "issuer");
        Require(want.Product == null || Equals(Get(claims, "aud"), want.Product), "audience");
        Require(want.Now == null || (long)claims["nbf"] <= want.Now + Tolerance, "not_yet_valid");
        Require(want.Now == null || want.Now < (long)claims["exp"], "expired");
        Require(want.Fingerprint == null || Fits(claims, "activation", "fingerprint", want.Fingerprint, mayLack || want.MayLackDevice), "device");
        var hash = Sum("keywright-license-key:" + want.LicenseKey);
        Require(want.LicenseKey == null || Fits(claims, "license", "key_hash", hash, mayLack), "license_key");
        Require(Get(claims, "built_at") == null || Equals(claims["built_at"], want.BuiltAt), "build");
        Require(want.Nonce == null || Equals(Get(claims, "nonce"), want.Nonce), "nonce");
        var asked = Sum("keywright-question:" + want.Operation + "\n" + want.Body);
        Require(want.Nonce == null || (want.Operation != null && Equals(Get(claims, "asked"), asked)), "question");
        return claims;
    }

    /// <summary>The keys to believe: the newest set that a trusted key has signed takes the place of the trusted keys,
    /// again and again; `taken` gets these sets. A set that does not verify changes nothing.</summary>
    public static IList<string> FollowKeySets(IEnumerable<string> publicKeys, IEnumerable<string> sets, long now, ICollection<string> taken) {
        IList<string> trusted = publicKeys.ToList();
        for (var since = long.MinValue;;) {
            var good = sets.Except(taken).Select(text => OpenKeySet(text, trusted, now)).Where(one => one != null);
            var newest = good.Where(one => one.Item2 >= since).OrderByDescending(one => one.Item2).FirstOrDefault();
            if (newest == null) return trusted;
            (trusted, since) = (newest.Item1, newest.Item2);
            taken.Add(newest.Item3);
        }
    }

    static Tuple<List<string>, long, string> OpenKeySet(string text, IList<string> trusted, long now) {
        try {
            Require(text.Length <= MaxBytes, "too_large");
            var claims = Open(text, Keys, trusted);
            var keys = List(claims, "keys").OfType<Claims>().Where(jwk => Equals(Get(jwk, "kty"), "OKP") && Equals(Get(jwk, "crv"), "Ed25519") && IsKey(Get(jwk, "x")));
            var found = keys.Select(jwk => (string)jwk["x"]).ToList();
            var isGood = found.Any() && Get(claims, "iat") is long && Get(claims, "exp") is long && now < (long)claims["exp"];
            return isGood ? Tuple.Create(found, (long)claims["iat"], text) : null;
        }
        catch (KeywrightException) { return null; }
    }

    /// <summary>The payload of a JWS, once its signature holds. The token brings no key; it only chooses one.</summary>
    static Claims Open(string token, string type, IEnumerable<string> publicKeys) {
        var parts = token.Split('.');
        Require(parts.Length == 3, "not_three_parts");
        var key = publicKeys.FirstOrDefault(x => IsKey(x) && new[] { "EdDSA", "Ed25519" }.Any(alg => parts[0] == Header(alg, x, type)));
        Require(key != null, "header");
        byte[] payload = Decode(parts[1]), signature = Decode(parts[2]);
        Require(payload != null && signature != null, "base64url");
        Require(Ed25519.IsValid(Decode(key), Encoding.UTF8.GetBytes(parts[0] + "." + parts[1]), signature), "signature");
        var claims = Json.ReadObject(payload);
        Require(claims != null, "payload");
        return claims;
    }

    static string Header(string alg, string x, string type) {
        var kid = Sum("{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"" + x + "\"}");
        return Encode(Encoding.UTF8.GetBytes("{\"alg\":\"" + alg + "\",\"kid\":\"" + kid + "\",\"typ\":\"" + type + "\"}"));
    }

    /// <summary>Whether it is for this device or key. Only an answer that says no may leave open for which it is.</summary>
    static bool Fits(Claims claims, string claim, string member, string expected, bool mayLack) {
        var found = Get(claims, claim);
        return found == null ? mayLack : found is Claims && Equals(Get((Claims)found, member), expected);
    }

    static string Unarmour(string text) {
        var lines = text.TrimStart('\ufeff').Split('\n').Select(line => line.TrimEnd(' ', '\t', '\r')).ToList();
        var begin = lines.IndexOf(Begin);
        if (begin < 0) return text.Trim(' ', '\t', '\r', '\n');
        var end = lines.IndexOf(End, begin);
        Require(end > 0, "armour");
        return string.Concat(lines.Skip(begin + 1).Take(end - begin - 1));
    }

    internal static void Require(bool condition, string rule) { if (!condition) throw new KeywrightException($"The signed answer is refused: {rule}.", rule, true); }

    internal static object Get(Claims claims, string name) => claims != null && claims.TryGetValue(name, out var found) ? found : null;

    internal static List<object> List(Claims claims, string name) => Get(claims, name) as List<object> ?? new List<object>();

    static bool IsKey(object text) => text is string && Decode((string)text)?.Length == 32;

    static string Sum(string text) { using (var sha = SHA256.Create()) return Encode(sha.ComputeHash(Encoding.UTF8.GetBytes(text))); }

    internal static string Encode(byte[] bytes) => Convert.ToBase64String(bytes).TrimEnd('=').Replace('+', '-').Replace('/', '_');

    /// <summary>The bytes of base64url in its one form, without padding, unused bits 0; null for another text.</summary>
    static byte[] Decode(string text) {
        try {
            var bytes = Convert.FromBase64String(text.Replace('-', '+').Replace('_', '/') + new string('=', -text.Length & 3));
            return Encode(bytes) == text ? bytes : null;
        }
        catch (FormatException) { return null; }
    }
}

/// <summary>What a program is told: State is one of those in the README, Problem why there is no good answer.</summary>
public sealed class Status {
    public bool Valid, IsOffline;
    public string State;
    public Claims Claims;
    public KeywrightException Problem;
}

/// <summary>A place of a floating license, renewed in the background until Dispose; Client.TakeLease takes it.</summary>
public sealed class Lease : IDisposable {
    readonly Func<string, Claims, Claims> call;
    readonly string holder;
    readonly long? length;
    readonly Stopwatch clock = Stopwatch.StartNew();
    readonly Timer timer;
    double ends, seconds;
    bool isOver;
    public readonly string LicenseKey;
    public string Id { get; private set; }

    internal Lease(Func<string, Claims, Claims> call, string licenseKey, string holder, long? length) {
        this.call = call;
        LicenseKey = licenseKey;
        this.holder = holder;
        this.length = length;
        timer = new Timer(_ => { try { Renew(); } catch (KeywrightException) { } }, null, Timeout.Infinite, Timeout.Infinite);
    }

    /// <summary>False when the place is lost: the server was away too long, or gave it to another.</summary>
    public bool IsHeld { get { lock (timer) return clock.Elapsed.TotalSeconds < ends; } }

    /// <summary>Takes it, or renews it before half of its time has passed. Throws KeywrightException.</summary>
    public void Renew() {
        var part = 2;
        try {
            Take();
        } catch (KeywrightException problem) {
            if (problem.IsRefusal) lock (timer) ends = 0;
            else part = 10;
            throw;
        } finally {
            lock (timer) if (Id != null && !isOver) timer.Change((int)(Math.Max(seconds / part, 1) * 1000), Timeout.Infinite);
        }
    }

    void Take() {
        var began = clock.Elapsed.TotalSeconds;
        var claims = call(Id == null ? "leases" : "leases/renew", new Claims { { "holder", holder }, { "seconds", length }, { "lease_id", Id } });
        var lease = Verifier.Get(claims, "lease") as Claims;
        var id = Verifier.Get(lease, "id") as string;
        var isRead = DateTimeOffset.TryParse(Verifier.Get(lease, "expires_at") as string, CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out var end);
        Verifier.Require(id != null && isRead && (bool)claims["valid"], "payload");
        // A lease that is shared is the same place for many: what is between may not ask in another's name.
        Verifier.Require(Equals(Verifier.Get(lease, "holder"), holder), "question");
        lock (timer) {
            if (isOver) return;
            (Id, seconds) = (id, end.ToUnixTimeSeconds() - (long)claims["iat"]);
            ends = began + seconds;
        }
    }

    /// <summary>Gives it back. Where the server cannot be told, it ends by itself.</summary>
    public void Dispose() {
        lock (timer) {
            if (isOver) return;
            (isOver, ends) = (true, 0);
            timer.Dispose();
        }
        try { call("leases/release", new Claims { { "lease_id", Id } }); }
        catch (KeywrightException) { }
        Id = null;
    }
}

/// <summary>A program's license on this device, kept in the file Path. Program has what its answers must fit, with
/// Fingerprint: the name of this device, 8 to 256 characters, no serial number.</summary>
public sealed class Client {
    static readonly Claims States = new Claims {
        { "disabled", "disabled" }, { "inactive", "disabled" }, { "expired", "expired" }, { "version_not_covered", "expired" },
        { "limit_reached", "limit_reached" }, { "too_many_new_devices", "limit_reached" }, { "no_removal_left", "limit_reached" }, { "lease_lost", "no_lease" }, { "lease_required", "no_lease" },
        // Rules that a kept answer breaks: it was copied from another device, or made for another program.
        { "device", "not_activated" }, { "license_key", "not_activated" }, { "audience", "not_activated" },
        { "issuer", "not_activated" }, { "build", "unreachable_too_long" },
    };
    const int MaxAnswer = 1 << 20;
    const string NoLease = "This program has no place in the shared license. " +
        "Start the program again; where every place is taken, end it on another device first.";
    public string Url, Path, AppVersion;
    public Expected Program;
    /// <summary>Of a whole call.</summary>
    public double TimeoutSeconds = 10;
    readonly List<Lease> leases = new List<Lease>();
    /// <summary>Why nothing was activated, for the next check.</summary>
    KeywrightException refused;

    sealed class Kept {
        public string LicenseKey = "", Answer = "";
        public long Latest;
        public List<string> KeySets = new List<string>();
        public string Text => Json.Write(new Claims { { "license_key", LicenseKey }, { "answer", Answer }, { "latest", Latest }, { "key_sets", KeySets } });
    }

    /// <summary>Asks the server when it is time, else uses what is kept. It throws nothing.</summary>
    public Status Check() {
        var clock = Stopwatch.StartNew();
        var found = Look(out var kept);
        DateTimeOffset.TryParse(Verifier.Get(found.Claims, "next_check_at") as string, CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out var next);
        if (kept.LicenseKey == "" || (found.Valid && DateTimeOffset.UtcNow < next)) return found;
        Lease held;
        lock (leases) held = leases.LastOrDefault(one => one.IsHeld && one.LicenseKey == kept.LicenseKey);
        var members = new Claims { { "lease_id", held?.Id } };
        var fresh = Ask("validate", kept, members, !found.Valid, clock);
        // A no is asked for again before it takes the place of what is kept.
        if (fresh.Claims != null && !fresh.Valid && fresh.State != "no_lease" && found.Valid) fresh = Ask("validate", kept, members, true, clock);
        if (fresh.Claims != null) return fresh;
        var state = found.Valid ? "unreachable_but_valid_until" : found.State;
        var problem = state == "no_storage" ? found.Problem : fresh.Problem;
        return new Status { Valid = found.Valid, IsOffline = true, State = state, Claims = found.Claims, Problem = problem };
    }

    /// <summary>Takes a place for this device. A refusal changes nothing that is kept. Where nothing can be kept, no place
    /// is taken: the program would ask for its license key at each start. The Problem of a full license may have Devices
    /// to choose from; `remove` is then the id of the one that gives its place.</summary>
    public Status Activate(string licenseKey, string name = null, long? remove = null) {
        return Take(clock => licenseKey, name, remove);
    }

    /// <summary>Starts this device's trial of the product, or gets the one that it has, and keeps it as Activate does. The
    /// policy's number is needed where the product has several for trials. A refusal changes nothing that is kept.</summary>
    public Status StartTrial(long? policy = null, string email = null, string name = null) {
        var body = Json.Write(new Claims {
            { "product", Program.Product }, { "fingerprint", Program.Fingerprint }, { "policy", policy }, { "email", email },
            { "app_version", AppVersion }, { "built_at", Program.BuiltAt },
        });
        return Take(clock => {
            var started = Json.ReadObject(Encoding.UTF8.GetBytes(Send("POST", "trials", body, clock)));
            var key = Verifier.Get(Verifier.Get(started, "license") as Claims, "key") as string;
            return key ?? throw new KeywrightException("What answers is no Keywright server.", null);
        }, name);
    }

    /// <summary>Takes a lease of a floating license. The holder names who has it, in place of a random name; the license
    /// key is needed where nothing was activated. Throws KeywrightException (Code: no_free_lease ...).</summary>
    public Lease TakeLease(string holder = null, long? seconds = null, string licenseKey = null) {
        Look(out var kept);
        var key = licenseKey ?? kept.LicenseKey;
        var lease = new Lease((path, members) => {
            var clock = Stopwatch.StartNew();
            if (path != "leases/release") return Exchange(path, new Kept { LicenseKey = key, KeySets = kept.KeySets }, members, clock);
            members["license_key"] = key;
            Send("POST", path, Json.Write(members), clock);
            return null;
        }, key, holder ?? NewRandom(), seconds);
        lease.Renew();
        lock (leases) {
            leases.RemoveAll(one => one.Id == null);
            leases.Add(lease);
        }
        return lease;
    }

    /// <summary>Activates the license key that is found then, and keeps the answer.</summary>
    Status Take(Func<Stopwatch, string> find, string name, long? remove = null) {
        var clock = Stopwatch.StartNew();
        var found = Look(out var kept);
        var problem = found.State == "no_storage" ? found.Problem : Write("", true);
        if (problem != null) return new Status { State = "no_storage", Problem = problem };
        try {
            var taken = new Kept { LicenseKey = find(clock), KeySets = kept.KeySets };
            var status = Ask("activate", taken, new Claims { { "name", name }, { "remove", remove } }, true, clock);
            problem = status.Valid ? null : status.Problem;
            return status;
        }
        catch (KeywrightException error) { return ToStatus(problem = error); }
        finally { refused = problem?.IsRefusal == true ? problem : null; }
    }

    /// <summary>What is kept, and the status that it leads to by itself. Keeps the highest time seen.</summary>
    Status Look(out Kept kept) {
        kept = new Kept();
        string text;
        try { text = File.ReadAllText(Path); }
        catch (FileNotFoundException) { return new Status { State = "not_activated", Problem = refused }; }
        catch (Exception error) when (error is IOException || error is UnauthorizedAccessException) { return ToNoStorage(error); }
        try {
            var read = (Claims)Json.Parse(text);
            kept.KeySets = ((List<object>)read["key_sets"]).Cast<string>().ToList();
            kept.Answer = (string)read["answer"];
            kept.LicenseKey = (string)read["license_key"];
            kept.Latest = Verifier.Get(read, "latest") as long? ?? 0;
            var claims = Verify(kept, new Expected());
            var now = DateTimeOffset.UtcNow.ToUnixTimeSeconds();
            if (now < Math.Max((long)claims["iat"], kept.Latest) - Verifier.Tolerance) return new Status { State = "clock_moved_back" };
            if (now >= (long)claims["exp"]) return new Status { State = "unreachable_too_long" };
            if (now <= kept.Latest + 60) return Tell(claims);
            kept.Latest = now;
            // Without it, a clock that is set back again and again would make the answer last for ever.
            var trouble = Write(kept.Text);
            return trouble == null ? Tell(claims) : new Status { State = "no_storage", Problem = trouble };
        } catch (Exception error) { // It is not what this client writes, or breaks a rule.
            var problem = error as KeywrightException;
            return new Status { State = Verifier.Get(States, problem?.Code ?? "") as string ?? "tampered", Problem = problem };
        }
    }

    Claims Verify(Kept kept, Expected asked) {
        var want = Program.Copy();
        want.PublicKeys = Verifier.FollowKeySets(want.PublicKeys, kept.KeySets, long.MinValue, new List<string>());
        (want.LicenseKey, want.Nonce, want.Operation, want.Body) = (kept.LicenseKey, asked.Nonce, asked.Operation, asked.Body);
        want.MayLackDevice = asked.MayLackDevice;
        return Verifier.Verify(kept.Answer, want);
    }

    /// <summary>Asks the server, and keeps an answer that can be believed. Without one, the status has no claims.</summary>
    Status Ask(string call, Kept kept, Claims members, bool keepsNo, Stopwatch clock) {
        try {
            var claims = Exchange(call, kept, members, clock);
            var found = Tell(claims);
            if (found.State == "no_lease") { // It is about this program, not the license: what is kept stays.
                found.Problem = new KeywrightException(NoLease, found.State);
                return found;
            }
            // The server's clock is believed: that of this device may be wrong.
            kept.Latest = (long)claims["iat"];
            if (keepsNo || found.Valid) found.Problem = Write(kept.Text);
            return found;
        }
        catch (KeywrightException problem) { return ToStatus(problem); }
    }

    static Status ToStatus(KeywrightException problem) {
        var state = problem.IsRefusal ? Verifier.Get(States, problem.Code) ?? "not_activated" : "unreachable_too_long";
        return new Status { State = (string)state, Problem = problem };
    }

    /// <summary>The claims of an answer that can be believed; `kept` gets the answer, and the key sets.</summary>
    Claims Exchange(string call, Kept kept, Claims more, Stopwatch clock) {
        var nonce = NewRandom();
        var members = new Claims {
            { "license_key", kept.LicenseKey }, { "fingerprint", Program.Fingerprint }, { "nonce", nonce },
            { "product", Program.Product }, { "app_version", AppVersion }, { "built_at", Program.BuiltAt },
        };
        foreach (var one in more) members[one.Key] = one.Value;
        var body = Json.Write(members);
        kept.Answer = Send("POST", call, body, clock);
        var asked = new Expected { Nonce = nonce, Operation = call, Body = body, MayLackDevice = call.StartsWith("leases") };
        return VerifyOrLearn(kept, asked, clock);
    }

    Claims VerifyOrLearn(Kept kept, Expected asked, Stopwatch clock) {
        try {
            return Verify(kept, asked);
        } catch (KeywrightException problem) when (problem.Code == "header") {
            var answer = Json.ReadObject(Encoding.UTF8.GetBytes(Send("GET", "signing-keys", null, clock)));
            var all = kept.KeySets.Concat(Verifier.List(answer, "keys").OfType<string>()).ToList();
            kept.KeySets = new List<string>();
            Verifier.FollowKeySets(Program.PublicKeys, all, DateTimeOffset.UtcNow.ToUnixTimeSeconds(), kept.KeySets);
            return Verify(kept, asked);
        }
    }

    [DllImport("libc", EntryPoint = "chmod")]
    static extern int ChangeMode(string path, int mode);

    /// <summary>Keeps this text, written at once or not at all; null, or why it cannot be. A trial only finds that out.
    /// </summary>
    KeywrightException Write(string text, bool isTrial = false) {
        var beside = Path + "." + NewRandom();
        try {
            using (var file = new FileStream(beside, FileMode.CreateNew)) {
                // For its user alone, while it is empty; on Windows, folders of users are.
                if (System.IO.Path.DirectorySeparatorChar == '/') ChangeMode(beside, 6 << 6);
                var bytes = Encoding.UTF8.GetBytes(text);
                file.Write(bytes, 0, bytes.Length);
            }
            if (isTrial) File.Delete(beside);
            else if (File.Exists(Path)) File.Replace(beside, Path, null);
            else File.Move(beside, Path);
            return null;
        } catch (Exception error) when (error is IOException || error is UnauthorizedAccessException) {
            try { File.Delete(beside); } catch (Exception) { } // There is none, or it stays.
            return ToNoStorage(error).Problem;
        }
    }

    Status ToNoStorage(Exception error) =>
        new Status { State = "no_storage", Problem = new KeywrightException($"The license cannot be kept: {Path}: {error.Message}", "no_storage") };

    static string NewRandom() {
        var random = new byte[18];
        using (var source = RandomNumberGenerator.Create()) source.GetBytes(random);
        return Verifier.Encode(random);
    }

    /// <summary>The text of a good answer. In a thread: nothing else ends the look-up of a name, or a header without an
    /// end.</summary>
    string Send(string method, string path, string body, Stopwatch clock) {
        string answer = null;
        KeywrightException problem = null;
        HttpWebRequest request = null;
        var left = (int)Math.Ceiling(TimeoutSeconds * 1000) - (int)clock.ElapsedMilliseconds;
        var thread = new Thread(() => {
            try {
                request = (HttpWebRequest)WebRequest.Create(Url.TrimEnd('/') + "/v3/" + path);
                request.Method = method;
                request.Timeout = request.ReadWriteTimeout = left;
                answer = Exchange(request, body);
            }
            catch (WebException error) when (error.Response != null) { problem = ToProblem((HttpWebResponse)error.Response); }
            catch (Exception error) { problem = error as KeywrightException ?? new KeywrightException("The license server cannot be reached.", null); }
            finally { request?.Abort(); } // Not Close: that reads what is left.
        }) { IsBackground = true };
        if (left > 0) thread.Start();
        if (left <= 0 || !thread.Join(left)) {
            request?.Abort();
            throw new KeywrightException("The license server did not answer in time.", null);
        }
        return answer ?? throw problem;
    }

    static string Exchange(HttpWebRequest request, string body) {
        // A license key follows no redirect.
        request.AllowAutoRedirect = false;
        request.Accept = "application/jwt, application/problem+json, */*;q=0.1";
        request.ContentType = "application/json";
        if (body != null) using (var stream = new StreamWriter(request.GetRequestStream())) stream.Write(body);
        var answer = (HttpWebResponse)request.GetResponse();
        if ((int)answer.StatusCode < 300) return Read(answer);
        throw ToProblem(answer);
    }

    static string Read(WebResponse answer) {
        var text = new char[MaxAnswer + 1];
        var length = new StreamReader(answer.GetResponseStream()).ReadBlock(text, 0, text.Length);
        if (length > MaxAnswer) throw new KeywrightException("The answer of the license server is too long.", null);
        return new string(text, 0, length);
    }

    /// <summary>Only a problem that the server names is a refusal; all else is an outage.</summary>
    static KeywrightException ToProblem(HttpWebResponse answer) {
        var status = (int)answer.StatusCode;
        try {
            var text = status < 400 || status >= 500 || status == 429 ? "" : Read(answer);
            var problem = Json.ReadObject(Encoding.UTF8.GetBytes(text));
            var code = Verifier.Get(problem, "code") as string;
            var devices = Verifier.List(problem, "devices").OfType<Claims>().ToList();
            if (code != null) return new KeywrightException(Verifier.Get(problem, "detail") as string ?? code, code) { Devices = devices };
        }
        catch (Exception) { return new KeywrightException("The license server cannot be reached.", null); }
        return new KeywrightException($"The license server answered {status}.", null);
    }

    static Status Tell(Claims claims) => new Status { Valid = (bool)claims["valid"], State = StateOf(claims), Claims = claims };

    /// <summary>The state that an answer leads to by itself.</summary>
    public static string StateOf(Claims claims) {
        if ((bool)claims["valid"]) return Verifier.List(claims, "codes").Contains("grace") ? "grace" : "valid";
        return Verifier.Get(States, Verifier.Get(claims, "code") as string ?? "") as string ?? "not_activated";
    }
}
}
