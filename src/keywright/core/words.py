"""Search terms for names and e-mail addresses, which are found regardless of case and accents."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

#: The maximum length of a term; longer words are indexed by their beginning.
MAX_TERM_LENGTH = 24
#: The shortest part of an e-mail address by which it can be found, unless the part begins a word.
LEAST_PART = 3
_WORD = re.compile(r"\w+")
#: Letters that do not decompose into a letter and an accent, with what people type instead.
LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "ŧ": "t", "þ": "th", "æ": "ae", "œ": "oe"}
)


def fold(text: str) -> str:
    """Fold case and remove accents: "MÜLLER" and "muller", "Łukasz" and "lukasz" become equal."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(one for one in plain if not unicodedata.combining(one)).translate(LETTERS)


def split_words(text: str) -> list[str]:
    """The folded words of a text, in order."""
    return _WORD.findall(fold(text))


def cut_term(word: str) -> str:
    """The term for a word: its beginning, if it is long."""
    return word[:MAX_TERM_LENGTH]


def terms_of(name: str | None, email: str | None = None) -> set[str]:
    """The terms for a name and an e-mail address: the words of both, and all suffixes of the words of the
    address, so that every part of the address is a prefix of some term.
    """
    found = {cut_term(word) for word in split_words(name or "")}
    for word in split_words(email or ""):
        found.add(cut_term(word))
        found.update(cut_term(word[start:]) for start in range(1, len(word) - LEAST_PART + 1))
    return found


def match_for(typed: str) -> Callable[[str | None, str | None], bool]:
    """Return a function that checks a name and an e-mail address against the query: each piece of it,
    separated by spaces, must be part of the address or match words of the name; its last word may be a
    prefix.
    """
    pieces = list(_split_pieces(typed))

    def is_match(name: str | None, email: str | None) -> bool:
        words, address = split_words(name or ""), fold(email or "")
        return all(piece in address or _are_words(parts, words) for piece, parts in pieces)

    return is_match


def _are_words(parts: Sequence[str], words: Sequence[str]) -> bool:
    return all(part in words for part in parts[:-1]) and any(word.startswith(parts[-1]) for word in words)


def terms_for(typed: str) -> list[tuple[str, bool]]:
    """The terms that every match has, each with whether a prefix is enough. A single short word gives one
    term, although it may also match a part of an address that has no term.
    """
    found = [
        (cut_term(part), number == len(parts) - 1 or len(part) > MAX_TERM_LENGTH)
        for _, parts in _split_pieces(typed)
        for number, part in enumerate(parts)
        if number > 0 or len(part) >= LEAST_PART
    ]
    return found or [(cut_term(part), True) for part in split_words(typed)[-1:]]


def _split_pieces(typed: str) -> Iterator[tuple[str, list[str]]]:
    """The folded pieces of a text, separated by spaces, each with its words."""
    pieces = ((piece, _WORD.findall(piece)) for piece in fold(typed).split())
    return (one for one in pieces if one[1])
