// Activates, and checks: mono example.exe URL LICENSE_KEY PUBLIC_KEY FILE DEVICE; prints a line of JSON for each.
using System;

static class Example {
    static void Main(string[] given) {
        var program = new Keywright.Expected { PublicKeys = new[] { given[2] }, Fingerprint = given[4] };
        var client = new Keywright.Client { Url = given[0], Path = given[3], Program = program };
        Show(client.Check());
        Show(client.Activate(given[1], "Example"));
        Show(client.Check());
    }

    static void Show(Keywright.Status status) {
        var detail = status.Problem == null ? "" : status.Problem.Message.Replace('\\', '/').Replace('"', '\'');
        var valid = status.Valid ? "true" : "false";
        Console.WriteLine($"{{\"valid\": {valid}, \"state\": \"{status.State}\", \"detail\": \"{detail}\"}}");
    }
}
