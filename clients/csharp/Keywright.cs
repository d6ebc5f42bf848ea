// Keywright's client for C#: activate, validate with signed answers, verify, and keep. MIT license.
// With Ed25519.cs and without dependencies, for .NET 6, .NET Framework 4.7 and Mono 6 (C# 7).
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;

namespace Keywright {
using Claims = Dictionary<string, object>;

/// <summary>A signed answer or license file that must not be believed: Code is the rule that it breaks. Or what the
/// server refuses: Code is its problem code, null where it gave no good answer.</summary>
public sealed class KeywrightException : Exception {
    public readonly string Code;
    public readonly bool IsRule;
    public KeywrightException(string message, string code, bool isRule = false) : base(message) { (Code, IsRule) = (code, isRule); }
}

/// <summary>What an answer must fit; what is null is not compared, but for BuiltAt (like 2026-11-22T08:54:00Z): what is
/// for one build is refused by every other. PublicKeys are base64url of 32 bytes each; Now is in seconds since 1970.
/// </summary>
public sealed class Expected {
    public IEnumerable<string> PublicKeys;
    public string Issuer, Product, LicenseKey, Fingerprint, BuiltAt, Nonce;
    public long? Now;
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
        Require(want.Fingerprint == null || Fits(claims, "activation", "fingerprint", want.Fingerprint, mayLack), "device");
        var hash = Sum("keywright-license-key:" + want.LicenseKey);
        Require(want.LicenseKey == null || Fits(claims, "license", "key_hash", hash, mayLack), "license_key");
        Require(Get(claims, "built_at") == null || Equals(claims["built_at"], want.BuiltAt), "build");
        Require(want.Nonce == null || Equals(Get(claims, "nonce"), want.Nonce), "nonce");
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

    static void Require(bool condition, string rule) { if (!condition) throw new KeywrightException($"The signed answer is refused: {rule}.", rule, true); }

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

/// <summary>JSON (RFC 8259): objects, lists, texts, whole numbers as long, true, false and null; so are other numbers.</summary>
static class Json {
    const int MaxDepth = 200;
    static readonly Encoding Utf8 = new UTF8Encoding(false, true);
    static readonly Regex Literal = new Regex(@"\Gtrue|\Gfalse|\Gnull|\G-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?");

    /// <summary>The value of a text. Throws FormatException.</summary>
    public static object Parse(string text) {
        var at = 0;
        var value = Read(text + "\0", ref at, 0);
        Skip(text + "\0", ref at);
        if (at != text.Length) throw new FormatException();
        return value;
    }

    /// <summary>The object that a text in UTF-8 is; null for all else.</summary>
    public static Claims ReadObject(byte[] text) {
        try { return Parse(Utf8.GetString(text)) as Claims; }
        catch (Exception error) when (error is FormatException || error is ArgumentException) { return null; }
    }

    public static string Write(object value) {
        if (value is string) return "\"" + Regex.Replace((string)value, "[\\\\\"\\x00-\\x1f]", one => "\\u" + ((int)one.Value[0]).ToString("x4")) + "\"";
        if (value is IEnumerable<string>) return "[" + string.Join(",", ((IEnumerable<string>)value).Select(Write)) + "]";
        return "{" + string.Join(",", ((Claims)value).Where(one => one.Value != null).Select(one => Write(one.Key) + ":" + Write(one.Value))) + "}";
    }

    static void Skip(string text, ref int at) { while (" \t\r\n".IndexOf(text[at]) >= 0) at++; }

    static object Read(string text, ref int at, int depth) {
        Skip(text, ref at);
        if (text[at] == '"') return ReadText(text, ref at);
        if (text[at] == '{' || text[at] == '[') return ReadItems(text, ref at, depth);
        var literal = Literal.Match(text, at).Value;
        if (literal == "") throw new FormatException();
        at += literal.Length;
        if (literal == "true" || literal == "false") return literal == "true";
        return long.TryParse(literal, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var whole) ? (object)whole : null;
    }

    static object ReadItems(string text, ref int at, int depth) {
        var close = text[at] == '{' ? '}' : ']';
        var members = new Claims();
        var items = new List<object>();
        if (depth >= MaxDepth) throw new FormatException();
        for (var separator = text[at]; separator != close; Skip(text, ref at)) {
            at++;
            Skip(text, ref at);
            if (text[at] != close || separator == ',') {
                var name = close == '}' ? ReadText(text, ref at) : "";
                Skip(text, ref at);
                if (close == '}' && text[at++] != ':') throw new FormatException();
                items.Add(members[name] = Read(text, ref at, depth + 1));
                Skip(text, ref at);
            }
            separator = text[at];
            if (separator != close && separator != ',') throw new FormatException();
        }
        at++;
        return close == '}' ? (object)members : items;
    }

    static string ReadText(string text, ref int at) {
        var read = new StringBuilder();
        if (text[at++] != '"') throw new FormatException();
        for (; text[at] != '"'; at++) {
            if (text[at] < ' ') throw new FormatException();
            if (text[at] != '\\') { read.Append(text[at]); continue; }
            var which = "\"\\/bfnrtu".IndexOf(text[++at]);
            var hex = which == 8 ? text.Substring(at + 1, Math.Min(4, text.Length - at - 1)) : "0";
            if (which < 0) throw new FormatException();
            read.Append(which < 8 ? "\"\\/\b\f\n\r\t"[which] : (char)ushort.Parse(hex, NumberStyles.AllowHexSpecifier));
            at += which < 8 ? 0 : 4;
        }
        at++;
        return read.ToString();
    }
}

/// <summary>What a program is told: State is one of those in the README, Problem why there is no good answer.</summary>
public sealed class Status {
    public bool Valid, IsOffline;
    public string State;
    public Claims Claims;
    public KeywrightException Problem;
}

/// <summary>A program's license on this device, kept in the file Path. Program has what its answers must fit, with
/// Fingerprint: the name of this device, 8 to 256 characters, no serial number.</summary>
public sealed class Client {
    static readonly Claims States = new Claims {
        { "disabled", "disabled" }, { "inactive", "disabled" }, { "expired", "expired" }, { "version_not_covered", "expired" },
        { "limit_reached", "limit_reached" }, { "too_many_new_devices", "limit_reached" }, { "lease_lost", "limit_reached" },
        // Rules that a kept answer breaks: it was copied from another device, or made for another program.
        { "device", "not_activated" }, { "license_key", "not_activated" }, { "audience", "not_activated" },
        { "issuer", "not_activated" }, { "build", "unreachable_too_long" },
    };
    public string Url, Path, AppVersion;
    public Expected Program;
    public int TimeoutSeconds = 10;

    sealed class Kept {
        public string LicenseKey = "", Answer = "";
        public List<string> KeySets = new List<string>();
    }

    /// <summary>Asks the server when it is time, else uses what is kept.</summary>
    public Status Check() {
        var found = Look(out var kept);
        DateTimeOffset.TryParse(Verifier.Get(found.Claims, "next_check_at") as string, CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out var next);
        if (kept.LicenseKey == "" || (found.Valid && DateTimeOffset.UtcNow < next)) return found;
        var fresh = Ask("validate", kept, null, !found.Valid);
        // A no is asked for again before it takes the place of what is kept.
        if (fresh.Problem == null && !fresh.Valid && found.Valid) fresh = Ask("validate", kept, null, true);
        if (fresh.Problem == null) return fresh;
        var state = found.Valid ? "unreachable_but_valid_until" : found.State;
        return new Status { Valid = found.Valid, IsOffline = true, State = state, Claims = found.Claims, Problem = fresh.Problem };
    }

    /// <summary>Takes a place for this device. A refusal changes nothing that is kept.</summary>
    public Status Activate(string licenseKey, string name = null) {
        Look(out var kept);
        return Ask("activate", new Kept { LicenseKey = licenseKey, KeySets = kept.KeySets }, name, true);
    }

    /// <summary>What is kept, and the status that it leads to by itself.</summary>
    Status Look(out Kept kept) {
        kept = new Kept();
        if (!File.Exists(Path)) return new Status { State = "not_activated" };
        try {
            var read = (Claims)Json.Parse(File.ReadAllText(Path));
            kept.KeySets = ((List<object>)read["key_sets"]).Cast<string>().ToList();
            kept.Answer = (string)read["answer"];
            kept.LicenseKey = (string)read["license_key"];
            var claims = Verify(kept, null);
            var now = DateTimeOffset.UtcNow.ToUnixTimeSeconds();
            if (now < (long)claims["iat"] - Verifier.Tolerance) return new Status { State = "clock_moved_back" };
            return now < (long)claims["exp"] ? Tell(claims) : new Status { State = "unreachable_too_long" };
        } catch (Exception error) when (!(error is IOException)) { // Or it is not what this client writes.
            var problem = error as KeywrightException;
            return new Status { State = Verifier.Get(States, problem?.Code ?? "") as string ?? "tampered", Problem = problem };
        }
    }

    Claims Verify(Kept kept, string nonce) {
        var want = Program.Copy();
        want.PublicKeys = Verifier.FollowKeySets(want.PublicKeys, kept.KeySets, long.MinValue, new List<string>());
        (want.LicenseKey, want.Nonce) = (kept.LicenseKey, nonce);
        return Verifier.Verify(kept.Answer, want);
    }

    /// <summary>Asks the server, and keeps an answer that can be believed.</summary>
    Status Ask(string call, Kept kept, string name, bool keepsNo) {
        var random = new byte[18];
        using (var source = RandomNumberGenerator.Create()) source.GetBytes(random);
        var nonce = Verifier.Encode(random);
        var body = new Claims {
            { "license_key", kept.LicenseKey }, { "fingerprint", Program.Fingerprint }, { "nonce", nonce }, { "name", name },
            { "product", Program.Product }, { "app_version", AppVersion }, { "built_at", Program.BuiltAt },
        };
        try {
            kept.Answer = Send("POST", call, Json.Write(body));
            var claims = VerifyOrLearn(kept, nonce);
            if (keepsNo || (bool)claims["valid"]) Keep(kept, nonce);
            return Tell(claims);
        } catch (KeywrightException problem) {
            var isRefusal = !problem.IsRule && problem.Code != null;
            var state = isRefusal ? Verifier.Get(States, problem.Code) ?? "not_activated" : "unreachable_too_long";
            return new Status { State = (string)state, Problem = problem };
        }
    }

    Claims VerifyOrLearn(Kept kept, string nonce) {
        try {
            return Verify(kept, nonce);
        } catch (KeywrightException problem) when (problem.Code == "header") {
            var answer = Json.ReadObject(Encoding.UTF8.GetBytes(Send("GET", "signing-keys", null)));
            var all = kept.KeySets.Concat(Verifier.List(answer, "keys").OfType<string>()).ToList();
            kept.KeySets = new List<string>();
            Verifier.FollowKeySets(Program.PublicKeys, all, DateTimeOffset.UtcNow.ToUnixTimeSeconds(), kept.KeySets);
            return Verify(kept, nonce);
        }
    }

    void Keep(Kept kept, string nonce) {
        var beside = Path + "." + nonce;
        File.WriteAllText(beside, Json.Write(new Claims { { "license_key", kept.LicenseKey }, { "answer", kept.Answer }, { "key_sets", kept.KeySets } }));
        if (File.Exists(Path)) File.Replace(beside, Path, null);
        else File.Move(beside, Path);
    }

    string Send(string method, string path, string body) {
        var request = (HttpWebRequest)WebRequest.Create(Url.TrimEnd('/') + "/v3/" + path);
        request.Method = method;
        request.Timeout = request.ReadWriteTimeout = TimeoutSeconds * 1000;
        request.AllowAutoRedirect = false;
        request.Accept = "application/jwt, application/problem+json, */*;q=0.1";
        request.ContentType = "application/json";
        try {
            if (body != null) using (var stream = new StreamWriter(request.GetRequestStream())) stream.Write(body);
            using (var answer = request.GetResponse()) return Read(answer);
        }
        catch (WebException error) { throw ToProblem(error); }
        catch (IOException error) { throw new KeywrightException(error.Message, null); }
    }

    static string Read(WebResponse answer) {
        try { return new StreamReader(answer.GetResponseStream()).ReadToEnd(); }
        catch (IOException error) { throw new KeywrightException(error.Message, null); }
    }

    /// <summary>Only a problem that the server names is a refusal; all else is an outage.</summary>
    static KeywrightException ToProblem(WebException error) {
        var status = error.Response == null ? 0 : (int)((HttpWebResponse)error.Response).StatusCode;
        var text = status < 400 || status >= 500 || status == 429 ? "" : Read(error.Response);
        var problem = Json.ReadObject(Encoding.UTF8.GetBytes(text));
        var code = Verifier.Get(problem, "code") as string;
        return new KeywrightException(code == null ? error.Message : Verifier.Get(problem, "detail") as string, code);
    }

    static Status Tell(Claims claims) {
        var valid = (bool)claims["valid"];
        var no = Verifier.Get(States, Verifier.Get(claims, "code") as string ?? "") as string ?? "not_activated";
        return new Status { Valid = valid, State = valid ? Verifier.List(claims, "codes").Contains("grace") ? "grace" : "valid" : no, Claims = claims };
    }
}
}
