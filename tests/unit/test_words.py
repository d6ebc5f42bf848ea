"""Names and e-mail addresses are found by their words, in any case."""

from hypothesis import given
from hypothesis import strategies as st

from keywright.core.words import MAX_TERM_LENGTH, match_for, split_words, terms_for, terms_of
from tests.tables import each_row

NAME, EMAIL = "Élodie O'Neill-Müller GmbH", "e.oneill+shop@larch-street.example"


@each_row(
    "typed",
    [
        "elodie",
        "ELOD",
        "o'n",
        "o'neill",
        "muller gmb",
        "MÜLL elo",
        "neill+shop@la",
        "e.oneill",
        "arch-str",
        "@",
        "",
    ],
)
def test_words_and_parts_of_addresses_match_and_nothing_else(typed: str) -> None:
    assert match_for(typed)(NAME, EMAIL)
    others = ("lodie", "o'neil-m", "elodie smith", "neil+shop", "shop.larch")
    assert [one for one in others if match_for(one)(NAME, EMAIL)] == []


def test_nobody_has_more_terms_than_an_address_has_characters() -> None:
    assert terms_of(None, "abcd@ef.example") == {
        *("abcd", "bcd", "ef", "example", "xample", "ample", "mple", "ple"),
    }
    assert max(map(len, terms_of("x" * 200, f"{'y' * 60}@example.com"))) == MAX_TERM_LENGTH


@given(
    name=st.text(max_size=30),
    email=st.text("abcé1.-+_", max_size=20).map("{}@bc.example".format),
    start=st.integers(0, 30),
    length=st.integers(3, 20),
    word=st.integers(0, 5),
)
def test_whatever_matches_has_the_terms_by_which_it_is_looked_for(
    name: str, email: str, start: int, length: int, word: int
) -> None:
    terms, words = terms_of(name, email), split_words(name)
    pieces = [email[start : start + length], *words[word : word + 1]]
    typed = " ".join(piece for piece in pieces if piece)
    assert match_for(typed)(name, email)
    for term, is_prefix in terms_for(typed):
        is_found = any(one.startswith(term) for one in terms) if is_prefix else term in terms
        assert is_found or len(split_words(typed)) == 1
