"""No input breaks a parser's promise, also none that atheris finds by looking which code inputs reach."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fuzzing.folders import a_folder
from tests.fuzzing.harnesses import BY_NAME
from tests.proving import IS_LONG, record, size
from tests.server import environment

ROOT = Path(__file__).parents[2]
PART = "coverage-guided fuzzing"
#: No input is longer, in bytes; none takes longer, in seconds; and none makes the process larger, in MiB.
LIMITS = ("-max_len=4000", "-timeout=120", "-rss_limit_mb=1024")

needs_atheris = pytest.mark.skipif(find_spec("atheris") is None, reason="there is no atheris for this Python")


class Found(NamedTuple):
    """What came of a search. ``crash`` is the input that failed, where there is one."""

    inputs: int
    peak_rss: int
    has_failed: bool
    crash: bytes
    output: str


def searched(name: str, seeds: tuple[bytes, ...], folder: Path, *options: str) -> Found:
    """Let atheris try inputs for a harness, beginning with these."""
    corpus, crashes = folder / "corpus", folder / "crashes"
    corpus.mkdir()
    crashes.mkdir()
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    command = [sys.executable, "-m", "tests.fuzzing", name, str(corpus), f"-artifact_prefix={crashes}/"]
    command += ["-print_final_stats=1", *LIMITS, *options]
    with a_folder() as scratch:
        done = subprocess.run(
            command,
            cwd=ROOT,
            # It ends without cleaning up.
            env=environment() | {"TMPDIR": scratch},
            capture_output=True,
            text=True,
            check=False,
            errors="replace",
        )
    output = done.stdout + done.stderr
    # It says so when it is done; how it ends after that is nobody's business.
    is_done = re.search(r"^Done \d+ runs", output, re.MULTILINE) is not None
    crash = b"".join(path.read_bytes() for path in crashes.iterdir())
    executed, peak_rss = (_stat(output, what) for what in ("number_of_executed_units", "peak_rss_mb"))
    return Found(executed, peak_rss, not is_done, crash, output[-3000:])


def _stat(output: str, name: str) -> int:
    said = re.search(rf"stat::{name}: +(\d+)", output)
    return 0 if said is None else int(said[1])


@needs_atheris
@pytest.mark.skipif(not IS_LONG, reason="test_harnesses.py is the short form")
@pytest.mark.parametrize("name", BY_NAME)
def test_no_input_breaks_a_promise(name: str, tmp_path: Path) -> None:
    harness = BY_NAME[name]
    found = searched(name, harness.seeds, tmp_path, f"-runs={size(1_000, harness.runs)}")
    counted = {"inputs": found.inputs, "crashes": int(found.has_failed)}
    record("R14", PART, counted, {"memory MiB": found.peak_rss})
    assert not found.has_failed, f"{found.crash!r}\n{found.output}"


@needs_atheris
def test_a_fault_that_chance_does_not_find_is_found(tmp_path: Path) -> None:
    found = searched("planted", (b"something",), tmp_path, "-runs=5000000", "-seed=1")
    record("R14", f"control: {PART} of a parser with a fault", {"crashes": int(found.has_failed)})
    assert found.has_failed
    assert found.crash.startswith(b"fault"), found.output
