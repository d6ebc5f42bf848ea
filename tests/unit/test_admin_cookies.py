"""Cookies are parsed as the pages write them, and in bounded time."""

from keywright.http.pages.session import MAX_LENGTH, parse_cookies


def cookie(value: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"x"), (b"cookie", value.encode("latin-1"))]


def test_a_cookie_is_what_stands_behind_its_name() -> None:
    assert parse_cookies(cookie("a=1; keywright=abc ;b=c=d")) == {"a": "1", "keywright": "abc", "b": "c=d"}
    assert parse_cookies(cookie('a="\\101"')) == {"a": '"\\101"'}, "it is not unquoted"
    assert parse_cookies([*cookie("a=1; a=2"), *cookie("a=3; b=4")]) == {"a": "1", "b": "4"}, (
        "the first counts"
    )


def test_a_cookie_header_of_more_than_4_kib_is_ignored() -> None:
    longest = "a=" + "x" * (MAX_LENGTH - 2)
    assert parse_cookies(cookie(longest)) == {"a": longest[2:]}
    assert parse_cookies(cookie(longest + "x")) == {}
