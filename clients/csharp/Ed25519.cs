// Ed25519 signatures for Keywright.cs, which .NET does not have. Reference System.Numerics. MIT license.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Numerics;
using System.Security.Cryptography;

namespace Keywright {
/// <summary>Ed25519 signatures (RFC 8032), strict: S below L, canonical points, no keys of a small order. It verifies
/// only: it holds no secret, so its timing does not matter. A number of the field has 16 limbs of 16 bits.</summary>
static class Ed25519 {
    static readonly BigInteger P = BigInteger.Pow(2, 255) - 19;
    static readonly BigInteger L = BigInteger.Pow(2, 252) + BigInteger.Parse("27742317777372353535851937790883648493");
    static readonly BigInteger D = -121665 * BigInteger.ModPow(121666, P - 2, P) % P + P, Root = BigInteger.ModPow(2, (P - 1) / 4, P);
    static readonly long[] TwiceD = Limbs(2 * D % P);
    static readonly long[][] Neutral = { Limbs(0), Limbs(1), Limbs(1), Limbs(0) };
    static readonly long[][] Base = Point(4 * BigInteger.ModPow(5, P - 2, P) % P, false);

    public static bool IsValid(byte[] key, byte[] message, byte[] signature) {
        if (key.Length != 32 || signature.Length != 64) return false;
        BigInteger y = Little(key), s = Little(signature.Skip(32)), half = BigInteger.Pow(2, 255);
        var point = Point(y % half, y >= half);
        // For a point of a small order, signatures need no private key.
        if (point == null || s >= L || Number(SumOfProducts(8, point, 0, Neutral)[0]).IsZero) return false;
        byte[] digest;
        using (var sha = SHA512.Create()) digest = sha.ComputeHash(signature.Take(32).Concat(key).Concat(message).ToArray());
        // R = sB - kA; comparing bytes refuses every other encoding of R.
        long[][] minus = { Minus(Neutral[0], point[0]), point[1], point[2], Minus(Neutral[0], point[3]) };
        var sum = SumOfProducts(s, Base, Little(digest) % L, minus);
        var inverse = BigInteger.ModPow(Number(sum[2]), P - 2, P);
        BigInteger x = Number(sum[0]) * inverse % P, found = Number(sum[1]) * inverse % P + (x.IsEven ? 0 : half);
        return found == Little(signature.Take(32));
    }

    static BigInteger Little(IEnumerable<byte> bytes) { return new BigInteger(bytes.Concat(new byte[1]).ToArray()); }

    /// <summary>The point with this y and sign of x; null where there is none, or where this is not its one form.</summary>
    static long[][] Point(BigInteger y, bool isOdd) {
        BigInteger u = (y * y - 1 + P) % P, v = (D * y * y + 1) % P;
        var x = u * BigInteger.Pow(v, 3) % P * BigInteger.ModPow(u * BigInteger.Pow(v, 7), (P - 5) / 8, P) % P;
        if (v * x * x % P != u) x = x * Root % P;
        if (y >= P || v * x * x % P != u || (x.IsZero && isOdd)) return null;
        x = x.IsEven == isOdd ? P - x : x;
        return new[] { Limbs(x), Limbs(y), Limbs(1), Limbs(x * y % P) };
    }

    /// <summary>The point sp + kq, bit by bit for both at once.</summary>
    static long[][] SumOfProducts(BigInteger s, long[][] p, BigInteger k, long[][] q) {
        var choices = new[] { null, p, q, Add(p, q) };
        var result = Neutral;
        byte[] first = s.ToByteArray(), second = k.ToByteArray();
        for (var bit = Math.Max(first.Length, second.Length) * 8 - 1; bit >= 0; bit--) {
            result = Add(result, result);
            var choice = choices[Bit(first, bit) | Bit(second, bit) << 1];
            if (choice != null) result = Add(result, choice);
        }
        return result;
    }

    static int Bit(byte[] bytes, int bit) { return bit / 8 < bytes.Length ? bytes[bit / 8] >> bit % 8 & 1 : 0; }

    static long[][] Add(long[][] p, long[][] q) {
        long[] a = Times(Minus(p[1], p[0]), Minus(q[1], q[0])), b = Times(Plus(p[1], p[0]), Plus(q[1], q[0]));
        long[] c = Times(Times(p[3], q[3]), TwiceD), d = Times(Plus(p[2], p[2]), q[2]);
        long[] e = Minus(b, a), f = Minus(d, c), g = Plus(d, c), h = Plus(b, a);
        return new[] { Times(e, f), Times(g, h), Times(f, g), Times(e, h) };
    }

    static long[] Limbs(BigInteger number) { return Enumerable.Range(0, 16).Select(i => (long)(number >> 16 * i & 65535)).ToArray(); }

    static BigInteger Number(long[] limbs) {
        var number = BigInteger.Zero;
        for (var i = 15; i >= 0; i--) number = number * 65536 + limbs[i];
        return (number % P + P) % P;
    }

    static long[] Plus(long[] a, long[] b) {
        var sum = new long[16];
        for (var i = 0; i < 16; i++) sum[i] = a[i] + b[i];
        return sum;
    }

    static long[] Minus(long[] a, long[] b) {
        var difference = new long[16];
        for (var i = 0; i < 16; i++) difference[i] = a[i] - b[i];
        return difference;
    }

    static long[] Times(long[] a, long[] b) {
        long[] wide = new long[32], product = new long[16];
        for (var i = 0; i < 16; i++)
            for (var j = 0; j < 16; j++) wide[i + j] += a[i] * b[j];
        // 2^256 is 38 here.
        for (var i = 0; i < 16; i++) product[i] = wide[i] + 38 * wide[i + 16];
        for (var round = 0; round < 2; round++) {
            for (var i = 0; i < 16; i++) {
                var carry = product[i] >> 16;
                product[i] -= carry << 16;
                product[(i + 1) % 16] += i < 15 ? carry : 38 * carry;
            }
        }
        return product;
    }
}
}
