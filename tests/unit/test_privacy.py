"""The page about personal data is complete, and matches the code."""

from tools import privacy
from tools.reference import PAGES, REFERENCE


def test_every_column_that_may_tell_of_a_person_is_on_the_page() -> None:
    assert privacy.find_unlisted() == set()


def test_the_page_is_as_the_code() -> None:
    assert (REFERENCE / "privacy.md").read_text() == PAGES["privacy.md"]()


def test_every_sealed_column_is_named() -> None:
    page = (REFERENCE / "privacy.md").read_text()
    assert all(one in page for one in privacy.write_seals())
