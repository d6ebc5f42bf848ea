// JSON for Keywright's client for C#. MIT license.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;
using System.Text.RegularExpressions;

namespace Keywright {
using Claims = Dictionary<string, object>;

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
        if (value is long) return ((long)value).ToString(CultureInfo.InvariantCulture);
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
}
