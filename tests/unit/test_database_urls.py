"""Database URLs that cannot be used are refused without a word of what may be a password."""

import pytest

from keywright.errors import ConfigurationError
from keywright.storage.session import Session


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://kw:100%sure-Secret@db/keywright",
        "postgresql://kw:Secret@[::1/keywright",
        "postgresql://kw:Se/cret@db/keywright",
        "postgresql://kw:Secret@db/keywright?fish=3",
    ],
)
def test_what_may_be_a_password_is_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Session(url)
    said = str(refused.value)
    assert said.startswith("the database URL cannot be used: ")
    for part in ("Se", "cret", "100", "kw", "db"):
        assert part not in said
