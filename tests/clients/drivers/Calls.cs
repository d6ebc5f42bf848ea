// Makes calls with the client for C#; see tests/clients/library.py.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Threading;
using Call = System.Collections.Generic.Dictionary<string, object>;

namespace Keywright {
static class Calls {
    static void Main(string[] given) {
        var calls = ((List<object>)Json.Parse(Console.In.ReadToEnd())).Cast<Call>().ToList();
        var made = new string[calls.Count];
        // Mono's own calls wait for its pool, which grows slowly; and for code that is compiled at its first use.
        ThreadPool.SetMinThreads(100, 100);
        if (calls.Count > 1) new Client { Url = "http://127.0.0.1:9", Path = "none", Program = new Expected { PublicKeys = new string[0] } }.Activate("");
        var room = new SemaphoreSlim(16);
        var threads = calls.Select((one, i) => new Thread(() => {
            room.Wait();
            made[i] = Make(one, given);
            room.Release();
        })).ToList();
        threads.ForEach(one => one.Start());
        threads.ForEach(one => one.Join());
        Console.WriteLine("[" + string.Join(",", made) + "]");
        Console.Out.Flush();
        // Not Exit: that waits for the look-up of a name.
        Process.GetCurrentProcess().Kill();
    }

    static string Make(Call one, string[] given) {
        var clock = Stopwatch.StartNew();
        var client = new Client {
            Url = (string)one["url"], Path = (string)one["file"], TimeoutSeconds = double.Parse(given[0], CultureInfo.InvariantCulture),
            Program = new Expected { PublicKeys = new[] { given[1] }, Product = "editor", Fingerprint = given[2] },
        };
        var status = Run(client, (string)one["call"], one);
        var seconds = clock.Elapsed.TotalSeconds.ToString(CultureInfo.InvariantCulture);
        var told = Json.Write(new Call { { "state", status.State }, { "detail", status.Problem?.Message ?? "" } });
        return told.TrimEnd('}') + $",\"valid\":{(status.Valid ? "true" : "false")},\"seconds\":{seconds}}}";
    }

    static Status Run(Client client, string call, Call one) {
        if (call == "check") return client.Check();
        if (call == "trial") return client.StartTrial();
        if (call == "activate") return client.Activate((string)one["license_key"]);
        if (call == "choose") return Choose(client, (string)one["license_key"]);
        try { return TakeLease(client, call, one); }
        catch (KeywrightException problem) { return new Status { State = problem.Code ?? "unreachable", Problem = problem }; }
    }

    static Status Choose(Client client, string key) {
        var full = client.Activate(key);
        var device = full.Problem.Devices[0];
        var status = client.Activate(key, null, (long)device["id"]);
        status.State = full.State + " " + status.State;
        status.Problem = new KeywrightException((string)device["name"], null);
        return status;
    }

    static Status TakeLease(Client client, string call, Call one) {
        Func<string, string> given = name => (string)one[name] == "" ? null : (string)one[name];
        var taken = client.TakeLease(given("holder"), call == "watch" ? 2 : (long?)null, given("license_key"));
        while (call == "watch" && !File.Exists(given("end"))) Thread.Sleep(5);
        var isHeld = taken.IsHeld;
        if (call != "lease") return new Status { Valid = isHeld, State = isHeld ? "held" : "lost" };
        taken.Renew();
        var status = client.Check();
        var wasHeld = taken.IsHeld;
        taken.Dispose();
        status.Valid = status.Valid && wasHeld && !taken.IsHeld;
        return status;
    }
}
}
