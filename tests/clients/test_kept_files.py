"""What every client library keeps: the highest time, for its user alone; and where it can keep nothing."""

import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.library import LIBRARIES, Call, Library, Made, build
from tests.clients.signing_server import KEY, SigningServer, closed_address, signing_server

DATABASES = ("sqlite",)
OFFLINE, HOUR = "unreachable_but_valid_until", 3600
#: What every library tells the customer, in C as a macro.
NO_LEASE = (
    "This program has no place in the shared license. "
    "Start the program again; where every place is taken, end it on another device first."
)


@pytest.fixture(scope="module", params=LIBRARIES)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return build(request.param, tmp_path_factory.mktemp("library"), KEY.x)


@pytest.fixture(scope="module")
def server() -> Iterator[SigningServer]:
    with signing_server(time.time) as server:
        server.next_check_seconds = -1
        yield server


@pytest.fixture(scope="module")
def kept(library: Library, server: SigningServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the library keeps of a license that it should ask about now."""
    file = library.file(tmp_path_factory.mktemp("kept") / "first")
    (made,) = library.run(Call("activate", server.url, file))
    assert made.valid, made
    return file


def test_what_is_kept_is_for_its_user_alone(library: Library, kept: Path) -> None:
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_the_highest_time_seen_is_kept_and_a_clock_behind_it_is_told(
    library: Library, server: SigningServer, kept: Path, tmp_path: Path
) -> None:
    now = int(time.time())
    before, behind, mended = (library.copy(kept, tmp_path / name) for name in ("before", "behind", "mended"))
    library.edit(before, latest=0)
    # As after a run of the program an hour from now, before its clock was set back.
    library.edit(behind, latest=now + HOUR)
    library.edit(mended, latest=now + HOUR)
    away = closed_address()
    alone = library.run(Call("check", away, before), Call("check", away, behind), timeout=1)
    (told,) = library.run(Call("check", server.url, mended))
    assert [one.state for one in (*alone, told)] == [OFFLINE, "clock_moved_back", "valid"]
    assert library.read(before)["latest"] >= now
    assert library.read(behind)["latest"] == now + HOUR
    # The server's answer has the true time.
    assert now <= library.read(mended)["latest"] < now + HOUR


def test_a_place_where_nothing_can_be_kept_takes_no_place(
    library: Library, server: SigningServer, kept: Path, tmp_path: Path
) -> None:
    folder, file = library.file(tmp_path / "a folder"), tmp_path / "a file"
    folder.mkdir()
    file.touch()
    unwritable = library.copy_unwritable(kept, tmp_path / "unwritable")
    asked, devices = len(server.requests), dict(server.devices)
    calls = [
        Call("check", server.url, folder),
        Call("activate", server.url, folder),
        Call("activate", server.url, file / "editor.json"),
        Call("activate", server.url, unwritable),
    ]
    made = library.run(*calls)
    assert [(one.valid, one.state) for one in made] == [(False, "no_storage")] * 4
    paths = (folder, folder, file, unwritable)
    assert [one.detail for one, path in zip(made, paths, strict=True) if str(path) not in one.detail] == []
    assert (len(server.requests), server.devices) == (asked, devices)


def test_where_nothing_can_be_written_only_the_server_counts(
    library: Library, server: SigningServer, kept: Path, tmp_path: Path
) -> None:
    early, late = library.copy(kept, tmp_path / "1"), library.copy(kept, tmp_path / "2")
    # One that need not be written for minutes, and one that must be.
    library.edit(early, latest=int(time.time()) + 200)
    library.edit(late, latest=0)
    early, late = (library.copy_unwritable(one, one.parent / "unwritable") for one in (early, late))
    before = [one.read_bytes() for one in (early, late)]

    def check(url: str, file: Path) -> Made:
        (made,) = library.run(Call("check", url, file), timeout=30 if url == server.url else 1)
        return made

    online, offline = check(server.url, late), check(closed_address(), late)
    assert (online.valid, online.state) == (True, "valid")
    # Else a clock that is set back again and again would make the answer last for ever.
    assert (offline.valid, offline.state) == (False, "no_storage")
    assert [str(late) in one.detail for one in (online, offline)] == [True, True]
    assert check(closed_address(), early).state == OFFLINE
    assert [one.read_bytes() for one in (early, late)] == before


def test_a_program_without_a_lease_keeps_what_it_has(
    library: Library, server: SigningServer, kept: Path, tmp_path: Path
) -> None:
    """It is asked once, for it says nothing about the license, and the customer is told what to do."""
    spoiled = library.copy(kept, tmp_path / "spoiled")
    library.edit(spoiled, answer="a.b.c")
    rows = [
        (code, library.copy(file, tmp_path / f"{code} {at}"))
        for code in ("lease_required", "lease_lost")
        for at, file in enumerate((kept, spoiled))
    ]
    wrong = []
    for code, file in rows:
        before, asked = library.read(file), server.calls("/v3/validate")
        server.noes = [code]
        (told,) = library.run(Call("check", server.url, file))
        kept_too = {name: library.read(file)[name] for name in ("license_key", "answer")}
        is_kept = kept_too.items() <= before.items()
        times = server.calls("/v3/validate") - asked
        seen = (told.valid, told.state, NO_LEASE in told.detail, is_kept, times)
        if seen != (False, "no_lease", True, True, 1):
            wrong.append((code, file, told, seen))
    assert wrong == []
    _, file = rows[0]
    assert library.run(Call("check", closed_address(), file), timeout=1)[0].state == OFFLINE
    # Two noes of which one is no verdict are not two noes.
    server.noes, other = ["disabled", "lease_required"], library.copy(kept, tmp_path / "other")
    assert library.run(Call("check", server.url, other))[0].state == "no_lease"
    assert library.run(Call("check", closed_address(), other), timeout=1)[0].state == OFFLINE


def edited(license_key: object, answer: object, **members: object) -> bytes:
    """As a user may have edited it, by either of the names that libraries write."""
    names = {"license_key": license_key, "LicenseKey": license_key, "answer": answer, "Answer": answer}
    return json.dumps(names | members).encode()


#: What a library did not write.
GARBAGE = {
    "empty": b"",
    "a list": b"[]",
    "null": b"null",
    "a number": b"5",
    "nothing": b"{}",
    "half": b'{"license_key": "x',
    "deep": b"[" * 100_000,
    "no text": bytes(range(256)),
    "a mark": b"\xef\xbb\xbf{}",
    "other kinds": edited(5, {}, latest="x", key_sets=7),
    "odd lists": edited("x", "a.b.c", key_sets=[None, 1]),
    "great numbers": edited("x", "", latest=10**400),
}
ODD_KEYS = ("", " ", "\u041a\u041b\u042e\u0427-\U0001f511", '"\\\n\0', "x" * 60_000)


def test_whatever_is_kept_or_typed_raises_nothing(
    library: Library, server: SigningServer, tmp_path: Path
) -> None:
    files = {name: library.file(tmp_path / name) for name in GARBAGE}
    for name, content in GARBAGE.items():
        files[name].write_bytes(content)
    checks = [Call("check", server.url, one) for one in files.values()]
    typed = [
        Call("activate", server.url, library.file(tmp_path / f"{at}"), key) for at, key in enumerate(ODD_KEYS)
    ]
    made = library.run(*checks, *typed)
    assert [one for one in made if one.valid] == []
    # What is damaged does not stand in the way of an activation.
    mended = library.run(*(Call("activate", server.url, one) for one in files.values()))
    assert [one.state for one in mended] == ["valid"] * len(GARBAGE)
