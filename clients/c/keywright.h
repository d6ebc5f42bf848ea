/* Verifies signed answers and license files of Keywright. Needs OpenSSL 3 (-lcrypto). MIT license. */
#ifndef KEYWRIGHT_H
#define KEYWRIGHT_H

#include <stddef.h>

/*
 * What an answer must fit; what is NULL is not compared, but for built_at (like 2026-11-22T08:54:00Z): what is for one
 * build is refused by every other. Where a nonce was sent, operation (the path below /v3/) and body (the request's, as it
 * was sent) are the question: a no need not name a license, and would fit another.
 */
struct keywright_expected {
    const char *const *public_keys; /* those that the program pins: base64url of 32 bytes each; ends with NULL */
    const char *issuer, *product, *license_key, *fingerprint, *built_at, *nonce, *operation, *body;
    long long now; /* in seconds since 1970; 0: the times are not compared */
};

/*
 * Verifies a signed answer or a license file. Returns NULL where it is to be believed, else the name of the rule that
 * refuses it. *valid is then what the license is: 1 or 0. *claims is the payload, JSON with a 0 at its end, which the
 * caller frees; it is set where the result is NULL. `claims` and `valid` may be NULL.
 */
const char *keywright_verify(const char *text, size_t length, const struct keywright_expected *expected,
                             int *valid, char **claims);

/* What the customer is told at no_lease. */
#define KEYWRIGHT_NO_LEASE                               \
    "This program has no place in the shared license. " \
    "Start the program again; where every place is taken, end it on another device first."

/*
 * The state that verified claims lead to by themselves, one of those in clients/README.md. no_lease is about this
 * program, not the license: keep what is kept.
 */
const char *keywright_state(const char *claims);

/*
 * The keys to believe: those that were learnt from key sets (what GET /v3/signing-keys gave; both lists end with NULL)
 * take the place of the pinned ones. Returns a list that ends with NULL, in one block that the caller frees; NULL where
 * there is no memory.
 */
char **keywright_follow_key_sets(const char *const *public_keys, const char *const *key_sets, long long now);

#endif
