// Runs the shared vectors: mono vectors.exe ../vectors; prints what differs, and figures.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Text;
using Case = System.Collections.Generic.Dictionary<string, object>;

namespace Keywright {
static class Vectors {
    static int Main(string[] arguments) {
        int cases = 0, wrong = 0, accepted = 0;
        Case good = null;
        foreach (var file in Directory.GetFiles(arguments[0], "*.json")) {
            foreach (Case one in (List<object>)((Case)Json.Parse(File.ReadAllText(file)))["cases"]) {
                var found = Run(one, (string)one["text"]);
                var expected = (string)one["result"] == "ok" ? "ok " + one["valid"] + " " + one["state"] : (string)one["result"];
                cases++;
                if ((string)one["name"] == "a good answer") good = one;
                if (found == expected) continue;
                wrong++;
                Console.WriteLine($"{Path.GetFileName(file)}: {one["name"]}: {found}, not {expected}");
            }
        }
        Console.WriteLine($"{cases} cases, {wrong} wrong");
        // A good answer, bits of it altered: one in seventeen, so that it is done soon.
        var altered = 0;
        for (var bit = 0; bit < ((string)good["text"]).Length * 8; bit += 17, altered++) {
            var text = ((string)good["text"]).ToCharArray();
            text[bit / 8] ^= (char)(1 << bit % 8);
            if (Run(good, new string(text)).StartsWith("ok")) accepted++;
        }
        Console.WriteLine($"{altered} altered, {accepted} accepted");
        var began = Process.GetCurrentProcess().TotalProcessorTime;
        for (var time = 0; time < 200; time++) Run(good, (string)good["text"]);
        var took = Process.GetCurrentProcess().TotalProcessorTime - began;
        Console.WriteLine(FormattableString.Invariant($"one verification: {took.TotalMilliseconds / 200:F3} ms"));
        return wrong == 0 && cases > 0 && accepted == 0 ? 0 : 1;
    }

    static string Run(Case one, string text) {
        if (one["pad_to"] != null) text += new string(' ', (int)(long)one["pad_to"] - Encoding.UTF8.GetByteCount(text));
        Func<string, string> member = name => (string)one[name];
        Func<string, IEnumerable<string>> list = name => ((List<object>)one[name]).Cast<string>();
        var now = (long)one["now"];
        var want = new Expected {
            PublicKeys = Verifier.FollowKeySets(list("public_keys"), list("key_sets"), now, new List<string>()),
            Issuer = member("issuer"), Product = member("product"), LicenseKey = member("license_key"),
            Fingerprint = member("fingerprint"), BuiltAt = member("built_at"), Nonce = member("nonce"), Operation = member("operation"), Body = member("body"), Now = now,
        };
        try {
            var claims = Verifier.Verify(text, want);
            return "ok " + claims["valid"] + " " + Client.StateOf(claims);
        } catch (KeywrightException problem) {
            return problem.Code;
        }
    }
}
}
