"""The line that pins public keys in a program, in six languages. Pure."""

from collections.abc import Sequence

_PATTERNS = {
    "Python": "PUBLIC_KEYS = [{keys}]",
    "JavaScript": "const publicKeys = [{keys}];",
    "PHP": "$publicKeys = [{keys}];",
    "Go": "var publicKeys = []string{{{keys}}}",
    "C": "static const char *const public_keys[] = {{{keys}, NULL}};",
    "C#": "static readonly string[] PublicKeys = {{ {keys} }};",
}


def lines_to_paste(public_keys: Sequence[str]) -> dict[str, str]:
    """The line by language; keys are base64url, which needs no escapes in any of them."""
    keys = ", ".join(f'"{one}"' for one in public_keys)
    return {language: pattern.format(keys=keys) for language, pattern in _PATTERNS.items()}
