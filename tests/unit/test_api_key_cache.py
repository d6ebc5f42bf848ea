"""The cache for API keys."""

import asyncio
from collections.abc import Callable

import pytest

from keywright.http.middleware.authentication import LIFETIME, MAX_KEYS, ApiKeyCache
from keywright.identity.model import ApiKey
from tests.makers import an_api_key


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


class LookUp:
    """A lookup that finds ``api_key``, and runs something during it."""

    def __init__(self, api_key: ApiKey | None, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self._api_key = api_key
        self._meanwhile = meanwhile

    async def __call__(self) -> ApiKey | None:
        self.count += 1
        self._meanwhile()
        return self._api_key


def find(cache: ApiKeyCache, look_up: LookUp, name: str = "a hash") -> ApiKey | None:
    return asyncio.run(cache.find(name, look_up))


@pytest.mark.parametrize(("api_key", "look_ups"), [(an_api_key(), 1), (None, 3)], ids=["found", "unknown"])
def test_only_what_was_found_is_remembered(api_key: ApiKey | None, look_ups: int) -> None:
    cache, look_up = ApiKeyCache(Clock()), LookUp(api_key)
    assert [find(cache, look_up) for _ in range(3)] == [api_key] * 3
    assert look_up.count == look_ups


def test_an_api_key_is_as_old_as_the_start_of_its_look_up() -> None:
    clock = Clock()
    cache = ApiKeyCache(clock)
    look_up = LookUp(an_api_key(), lambda: setattr(clock, "time", clock.time + LIFETIME))
    find(cache, look_up)
    find(cache, look_up)
    assert look_up.count == 2


def test_what_was_read_before_a_change_is_not_kept() -> None:
    cache = ApiKeyCache(Clock())
    look_up = LookUp(an_api_key(), cache.clear)
    find(cache, look_up)
    find(cache, look_up)
    assert look_up.count == 2


def test_the_oldest_is_forgotten_when_there_are_too_many() -> None:
    cache, look_up = ApiKeyCache(Clock()), LookUp(an_api_key())
    names = [str(number) for number in range(MAX_KEYS + 1)]
    for name in names:
        find(cache, look_up, name)
    assert look_up.count == MAX_KEYS + 1 == len(cache) + 1
    find(cache, look_up, names[1])
    assert look_up.count == MAX_KEYS + 1
    find(cache, look_up, names[0])
    assert look_up.count == MAX_KEYS + 2
