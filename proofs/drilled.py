"""The drill as a proof: ``python -m proofs.drilled``. Runs the requested share of 50 failovers."""

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from drill.outages import percentile
from drill.report import Report
from tests.proving import PART, record, size

#: Faults of each kind in the whole proof, if this machine supports all kinds.
_ROUNDS = 13
_CONTROL_ROUNDS = 1


def main() -> None:
    """Drill with synchronous replication, and then without; exit with status 1 if a drill fails."""
    with tempfile.TemporaryDirectory(prefix="keywright-drilled-") as name:
        folder = Path(name)
        done = _drill(folder / "synchronous", "--rounds", str(size(1, _ROUNDS)))
        _record("synchronous replication", done)
        control = _drill(folder / "asynchronous", "--asynchronous", "--rounds", str(_CONTROL_ROUNDS))
        _record("control: asynchronous replication", control)
    if not (done.is_right and control.is_right):
        sys.exit(1)


def _drill(file: Path, *arguments: str) -> Report:
    subprocess.run([sys.executable, "-m", "drill", "--json", str(file), *arguments], check=False)
    return msgspec.json.decode(file.read_bytes(), type=Report, dec_hook=lambda kind, plain: kind(plain))


def _record(part: str, report: Report) -> None:
    rounds = report.rounds
    counted = {
        "failovers": len(rounds),
        "acknowledged changes": sum(one.acknowledged for one in rounds),
        "acknowledged and lost": report.missing,
        "doubled": sum(len(one.findings.doubled) for one in rounds),
    }
    outages = [one.write_outage for one in rounds]
    worst = {
        "seconds without changes, p50": percentile(outages, 0.5),
        "seconds without changes, p95": percentile(outages, 0.95),
        "seconds without changes, longest": max(outages),
    }
    record("R12", part, counted, {} if part.startswith("control") else worst)


if __name__ == "__main__":
    assert PART > 0, "LONG_PROOFS says which part of the whole is wanted"
    main()
