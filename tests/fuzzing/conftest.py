"""What harnesses made for all inputs is removed at the end."""

from collections.abc import Iterator

import pytest

from tests.fuzzing.in_process import close_in_process
from tests.fuzzing.of_settings import remove_folder


@pytest.fixture(scope="session", autouse=True)
def cleaned_up() -> Iterator[None]:
    yield
    close_in_process()
    remove_folder()
