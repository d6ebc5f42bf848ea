"""Check whether the tests notice faults: ``python -m proofs.mutation``.

Each mutant (proofs/mutants.py) of the modules of R18 is tried (proofs/trials.py) with the tests assigned to
its module (proofs/modules.py). Nine of ten must be killed; each survivor needs a reason in
proofs/survivors.toml. A mutant that never ends counts as killed.
"""

import argparse
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from proofs.modules import ON_SQLITE, ROOT, TESTS, source_of
from proofs.trials import Findings, Name, Subject, examine, names_of
from tests.proving import IS_LONG, PART, record

#: The share of a module's mutants that must be killed.
WANTED = 0.9
SURVIVORS = Path(__file__).with_name("survivors.toml")
#: Modules that the tests of several modules import.
_WARM = (
    "alembic.command",
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.hazmat.primitives.kdf.hkdf",
    "encodings.idna",
    "filelock",
    "hypothesis.stateful",
    "msgspec",
    "psycopg",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
    "starlette.routing",
)

_progress = Console(stderr=True, highlight=False, soft_wrap=True)


def reasons(file: Path = SURVIVORS) -> dict[Name, str]:
    """Load the reasons why some mutants may survive."""
    entries = tomllib.loads(file.read_text())["survivor"]
    return {Name(one["module"], one["where"], one["was"], one["became"]): one["reason"] for one in entries}


def run(
    *,
    part: float = 1.0,
    modules: Sequence[str] = tuple(TESTS),
    processes: int = 2,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Findings]:
    """Try this share of the mutants of each module; ``say`` reports the progress."""
    found = {}
    for name in modules:
        began = time.monotonic()
        tests = (*TESTS[name], *ON_SQLITE)
        subject = Subject(name, f"keywright.{name}", source_of(name), tests, ROOT, _WARM)
        found[name] = one = examine(subject, part=part, processes=processes)
        seconds = time.monotonic() - began
        say(f"{name}: {one.killed} of {one.mutants} mutants killed in {seconds:.0f} s")
        for survivor in one.survivors:
            say(f"{survivor.where}: {survivor.was}  →  {survivor.became}")
    return found


def is_right(found: Mapping[str, Findings], known: Mapping[Name, str], *, is_all: bool) -> bool:
    """Whether each survivor has a reason; and, if all mutants were tried (``is_all``), whether enough were
    killed in each module.
    """
    is_explained = all(known.get(name) for one in found.values() for name in one.survivors)
    return is_explained and (not is_all or all(one.share >= WANTED for one in found.values()))


def outdated(found: Mapping[str, Findings], known: Mapping[Name, str], *, is_all: bool) -> list[Name]:
    """List the reasons that are no longer needed: there is no such mutant; or, if all were tried, it was
    killed.
    """
    old = []
    for module, findings in found.items():
        there = {name for name, _ in names_of(module, source_of(module).read_text())}
        needed = set(findings.survivors) if is_all else there
        old += [name for name in known if name.module == module and name not in needed]
    return old


def _show(found: Mapping[str, Findings], known: Mapping[Name, str]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("module")
    for heading in ("mutants", "killed", "%", "of those endless", "survivors with a reason", "without"):
        table.add_column(heading, justify="right")
    for module, one in found.items():
        explained = sum(name in known for name in one.survivors)
        figures = (one.killed, f"{one.share:.1%}", one.endless, explained, len(one.survivors) - explained)
        table.add_row(module, str(one.mutants), *map(str, figures))
    Console().print(table)
    for one in found.values():
        for name in one.survivors:
            if name not in known:
                print(f"without a reason:\n{_entry(name)}")


def _entry(name: Name) -> str:
    """Format an entry for proofs/survivors.toml."""
    fields = [f"{key} = {_quoted(text)}" for key, text in name._asdict().items()]
    return "\n".join(["[[survivor]]", *fields, 'reason = ""', ""])


def _quoted(text: str) -> str:
    if "'" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _record(found: Mapping[str, Findings], known: Mapping[Name, str]) -> None:
    survivors = [name for one in found.values() for name in one.survivors]
    explained = sum(name in known for name in survivors)
    counted = {
        "mutants": sum(one.mutants for one in found.values()),
        "killed": sum(one.killed for one in found.values()),
        "surviving, each with a reason": explained,
        "surviving without a reason": len(survivors) - explained,
    }
    record("R18", "mutants", counted=counted)
    record("R18", "mutants killed, in %", counted={name: int(one.share * 100) for name, one in found.items()})


def _say(text: str) -> None:
    _progress.print(text, style="dim", markup=False)


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Try the mutants; exit with status 1 if too few are killed, or a survivor has no reason."""
    parser = argparse.ArgumentParser(prog="python -m proofs.mutation", description=__doc__)
    parser.add_argument("--module", action="append", choices=tuple(TESTS), help="only this one")
    parser.add_argument("--part", type=float, default=PART if IS_LONG else 1.0, help="1 is all")
    parser.add_argument("--processes", type=int, default=2, help="how many tests run at once")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    modules = tuple(chosen.module or TESTS)
    found = run(part=chosen.part, modules=modules, processes=chosen.processes, say=_say)
    known, is_all = reasons(), chosen.part >= 1
    _show(found, known)
    for name in outdated(found, known, is_all=is_all):
        print(f"no longer needed:\n{_entry(name)}")
    _record(found, known)
    sys.exit(not is_right(found, known, is_all=is_all))


if __name__ == "__main__":
    main()
