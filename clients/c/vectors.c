/*
 * Runs one vector, given as lines in a file: public keys (with spaces between them), key sets, issuer, product, license
 * key, fingerprint, build, nonce, operation, body ("-" for none), now; the rest is the text. Prints the rule, or ok,
 * whether it is valid, and its state.
 * With a second argument, each bit of a good text is altered, too: a line says how many of these are accepted, and
 * another one how long a verification takes.
 */
#include "keywright.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 1 << 20, WORDS = 64 };

static char *next_line(char **rest) {
    char *line = *rest, *end = strchr(line, '\n');
    *end = 0;
    *rest = end + 1;
    return line;
}

static const char *or_null(const char *line) {
    return strcmp(line, "-") ? line : NULL;
}

static void split(char *line, const char **words) {
    size_t count = 0;
    for (char *word = strtok(line, " "); word && count < WORDS - 1; word = strtok(NULL, " ")) words[count++] = word;
    words[count] = NULL;
}

int main(int argc, char **argv) {
    char *all = calloc(1, MOST), *rest = all;
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!all || !file) return 2;
    size_t length = fread(all, 1, MOST - 1, file);
    const char *pinned[WORDS], *sets[WORDS];
    struct keywright_expected expected = {0};
    split(next_line(&rest), pinned);
    split(next_line(&rest), sets);
    expected.issuer = or_null(next_line(&rest));
    expected.product = or_null(next_line(&rest));
    expected.license_key = or_null(next_line(&rest));
    expected.fingerprint = or_null(next_line(&rest));
    expected.built_at = or_null(next_line(&rest));
    expected.nonce = or_null(next_line(&rest));
    expected.operation = or_null(next_line(&rest));
    expected.body = or_null(next_line(&rest));
    expected.now = strtoll(next_line(&rest), NULL, 10);
    char **keys = keywright_follow_key_sets(pinned, sets, expected.now), *claims = NULL;
    if (!keys) return 2;
    expected.public_keys = (const char *const *)keys;
    int valid;
    size_t size = length - (size_t)(rest - all), accepted = 0;
    const char *rule = keywright_verify(rest, size, &expected, &valid, &claims);
    if (rule) printf("%s\n", rule);
    else printf("ok %s %s\n", valid ? "true" : "false", keywright_state(claims));
    for (size_t bit = 0; argc > 2 && !rule && bit < size * 8; bit++) {
        rest[bit / 8] ^= (char)(1 << bit % 8);
        accepted += !keywright_verify(rest, size, &expected, NULL, NULL);
        rest[bit / 8] ^= (char)(1 << bit % 8);
    }
    if (argc > 2) printf("%zu altered, %zu accepted\n", size * 8, accepted);
    clock_t began = clock();
    for (int time = 0; argc > 2 && time < 200; time++) (void)keywright_verify(rest, size, &expected, NULL, NULL);
    if (argc > 2) printf("one verification: %.3f ms\n", (double)(clock() - began) * 5 / CLOCKS_PER_SEC);
    fclose(file), free(claims), free(keys), free(all);
    return 0;
}
