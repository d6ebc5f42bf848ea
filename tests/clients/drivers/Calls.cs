// Makes calls with the client for C#; see tests/clients/library.py.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
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
        var status = (string)one["call"] == "check" ? client.Check() : client.Activate((string)one["license_key"]);
        var seconds = clock.Elapsed.TotalSeconds.ToString(CultureInfo.InvariantCulture);
        var told = Json.Write(new Call { { "state", status.State }, { "detail", status.Problem?.Message ?? "" } });
        return told.TrimEnd('}') + $",\"valid\":{(status.Valid ? "true" : "false")},\"seconds\":{seconds}}}";
    }
}
}
