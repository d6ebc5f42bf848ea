"""Run a promise's long form."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import randrange

from benchmarks.machine import look_around
from proofs.promises import Promise
from proofs.reach import ROOT, find_commit
from proofs.results import Record, Run, read

_PASSED = re.compile(r"(\d+) passed")
_FAILED = re.compile(r"\d+ (?:failed|error)")
#: How many of the last characters of a failed run's output are shown.
_SHOWN = 100_000


def run(promise: Promise, part: float, say: Callable[[str], None]) -> Run:
    """Run this share of a promise (1 is all) with a new seed, and return the result."""
    began, commit, seed = time.monotonic(), find_commit(), str(randrange(2**32))
    with tempfile.TemporaryDirectory(prefix="keywright-proof-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        records = folder / "records"
        environment = {**os.environ, "LONG_PROOFS": f"{part:g}", "PROOFS_FILE": str(records)}
        tests, is_kept = 0, True
        for command in promise.commands(seed):
            say(" ".join(command))
            output = folder / "output"
            status = _run([sys.executable, *command], environment, output)
            said = output.read_text(errors="replace")
            tests += sum(int(number) for number in _PASSED.findall(said[-400:]))
            if status != 0:
                is_kept = False
                say(said[-_SHOWN:])
        found = read(records.read_text().splitlines()) if records.exists() else []
        return Run(
            promise.sign,
            datetime.now(UTC).date().isoformat(),
            round((time.monotonic() - began) / 60, 1),
            part,
            is_kept and is_controlled(promise, found),
            tests,
            commit,
            look_around(folder),
            [one for one in found if one.promise == promise.sign],
            seed,
        )


def is_controlled(promise: Promise, found: list[Record]) -> bool:
    """Whether the promise's control ran, if it has one: a proof that cannot fail proves nothing."""
    if not promise.has_control:
        return True
    return any(one.is_control for one in found if one.promise == promise.sign)


def _run(command: list[str], environment: dict[str, str], output: Path) -> int:
    with output.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)
        try:
            return process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                process.terminate()
            process.wait()
            raise
