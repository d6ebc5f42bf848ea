"""The words by which names and e-mail addresses are found: in any case, and without accents."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

#: The longest term; a longer word is found by its beginning.
MAX_TERM_LENGTH = 24
#: The shortest part of an e-mail address by which it is found, where that does not begin a word.
LEAST_PART = 3
_WORD = re.compile(r"\w+")
#: Letters that are no letter with an accent, as people type them who do not have them.
LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "ŧ": "t", "þ": "th", "æ": "ae", "œ": "oe"}
)


def fold(text: str) -> str:
    """The text without case and accents: "MÜLLER" and "Muller", "Łukasz" and "lukasz" are the same."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(one for one in plain if not unicodedata.combining(one)).translate(LETTERS)


def split_words(text: str) -> list[str]:
    """The words of a text, folded, in their order."""
    return _WORD.findall(fold(text))


def cut_term(word: str) -> str:
    """The term of a word, or of the beginning of one."""
    return word[:MAX_TERM_LENGTH]


def terms_of(name: str | None, email: str | None = None) -> set[str]:
    """The terms for a name and an e-mail address: the words of both, and all ends of those of the address,
    so that each part of the address is the beginning of a term.
    """
    found = {cut_term(word) for word in split_words(name or "")}
    for word in split_words(email or ""):
        found.add(cut_term(word))
        found.update(cut_term(word[start:]) for start in range(1, len(word) - LEAST_PART + 1))
    return found


def match_for(typed: str) -> Callable[[str | None, str | None], bool]:
    """Checks for a name and an e-mail address whether each piece that was typed, between spaces, is a part of
    the address, or words of the name; the last may be the beginning of one.
    """
    pieces = list(_split_pieces(typed))

    def is_match(name: str | None, email: str | None) -> bool:
        words, address = split_words(name or ""), fold(email or "")
        return all(piece in address or _are_words(parts, words) for piece, parts in pieces)

    return is_match


def _are_words(parts: Sequence[str], words: Sequence[str]) -> bool:
    return all(part in words for part in parts[:-1]) and any(word.startswith(parts[-1]) for word in words)


def terms_for(typed: str) -> list[tuple[str, bool]]:
    """The terms that whatever matches has, each with whether it need only begin so. One for a single short
    word, which may also be a part of an address that has no term.
    """
    found = [
        (cut_term(part), number == len(parts) - 1 or len(part) > MAX_TERM_LENGTH)
        for _, parts in _split_pieces(typed)
        for number, part in enumerate(parts)
        if number > 0 or len(part) >= LEAST_PART
    ]
    return found or [(cut_term(part), True) for part in split_words(typed)[-1:]]


def _split_pieces(typed: str) -> Iterator[tuple[str, list[str]]]:
    """The parts of a text between spaces, folded, each with its words."""
    pieces = ((piece, _WORD.findall(piece)) for piece in fold(typed).split())
    return (one for one in pieces if one[1])
