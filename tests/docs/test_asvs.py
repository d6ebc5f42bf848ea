"""The page about OWASP ASVS 5.0: every requirement of levels 1 and 2 once, and only tests that there are."""

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "asvs.md"
TESTS = Path(__file__).parents[1]
#: The levels of the requirements of each section, in their order, without those of level 3: facts from
#: OWASP/ASVS, 5.0/docs_en/OWASP_Application_Security_Verification_Standard_5.0.0_en.csv
LEVELS = """
1.1 22
1.2 111112222
1.3 11222222222
1.4 222
1.5 12
2.1 122
2.2 112
2.3 1222
2.4 2
3.2 11
3.3 1222
3.4 112222
3.5 11122
3.7 22
4.1 122
4.2 2
4.3 22
4.4 1222
5.1 2
5.2 112
5.3 11
5.4 222
6.1 122
6.2 111111112222
6.3 1122
6.4 1122
6.5 22222
6.6 222
6.8 2222
7.1 222
7.2 1111
7.3 22
7.4 11222
7.5 22
7.6 22
8.1 12
8.2 112
8.3 1
8.4 2
9.1 111
9.2 1222
10.1 22
10.2 22
10.3 2222
10.4 11111222222
10.5 22222
10.6 22
10.7 222
11.1 22
11.2 222
11.3 112
11.4 1222
11.5 2
11.6 2
12.1 122
12.2 11
12.3 2222
13.1 2
13.2 22222
13.3 22
13.4 12222
14.1 22
14.2 1222
14.3 122
15.1 122
15.2 122
15.3 1222222
16.1 2
16.2 22222
16.3 2222
16.4 222
16.5 222
17.1 2
17.2 2222
17.3 22
"""
#: Where what is asked for is not here, or not ours, there need not be a test.
_WITHOUT_TEST = ("**Open:**", "**With you:**", "**Does not apply:**", "**Seen in the code:**")
_ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \(L([12])\) \| (.+?) \| (.+) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`([a-z]+/test_\w+\.py)::(test_\w+)`")


class Row(NamedTuple):
    """A requirement as the page has it."""

    number: str
    level: str
    asked: str
    here: str
    tests: str


def read_rows() -> list[Row]:
    return [Row(*one) for one in _ROW.findall(PAGE.read_text())]


def expected() -> list[tuple[str, str]]:
    sections = (line.split() for line in LEVELS.split("\n") if line)
    return [
        (f"{section}.{place}", level) for section, levels in sections for place, level in enumerate(levels, 1)
    ]


def is_there(file: str, function: str) -> bool:
    path = TESTS / file
    return (
        path.exists()
        and re.search(rf"^(async )?def {function}\(", path.read_text(), re.MULTILINE) is not None
    )


def test_every_requirement_of_levels_1_and_2_is_there_once_in_its_order() -> None:
    assert [(one.number, one.level) for one in read_rows()] == expected()
    assert len(expected()) == 253


def test_every_test_that_the_page_names_exists() -> None:
    named = {(one.number, *test) for one in read_rows() for test in _TEST.findall(one.tests)}
    assert len(named) > 200
    assert sorted(one for one in named if not is_there(*one[1:])) == []
    assert is_there("docs/test_asvs.py", "test_every_test_that_the_page_names_exists")
    assert not is_there("docs/test_asvs.py", "test_nothing")


def test_what_has_no_test_says_why() -> None:
    rows = read_rows()
    left = {one.number: re.sub("[, ]", "", _TEST.sub("", one.tests)) for one in rows}
    assert {number: other for number, other in left.items() if other not in ("", "—")} == {}
    bare = [one.number for one in rows if one.tests == "—" and not one.here.startswith(_WITHOUT_TEST)]
    assert bare == []
