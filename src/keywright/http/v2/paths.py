"""The words of a path: split first and decoded afterwards, for a key may have any characters."""

from collections.abc import Sequence
from urllib.parse import unquote_to_bytes


def parse_setting(setting: str) -> list[str]:
    """The words of a setting such as ``api_root``."""
    return [word for word in setting.split("/") if word]


def decode_words(words: Sequence[bytes]) -> list[str]:
    """The words of a path, each percent-decoded once; bytes that are not UTF-8 become lone surrogates."""
    return [
        unquote_to_bytes(word).decode("utf-8", "surrogateescape") if b"%" in word else word.decode("latin-1")
        for word in words
    ]


def to_text(word: str) -> str:
    """The word with U+FFFD for bytes that are not UTF-8."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def parse_rest_route(value: bytes) -> list[str]:
    """The words of a ``rest_route`` parameter as it is in the query, decoded once.

    A value with unescaped slashes is read like a path.
    """
    value = value.replace(b"+", b"%20")
    if b"/" in value:
        return decode_words([word for word in value.split(b"/") if word])
    return [word for word in decode_words([value])[0].split("/") if word]


def join_key(words: list[str]) -> list[str]:
    """The words below ``v2``, with a key that was split at its slashes as one word."""
    if words[:1] != ["licenses"] or len(words) < 3:
        return words
    start = 2 if words[1] in ("activate", "validate", "deactivate") else 1
    return [*words[:start], "/".join(words[start:])]
