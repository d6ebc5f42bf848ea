"""Every client library against every bad server: it returns within its deadline, and keeps what it has."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.library import LIBRARIES, Call, Library, Made, build
from tests.clients.signing_server import KEY, closed_address, signing_server
from tests.proving import record
from tools.attacks.bad_servers import BadServer, bad_servers, full_server

DATABASES = ("sqlite",)
#: The deadlines of calls, and how much later a loaded machine may find that it has returned, in seconds.
DEADLINES, SLACK = (1.0, 10.0, 60.0), 60.0
OFFLINE = "unreachable_but_valid_until"
MEBIBYTE = 2**20


@pytest.fixture(scope="module", params=LIBRARIES)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return build(request.param, tmp_path_factory.mktemp("library"), KEY.x)


@pytest.fixture(scope="module")
def kept(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the library keeps of a license that it should ask about now."""
    file = library.file(tmp_path_factory.mktemp("kept") / "first")
    with signing_server(time.time) as server:
        server.next_check_seconds = -1
        (made,) = library.run(Call("activate", server.url, file))
    assert made.valid, made
    return file


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[dict[str, BadServer], BadServer]]:
    with bad_servers() as all_servers:
        yield all_servers


def test_a_bad_server_neither_holds_a_library_up_nor_changes_what_it_keeps(
    library: Library, kept: Path, servers: tuple[dict[str, BadServer], BadServer], tmp_path: Path
) -> None:
    named, caught = servers
    with full_server() as full:
        urls = {name: one.url for name, one in named.items()} | {"full": full, "away": closed_address()}
        urls |= {"no address": "http://", "no scheme": "example", "another scheme": "file:///etc/passwd"}
        wrong = []
        for deadline in DEADLINES:
            if not urls:
                break
            for server in named.values():
                server.sent, server.requests = 0, []
            asked = [(call, name) for name in urls for call in ("check", "activate")]
            files = [library.copy(kept, tmp_path / f"{deadline} {one} {name}") for one, name in asked]
            calls = [Call(one, urls[name], file) for (one, name), file in zip(asked, files, strict=True)]
            made = library.run(*calls, timeout=deadline)
            wrong += [
                (one, name, found, library.read(file))
                for (one, name), found, file in zip(asked, made, files, strict=True)
                if not is_right(one, found, deadline)
                or license_of(library, file) != license_of(library, kept)
            ]
            over = max(one.seconds for one in made) - deadline
            longest = max(server.sent for server in named.values()) / MEBIBYTE
            counted = {"calls": len(made), "wrong": len(wrong)}
            worst = {"seconds beyond the deadline": over, "MiB that a server could send": longest}
            record("R29", library.language, counted, worst)
            # On a slow machine, the deadline may come before the server is reached.
            urls = {
                name: one.url
                for name, one in named.items()
                if name in urls and one.scheme == "http" and len(one.requests) < 2
            }
    assert wrong == []
    assert urls == {}, "no request has ever reached these"
    # What the system takes before the library hangs up is no more than some buffers.
    assert longest < 128
    assert not caught.requests


def is_right(call: str, made: Made, deadline: float) -> bool:
    """Whether a call said what it should, in time: a license that is kept is good, none is taken."""
    is_told = made.state == OFFLINE if call == "check" else not made.valid or made.state == OFFLINE
    return is_told and made.seconds < deadline + SLACK


def license_of(library: Library, file: Path) -> tuple[object, ...]:
    found = library.read(file)
    return found["license_key"], found["answer"], found["key_sets"]
