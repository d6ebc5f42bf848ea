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

from benchmarks.machine import look_around
from proofs.promises import Promise
from proofs.results import Record, Result, merged

ROOT = Path(__file__).parents[1]
_PASSED = re.compile(r"(\d+) passed")
_FAILED = re.compile(r"\d+ (?:failed|error)")


def run(promise: Promise, part: float, say: Callable[[str], None]) -> Result:
    """Run this part of it (1 is all), and return what was found."""
    began, commit = time.monotonic(), _commit()
    with tempfile.TemporaryDirectory(prefix="keywright-proof-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        records = folder / "records"
        environment = {**os.environ, "LONG_PROOFS": f"{part:g}", "PROOFS_FILE": str(records)}
        tests, is_kept = 0, True
        for command in promise.commands():
            say(" ".join(command))
            output = folder / "output"
            status = _run([sys.executable, *command], environment, output)
            said = output.read_text(errors="replace")
            tests += sum(int(number) for number in _PASSED.findall(said[-400:]))
            if status != 0:
                is_kept = False
                say(said[-8000:])
        found = merged(records.read_text().splitlines()) if records.exists() else []
        return Result(
            promise.sign,
            datetime.now(UTC).date().isoformat(),
            round((time.monotonic() - began) / 60, 1),
            part,
            is_kept and is_controlled(promise, found),
            tests,
            commit,
            look_around(folder),
            [one for one in found if one.promise == promise.sign],
        )


def is_controlled(promise: Promise, found: list[Record]) -> bool:
    """Whether something was wrong on purpose, and found: a proof that cannot fail proves nothing."""
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


def _commit() -> str:
    """The commit that is checked out, in short."""
    with suppress(OSError, subprocess.CalledProcessError):
        changed = "+" if _git("status", "--porcelain", "--", "src") else ""
        return _git("rev-parse", "--short", "HEAD") + changed
    return "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
