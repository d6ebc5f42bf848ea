"""Imports of the same licenses run at once, beside programs that take and give up places: each license and
each token comes once, and every counter is right.
"""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

from keywright.core.errors import Refusal
from keywright.db import Storage, open_storage
from keywright.engine.executor import Executor
from keywright.licensing.licenses.model import Status
from keywright.maintenance import doctor
from keywright.provisioning.importers.model import (
    Imported,
    ImportedActivation,
    ImportedLicense,
    ImportLicenses,
    Verdict,
)
from keywright.registry import open_executor
from tests.concurrency.desks import a_url
from tests.makers import (
    KEY_RING,
    NOW,
    _with_context,
    activate,
    deactivate_all,
)
from tests.storage.stored import list_licenses

LICENSES, BATCH, LIMIT = 200, 10, 5


@contextmanager
def opened(url: str) -> Iterator[tuple[Storage, Executor]]:
    with closing(open_storage(url, KEY_RING)) as storage:
        yield storage, open_executor(storage)


def batches() -> list[ImportLicenses]:
    licenses = [
        ImportedLicense(
            f"K{number}",
            Status.ACTIVE,
            NOW,
            NOW,
            id=number,
            times_activated_max=LIMIT,
            activations=tuple(ImportedActivation(f"{number * 10 + place:040x}", NOW) for place in range(3)),
        )
        for number in range(1, LICENSES + 1)
    ]
    starts = range(0, LICENSES, BATCH)
    return [
        ImportLicenses(**_with_context(source="lmfwc", licenses=tuple(licenses[start : start + BATCH])))
        for start in starts
    ]


def bring(url: str, seed: int) -> int:
    """Import everything in an order of its own; returns how many licenses were new."""
    todo = batches()
    random.Random(seed).shuffle(todo)
    new = 0
    with opened(url) as (_, executor):
        for command in todo:
            [outcome] = executor.execute([command])
            assert isinstance(outcome, Imported), outcome
            verdicts = [one.verdict for one in outcome.outcomes if one.kind == "license"]
            new += verdicts.count(Verdict.NEW)
    return new


def use(url: str, seed: int) -> None:
    """Take places, and give all up at times."""
    chance = random.Random(seed)
    with opened(url) as (_, executor):
        for _ in range(300):
            key = f"K{chance.randint(1, LICENSES)}"
            call = deactivate_all(key) if chance.random() < 0.2 else activate(key)
            [outcome] = executor.execute([call])
            assert not isinstance(outcome, Exception) or isinstance(outcome, Refusal), outcome


def test_imports_at_once_beside_programs_bring_everything_once(database: str, tmp_path: Path) -> None:
    with a_url(database, tmp_path) as url, ThreadPoolExecutor(4) as pool:
        used = [pool.submit(use, url, seed) for seed in (1, 2)]
        brought = [pool.submit(bring, url, seed) for seed in (3, 4)]
        assert sum(one.result() for one in brought) == LICENSES
        for one in used:
            one.result()
        with opened(url) as (storage, _):
            assert list(doctor.examine(storage, lambda _: None)) == []
            assert [one.id for one in list_licenses(storage)] == list(range(1, LICENSES + 1))
