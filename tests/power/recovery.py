"""What SQLite and Keywright make of the files that are left after the loss of power."""

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from keywright.core.errors import KeywrightError
from keywright.licensing.activations.model import LicenseRecord
from keywright.maintenance import doctor
from keywright.registry import open_executor
from tests.makers import activate, create, open_or_make
from tests.power.ledger import EMPTY, State, active_in, state_of
from tests.power.survivors import Files

DATABASE = "keywright.db"
_SHARED_MEMORY = Path("/dev/shm")

FINE = "fine"
#: Something that was acknowledged is not there, as if it had not happened yet.
LOST = "lost"
#: The database never was like that.
HALF_DONE = "half done"
CORRUPT = "corrupt"


class Found(NamedTuple):
    """One of the words above; the acknowledged places that are gone; what the database says."""

    word: str
    places_missing: int
    state: State


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder, in memory where that is possible."""
    parent = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="keywright-power-", dir=parent) as folder:
        yield Path(folder)


def lay_out(files: Files, folder: Path) -> None:
    """Make these the only files in the folder."""
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def judge_recovery(folder: Path, right: Sequence[State], old: Sequence[State], *, is_thorough: bool) -> Found:
    """Let SQLite recover the database, and compare; the first of the ``right`` states is what was
    acknowledged.
    """
    check = "PRAGMA integrity_check" if is_thorough else "PRAGMA quick_check"
    state: State = None
    try:
        with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as connection:
            is_sound = connection.execute(check).fetchall() == [("ok",)]
            state = state_of(connection)
    except sqlite3.DatabaseError:
        is_sound = False
    if is_sound and state in right:
        return Found(FINE, 0, state)
    certain = set.intersection(*(active_in(one) for one in right))
    word = CORRUPT if not is_sound else LOST if state in old else HALF_DONE
    return Found(word, len(certain - active_in(state)), state)


def examine(folder: Path, state: State) -> list[str]:
    """Open it as Keywright does; what the doctor finds, before and after something more is done, and whatever
    else is wrong then.
    """
    wrong = []
    try:
        with closing(open_or_make(folder)) as storage:
            wrong += [one.what for one in doctor.examine(storage, lambda _: None)]
            done = open_executor(storage).execute([create("AFTERWARDS"), activate("AFTERWARDS")])
            wrong += [str(one) for one in done if not isinstance(one, LicenseRecord)]
            wrong += [one.what for one in doctor.examine(storage, lambda _: None)]
    except KeywrightError as problem:
        return [str(problem)]
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        if not active_in(state or EMPTY) < active_in(state_of(connection)):
            wrong.append("what was there is not there any more")
    return wrong
