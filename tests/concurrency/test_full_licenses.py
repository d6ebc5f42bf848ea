"""Full licenses that heal themselves, under many programs and several servers: never over the limit, and no
device is replaced before what was signed for it is over.
"""

import asyncio
import random
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import filterfalse, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from keywright.core.command import Context
from keywright.licensing.activations.model import ActivateDevice, Device, KeepOffline
from keywright.licensing.licenses.rules import CHECK_SECONDS
from tests.concurrency.instances import instances
from tests.concurrency.posting import Posted, Program, run_programs
from tests.concurrency.selling import assert_well
from tests.concurrency.test_leases import run_commands
from tests.histories import faulty
from tests.makers import NOW, activate, an_origin, create, set_terms
from tests.proving import record, size
from tests.server import NO_LIMITS, RunningServer, running

PROGRAMS, OLD, NEW, LICENSES, BUSY = 64, 5, 12, 15, 503
#: Beside the old devices, healing licenses have one that may run for a day more, and one of v2.
LIMIT = OLD + 2
HEALING = {"max_activations": LIMIT, "when_full": "replace_unseen", "unseen_days": 90}
REMOVALS = 2
CHOOSING = {
    "max_activations": OLD,
    "devices_visible": True,
    "portal_removals": {"count": REMOVALS, "per_days": 30},
}
#: Of a round: each old device of a healing license asks twice.
ATTEMPTS = LICENSES * (2 * OLD + 2 * NEW)
ROUNDS = -(-size(ATTEMPTS, 200_000) // ATTEMPTS)


@pytest.fixture
def servers(database: str, tmp_path: Path) -> Iterator[list[RunningServer]]:
    with instances(tmp_path, 4, database) as servers:
        yield servers
        for server in servers:
            assert_well(server)


class Found(NamedTuple):
    """What became of a round; right is one where all but the first four are 0."""

    attempts: int
    replaced: int
    chosen: int
    #: Answers that a busy database did not record, and which are good for minutes only for that reason.
    good_for_minutes: int
    over_the_limit: int
    #: Devices with a signed yes, or that may still run, or of v2, which lost their place to a new device.
    replaced_before_their_time: int
    removals_too_many: int
    other_answers: int


def read_devices(server: RunningServer, keys: Sequence[str]) -> dict[str, list[Any]]:
    """The devices of these licenses, which are the newest: fingerprint, id, license, token, when it ended."""
    query = """SELECT fingerprint, id, license_id, token, deactivated_at FROM activations
               WHERE license_id > (SELECT max(id) - ? FROM licenses)"""
    rows = server.sql(query, 2 * LICENSES + 1)
    key_of = {row[2]: row[0].removesuffix("-old-0") for row in rows if (row[0] or "").endswith("-old-0")}
    found: dict[str, list[Any]] = {key: [] for key in keys}
    for row in rows:
        if (key := key_of.get(row[2])) in found:
            found[key].append(row)
    return found


def make_licenses(server: RunningServer, terms: dict[str, Any]) -> list[str]:
    """Licenses whose devices were not seen for months; some of them may not be replaced all the same."""
    keys, long_ago = [f"KEY-{secrets.token_hex(8)}" for _ in range(LICENSES)], Context(NOW, an_origin())
    names = [(key, f"{key}-old-{number}") for key in keys for number in range(OLD)]
    others = [(key, f"{key}-away") for key in keys] if terms is HEALING else []
    placed = [
        ActivateDevice(context=long_ago, license=key, device=Device(name), is_signed=True)
        for key, name in names + others
    ]
    run_commands(server, *(create(key) for key in keys), *(set_terms(terms, key) for key in keys))
    run_commands(server, *placed, *(activate(key) for key, _ in others))
    if others:
        now = datetime.now(UTC).replace(microsecond=0)
        # Else the newest event would be of long ago.
        run_commands(server, create(f"NOW-{secrets.token_hex(8)}", now=now))
        kept = [
            KeepOffline(
                context=Context(now, an_origin()), license=id, token=token, ends_at=now + timedelta(days=1)
            )
            for rows in read_devices(server, keys).values()
            for name, _, id, token, _ in rows
            if name is not None and name.endswith("-away")
        ]
        run_commands(server, *kept)
        assert len(kept) == LICENSES
    return keys


def list_calls(server: RunningServer, healing: Sequence[str], choosing: Sequence[str]) -> list[Any]:
    """Calls of old and of new devices in any order: the path and the body."""
    calls: list[Any] = []
    for key in healing:
        old = [{"license_key": key, "fingerprint": f"{key}-old-{n % OLD}"} for n in range(2 * OLD)]
        new = [{"license_key": key, "fingerprint": f"{key}-new-{n}"} for n in range(NEW)]
        calls += [("/validate", body) for body in old] + [("/activate", body) for body in new]
    for key, rows in read_devices(server, choosing).items():
        ids = [row[1] for row in rows]
        bodies = [{"license_key": key, "fingerprint": f"{key}-new-{n}"} for n in range(NEW)]
        calls += [("/activate", body | {"remove": ids[n % OLD]}) for n, body in enumerate(bodies)]
    return calls


def run(servers: list[RunningServer], calls: Sequence[Any]) -> list[Posted]:
    parts = [calls[number::PROGRAMS] for number in range(PROGRAMS)]

    async def play(program: Program) -> list[Posted]:
        return [await ask(program, path, body) for path, body in parts[program.number]]

    return run_programs(servers, PROGRAMS, play)


async def ask(program: Program, path: str, body: Any) -> Posted:
    """Call until the database, which may be very busy, has decided."""
    while (answer := await program.post(path, body, is_signed=True)).status == BUSY:
        await asyncio.sleep(0)
    return answer


def is_brief(answer: Posted) -> bool:
    """Whether a yes says itself that it is good for the minutes until the next check, and no longer."""
    return bool(answer.json["exp"] - answer.json["iat"] <= CHECK_SECONDS)


def judge(server: RunningServer, journal: list[Posted], healing: list[str], choosing: list[str]) -> Found:
    """Compare what the programs were told with what the database has."""
    yes = defaultdict[str, set[Any]](set)
    granted = [one for one in journal if one.status < 300 and one.json["valid"]]
    for one in filterfalse(is_brief, granted):
        yes[one.body["license_key"]].add(one.body["fingerprint"])
    over, too_early, too_many, replaced, chosen = 0, 0, 0, 0, 0
    for key, rows in read_devices(server, (*healing, *choosing)).items():
        active = [row[0] for row in rows if row[4] is None]
        gone = {row[0] for row in rows if row[4] is not None}
        if key in healing:
            # Those who may run: told so, or for a day more, or over v2, which no answer tells.
            running = yes[key] | {f"{key}-away", None}
            over += max(0, len(active) - LIMIT, len(running) - LIMIT)
            too_early += len(gone & running)
            replaced += len(gone)
        else:
            over += max(0, len(active) - OLD)
            too_many += max(0, len(gone) - REMOVALS)
            chosen += len(gone)
            assert yes[key] == {name for name in active if "-new-" in name}
    codes = ("limit_reached", "no_removal_left")
    others = [one for one in journal if one.status >= 300 and one.json["code"] not in codes]
    return Found(
        len(journal), replaced, chosen, sum(map(is_brief, granted)), over, too_early, too_many, len(others)
    )


def play_round(servers: list[RunningServer], rounds: int = 1, *, is_in_order: bool = False) -> Found:
    """The sum of so many rounds. In order, the old devices of healing licenses ask first."""
    totals = []
    for _ in range(rounds):
        healing, choosing = (make_licenses(servers[0], terms) for terms in (HEALING, CHOOSING))
        calls = list_calls(servers[0], healing, choosing)
        journal: list[Posted] = []
        if is_in_order:
            journal = run(servers, [one for one in calls if one[0] == "/validate"])
            calls = [one for one in calls if one[0] == "/activate"]
        random.shuffle(calls)
        journal += run(servers, calls)
        totals.append(judge(servers[0], journal, healing, choosing))
    return Found(*(sum(figures) for figures in zip_longest(*totals)))


def write_down(part: str, found: Found) -> None:
    figures = {name.replace("_", " "): figure for name, figure in found._asdict().items()}
    record("R20", part, figures)


def test_full_licenses_that_heal_are_never_over_their_limit_and_replace_nobody_before_its_time(
    servers: list[RunningServer], database: str
) -> None:
    found = play_round(servers, ROUNDS)
    write_down(f"full licenses, {database}", found)
    assert found[4:] == (0, 0, 0, 0)
    assert found.attempts == ROUNDS * ATTEMPTS
    assert found.chosen == ROUNDS * LICENSES * REMOVALS
    assert found.replaced > 0


# --- controls -------------------------------------------------------------------------------------


def test_devices_whose_answers_are_not_recorded_are_seen_to_be_replaced_before_their_time(
    tmp_path: Path,
) -> None:
    program = faulty.program(faulty.recording_no_answers)
    with running(tmp_path / "data", program=program, **NO_LIMITS) as server:
        found = play_round([server], is_in_order=True)
    write_down("control: answers that are not recorded", found)
    assert found.replaced_before_their_time == LICENSES * OLD
    assert (found.removals_too_many, found.other_answers) == (0, 0)
