/* The rules for signed answers of Keywright, in the order of clients/vectors/README.md. MIT license. */
#include "keywright.h"

#include <limits.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 65536, TOLERANCE = 300, MAX_DEPTH = 200, KEY = 32, SIGNATURE = 64 };
static const char BEGIN[] = "-----BEGIN KEYWRIGHT LICENSE-----", END[] = "-----END KEYWRIGHT LICENSE-----";

/* A part of a text. */
struct span { const char *at, *end; };

/* --- base64url, in its one form --- */

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void encode(const unsigned char *bytes, size_t length, char *out) {
    for (size_t i = 0; i < length; i += 3) {
        unsigned n = bytes[i] << 16 | (i + 1 < length ? bytes[i + 1] << 8 : 0) | (i + 2 < length ? bytes[i + 2] : 0);
        for (size_t j = 0; j < (length - i > 2 ? 4 : length - i + 1); j++) *out++ = ALPHABET[n >> (18 - 6 * j) & 63];
    }
    *out = 0;
}

/* The number of bytes; -1 for a text in another form. `out` holds three bytes for each four characters, and a 0. */
static long decode(struct span text, unsigned char *out) {
    size_t length = text.end - text.at, done = 0;
    unsigned n = 0;
    for (size_t i = 0; i < length; i++) {
        const char *digit = text.at[i] ? strchr(ALPHABET, text.at[i]) : NULL;
        if (!digit) return -1;
        n = n << 6 | (unsigned)(digit - ALPHABET);
        if (i % 4) out[done++] = n >> (6 - 2 * (i % 4)) & 255;
    }
    /* One character alone is no byte; the bits that are left over are 0. */
    if (length % 4 == 1 || (length % 4 == 2 && n & 15) || (length % 4 == 3 && n & 3)) return -1;
    out[done] = 0;
    return (long)done;
}

static int is_key(const char *text, unsigned char *key) {
    return strlen(text) == 43 && decode((struct span){text, text + 43}, key) == KEY;
}

/* base64url of SHA-256 of these parts, which end with NULL; "" where there is no memory. */
static void hash(const char *const *parts, char *out) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    unsigned length = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int is_good = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    for (; is_good && *parts; parts++) is_good = EVP_DigestUpdate(context, *parts, strlen(*parts));
    *out = 0;
    if (is_good && EVP_DigestFinal_ex(context, digest, &length)) encode(digest, length, out);
    EVP_MD_CTX_free(context);
}

/* --- JSON (RFC 8259): a text is looked through as a whole before anything is read from it --- */

static const char *skip_space(const char *p) { return p + strspn(p, " \t\r\n"); }

/* Past one character in UTF-8; NULL for what is none. */
static const char *skip_utf8(const char *p) {
    const unsigned char *u = (const unsigned char *)p;
    int more = u[0] < 0x80 ? 0 : u[0] >= 0xc2 && u[0] < 0xe0 ? 1 : u[0] >= 0xe0 && u[0] < 0xf0 ? 2 : u[0] >= 0xf0 && u[0] < 0xf5 ? 3 : -1;
    for (int i = 1; i <= more; i++)
        if (u[i] >> 6 != 2) return NULL;
    int is_bad = more < 0 || (u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
                 (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f);
    return is_bad ? NULL : p + 1 + more;
}

static const char *skip_string(const char *p) {
    if (*p++ != '"') return NULL;
    while (p && *p != '"') {
        if ((unsigned char)*p < 0x20) return NULL;
        if (*p != '\\') p = skip_utf8(p);
        else if (p[1] == 'u') p = strspn(p + 2, "0123456789abcdefABCDEF") < 4 ? NULL : p + 6;
        else p = p[1] && strchr("\"\\/bfnrt", p[1]) ? p + 2 : NULL;
    }
    return p ? p + 1 : NULL;
}

static const char *skip_number(const char *p) {
    static const char DIGITS[] = "0123456789";
    p += *p == '-';
    size_t digits = strspn(p, DIGITS);
    if (!digits || (*p == '0' && digits > 1)) return NULL;
    p += digits;
    if (*p == '.' && !(digits = strspn(++p, DIGITS))) return NULL;
    if (p[-1] == '.') p += digits;
    if (*p != 'e' && *p != 'E') return p;
    p += 1 + (p[1] == '+' || p[1] == '-');
    digits = strspn(p, DIGITS);
    return digits ? p + digits : NULL;
}

static const char *skip_value(const char *p, int depth) {
    static const char *const WORDS[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++)
        if (!strncmp(p, WORDS[i], strlen(WORDS[i]))) return p + strlen(WORDS[i]);
    if (*p == '"') return skip_string(p);
    if (*p != '{' && *p != '[') return skip_number(p);
    char close = *p == '{' ? '}' : ']';
    if (depth >= MAX_DEPTH) return NULL;
    p = skip_space(p + 1);
    if (*p == close) return p + 1;
    for (;;) {
        if (close == '}') {
            if (!(p = skip_string(p)) || *(p = skip_space(p)) != ':') return NULL;
            p = skip_space(p + 1);
        }
        if (!(p = skip_value(p, depth + 1))) return NULL;
        p = skip_space(p);
        if (*p == close) return p + 1;
        if (*p != ',') return NULL;
        p = skip_space(p + 1);
    }
}

/* The next character of a JSON string as UTF-8: how many bytes. A half of a pair alone is as if it were a character. */
static int read_char(const char **p, char *out) {
    static const char FROM[] = "bfnrt", TO[] = "\b\f\n\r\t";
    unsigned code, low;
    const char *found;
    if (**p != '\\') return *out = *(*p)++, 1;
    (*p) += 2;
    if ((*p)[-1] != 'u') return *out = (found = strchr(FROM, (*p)[-1])) ? TO[found - FROM] : (*p)[-1], 1;
    sscanf(*p, "%4x", &code);
    *p += 4;
    if (code >> 10 == 0x36 && (*p)[0] == '\\' && (*p)[1] == 'u' && sscanf(*p + 2, "%4x", &low) && low >> 10 == 0x37) {
        code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
        *p += 6;
    }
    if (code < 0x80) return *out = (char)code, 1;
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    for (int i = more; i; i--, code >>= 6) out[i] = (char)(0x80 | (code & 63));
    out[0] = (char)((0xf00 >> more & 0xf0) | code);
    return more + 1;
}

/* Whether a JSON value is this text. */
static int is_text(const char *p, const char *expected) {
    char bytes[4];
    if (!p || *p++ != '"') return 0;
    for (size_t left = strlen(expected); *p != '"';) {
        int length = read_char(&p, bytes);
        if ((size_t)length > left || memcmp(bytes, expected, (size_t)length)) return 0;
        expected += length, left -= (size_t)length;
    }
    return !*expected;
}

/* The value of an object's member, the last one of that name; NULL where there is none, or where it is null. */
static const char *find(const char *object, const char *name) {
    const char *found = NULL;
    if (!object || *object != '{') return NULL;
    for (const char *p = skip_space(object + 1); *p == '"' || *p == ',';) {
        p = *p == ',' ? skip_space(p + 1) : p;
        const char *value = skip_space(skip_space(skip_string(p)) + 1);
        if (is_text(p, name)) found = *value == 'n' ? NULL : value;
        p = skip_space(skip_value(value, 0));
    }
    return found;
}

static int read_integer(const char *p, long long *value) {
    const char *end = p ? skip_number(p) : NULL;
    size_t length = p ? strspn(p + (*p == '-'), "0123456789") : 0;
    if (!end || length > 18 || end != p + (*p == '-') + length) return 0;
    return *value = strtoll(p, NULL, 10), 1;
}

/* --- JWS (RFC 7515) --- */

static int is_signed(const unsigned char *key, struct span text, const unsigned char *signature) {
    EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, KEY);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int is_good = pkey && context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, pkey) == 1 &&
                  EVP_DigestVerify(context, signature, SIGNATURE, (const unsigned char *)text.at, (size_t)(text.end - text.at)) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(pkey);
    return is_good;
}

static int is_header_of(struct span header, const char *public_key, const char *type) {
    char kid[48], json[160], expected[224];
    hash((const char *[]){"{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"", public_key, "\"}", NULL}, kid);
    for (int i = 0; i < 2; i++) {
        int length = snprintf(json, sizeof json, "{\"alg\":\"%s\",\"kid\":\"%s\",\"typ\":\"%s\"}", i ? "Ed25519" : "EdDSA", kid, type);
        encode((const unsigned char *)json, (size_t)length, expected);
        size_t size = strlen(expected);
        if (size == (size_t)(header.end - header.at) && !memcmp(header.at, expected, size)) return 1;
    }
    return 0;
}

/* The payload, once its signature holds, in `payload` (as long as the token). The token only chooses a key. */
static const char *open_token(struct span token, const char *type, const char *const *keys, char *payload) {
    const char *dots[3] = {0};
    int count = 0;
    for (const char *p = token.at; p < token.end; p++)
        if (*p == '.' && count < 3) dots[count++] = p;
    if (count != 2) return "not_three_parts";
    unsigned char key[KEY + 1], signature[SIGNATURE];
    while (*keys && !(is_header_of((struct span){token.at, dots[0]}, *keys, type) && is_key(*keys, key))) keys++;
    if (!*keys) return "header";
    long signed_length = decode((struct span){dots[1] + 1, token.end}, (unsigned char *)payload);
    if (signed_length == SIGNATURE) memcpy(signature, payload, SIGNATURE);
    long length = decode((struct span){dots[0] + 1, dots[1]}, (unsigned char *)payload);
    if (length < 0 || signed_length < 0) return "base64url";
    if (signed_length != SIGNATURE || !is_signed(key, (struct span){token.at, dots[1]}, signature)) return "signature";
    const char *end = *payload == '{' || strchr(" \t\r\n", *payload) ? skip_value(skip_space(payload), 0) : NULL;
    return end && *skip_space(end) == 0 && skip_space(end) == payload + length && *skip_space(payload) == '{' ? NULL : "payload";
}

/* The length of the token within a license file, which is written to `token` (as long as the text); -1: no last line. */
static long unarmour(const char *text, size_t length, char *token) {
    const char *end = text + length;
    int is_inside = 0;
    char *out = token;
    if (length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3;
    for (const char *line = text, *next; line <= end; line = next + 1) {
        if (!(next = memchr(line, '\n', (size_t)(end - line)))) next = end;
        const char *last = next;
        while (last > line && strchr(" \t\r", last[-1]) && last[-1]) last--;
        size_t size = (size_t)(last - line);
        if (is_inside && size == sizeof END - 1 && !memcmp(line, END, size)) return (long)(out - token);
        if (is_inside) memcpy(out, line, size), out += size;
        is_inside |= size == sizeof BEGIN - 1 && !memcmp(line, BEGIN, size);
    }
    while (text < end && *text && strchr(" \t\r\n", *text)) text++;
    while (end > text && end[-1] && strchr(" \t\r\n", end[-1])) end--;
    memcpy(token, text, (size_t)(end - text));
    return is_inside ? -1 : (long)(end - text);
}

/* Whether it is for this device or key. Only an answer that says no may leave open for which it is. */
static int fits(const char *claims, const char *claim, const char *member, const char *expected, int is_valid) {
    const char *found = find(claims, claim);
    return found ? is_text(find(found, member), expected) : !is_valid;
}

static const char *find_broken_rule(const char *claims, const struct keywright_expected *expected, int *valid) {
    long long iat, nbf, exp;
    char key_hash[48], asked[48];
    const char *answer = find(claims, "valid");
    if (!read_integer(find(claims, "iat"), &iat) || !read_integer(find(claims, "nbf"), &nbf) ||
        !read_integer(find(claims, "exp"), &exp) || !answer || (*answer != 't' && *answer != 'f'))
        return "payload";
    *valid = *answer == 't';
    if (expected->issuer && !is_text(find(claims, "iss"), expected->issuer)) return "issuer";
    if (expected->product && !is_text(find(claims, "aud"), expected->product)) return "audience";
    if (expected->now && nbf > expected->now + TOLERANCE) return "not_yet_valid";
    if (expected->now && exp <= expected->now) return "expired";
    if (expected->fingerprint && !fits(claims, "activation", "fingerprint", expected->fingerprint, *valid)) return "device";
    hash((const char *[]){"keywright-license-key:", expected->license_key ? expected->license_key : "", NULL}, key_hash);
    if (expected->license_key && (!*key_hash || !fits(claims, "license", "key_hash", key_hash, *valid))) return "license_key";
    const char *built_at = find(claims, "built_at");
    if (built_at && !(expected->built_at && is_text(built_at, expected->built_at))) return "build";
    if (!expected->nonce) return NULL;
    if (!is_text(find(claims, "nonce"), expected->nonce)) return "nonce";
    if (!expected->operation || !expected->body) return "question";
    hash((const char *[]){"keywright-question:", expected->operation, "\n", expected->body, NULL}, asked);
    return *asked && is_text(find(claims, "asked"), asked) ? NULL : "question";
}

const char *keywright_state(const char *claims) {
    static const char *const STATES[][2] = {
        {"disabled", "disabled"}, {"inactive", "disabled"}, {"expired", "expired"}, {"version_not_covered", "expired"},
        {"limit_reached", "limit_reached"}, {"too_many_new_devices", "limit_reached"}, {"no_removal_left", "limit_reached"},
        {"lease_lost", "no_lease"}, {"lease_required", "no_lease"},
    };
    claims = skip_space(claims);
    const char *valid = find(claims, "valid"), *code = find(claims, "code"), *p = find(claims, "codes");
    if (!valid || *valid != 't') {
        for (size_t i = 0; i < sizeof STATES / sizeof *STATES; i++)
            if (is_text(code, STATES[i][0])) return STATES[i][1];
        return "not_activated";
    }
    for (p = p && *p == '[' ? skip_space(p + 1) : "]"; *p != ']'; p = skip_space(p + (*p == ','))) {
        if (is_text(p, "grace")) return "grace";
        p = skip_space(skip_value(p, 0));
    }
    return "valid";
}

const char *keywright_verify(const char *text, size_t length, const struct keywright_expected *expected, int *valid,
                             char **claims) {
    if (length > MAX_BYTES) return "too_large";
    char *token = malloc(length + 1), *payload = malloc(length + 1);
    int is_valid = 0;
    const char *rule = "memory";
    if (token && payload) {
        long size = unarmour(text, length, token);
        rule = size < 0 ? "armour" : open_token((struct span){token, token + size}, "keywright-license+jwt", expected->public_keys, payload);
        if (!rule) rule = find_broken_rule(skip_space(payload), expected, &is_valid);
    }
    if (valid) *valid = !rule && is_valid;
    free(token);
    if (!rule && claims) return *claims = payload, NULL;
    free(payload);
    return rule;
}

/* A list with room for so many keys, in one block, and the texts behind it. */
static char **new_list(size_t room) { return calloc(1, (room + 1) * sizeof(char *) + room * 44); }

static void add_key(char **list, size_t room, const char *key) {
    size_t count = 0;
    while (list[count]) count++;
    list[count] = (char *)(list + room + 1) + count * 44;
    memcpy(list[count], key, 43);
}

/* The keys of a set that a trusted key has signed; NULL for another one. */
static char **read_key_set(const char *text, const char *const *trusted, long long now, long long *iat) {
    /* No JWK is shorter than the key in it. */
    size_t length = strlen(text), room = length / 44;
    char *payload = length > MAX_BYTES ? NULL : malloc(length + 1), **list = payload ? new_list(room) : NULL;
    long long exp = 0;
    struct span token = {text, text + length};
    if (list && !open_token(token, "keywright-keys+jwt", trusted, payload)) {
        const char *claims = skip_space(payload), *p = find(claims, "keys");
        int is_good = read_integer(find(claims, "iat"), iat) && read_integer(find(claims, "exp"), &exp) && now < exp;
        for (p = is_good && p && *p == '[' ? skip_space(p + 1) : "]"; *p != ']'; p = skip_space(p + (*p == ','))) {
            const char *x = find(p, "x");
            unsigned char key[KEY + 1];
            int is_one = is_text(find(p, "kty"), "OKP") && is_text(find(p, "crv"), "Ed25519") && x && *x == '"';
            if (is_one && skip_string(x) - x == 45 && decode((struct span){x + 1, x + 44}, key) == KEY)
                add_key(list, room, x + 1);
            p = skip_space(skip_value(p, 0));
        }
    }
    free(payload);
    if (list && *list) return list;
    free(list);
    return NULL;
}

char **keywright_follow_key_sets(const char *const *public_keys, const char *const *key_sets, long long now) {
    size_t pinned = 0, sets = 0;
    while (public_keys[pinned]) pinned++;
    while (key_sets[sets]) sets++;
    char **trusted = new_list(pinned), *is_taken = calloc(sets + 1, 1);
    unsigned char key[KEY + 1];
    for (size_t i = 0; trusted && i < pinned; i++)
        if (is_key(public_keys[i], key)) add_key(trusted, pinned, public_keys[i]);
    for (long long since = LLONG_MIN; trusted && is_taken;) {
        char **newest = NULL;
        size_t taken = 0;
        for (size_t i = 0; i < sets; i++) {
            long long iat;
            char **found = is_taken[i] ? NULL : read_key_set(key_sets[i], (const char *const *)trusted, now, &iat);
            int is_newer = found && iat >= since && (!newest || iat > since);
            free(is_newer ? newest : found);
            if (is_newer) newest = found, taken = i, since = iat;
        }
        if (!newest) break;
        is_taken[taken] = 1;
        free(trusted);
        trusted = newest;
    }
    free(is_taken);
    return trusted;
}
