"""Measure statement and branch coverage: ``python -m proofs.coverage``.

The tests assigned to the modules of R18 (proofs/modules.py) must cover them completely, on SQLite. The rest
of the domain is measured with tests/unit, tests/storage and the tests of the desk, on both databases, and
only reported.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from proofs.modules import ON_SQLITE, ROOT, TESTS, source_of
from tests.proving import record

#: Other modules with decisions, for which no coverage is required.
OTHERS = (
    "core.parsing",
    "licensing.unit_of_work",
    "licensing.queries",
    "engine.executor",
    "provisioning.policies.handlers",
)
#: Omits sequences of commands, which take longest and cover no line that single commands do not.
QUICK_TESTS = (
    *(test for tests in TESTS.values() for test in tests if "over_time" not in test),
    *ON_SQLITE,
)
ALL_TESTS = (
    "tests/unit",
    "tests/storage",
    *TESTS["engine.desk"],
    "tests/concurrency/test_desk_afar.py",
    # The first measures coverage itself; the second checks the results of proofs, and this one is still
    # running.
    "--ignore=tests/unit/test_proof_tools.py",
    "--ignore=tests/unit/test_proofs.py",
)
#: Environment variables to remove, so that a measurement is independent of one that it runs in.
_FOREIGN = ("COVERAGE_", "COV_", "PYTEST_", "PROOFS_FILE", "LONG_PROOFS")


class Covered(NamedTuple):
    """A module's coverage: its statements and branches, and how many of each no test runs."""

    statements: int
    statements_left: int
    branches: int
    branches_left: int
    #: Statements excluded by a comment or the settings.
    excluded: int
    #: The numbers of lines that are not covered completely.
    left: list[int]

    @property
    def is_whole(self) -> bool:
        """Whether everything is covered, and nothing excluded."""
        return not (self.statements_left or self.branches_left or self.excluded)


def run(tests: Sequence[str] = ALL_TESTS, modules: Collection[str] = (*TESTS, *OTHERS)) -> dict[str, Covered]:
    """Measure the coverage of each module by these tests. Raises ``RuntimeError`` if a test fails."""
    with tempfile.TemporaryDirectory(prefix="keywright-coverage-") as name:
        folder = Path(name)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
        environment["COVERAGE_FILE"] = str(folder / "coverage")
        environment["COVERAGE_RCFILE"] = str(_write_settings(folder / "settings.toml", modules))
        pytest = ("pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'tests'}")
        _do(environment, folder, "run", "-m", *pytest, *tests)
        _do(environment, folder, "combine", "--quiet")
        _do(environment, folder, "json", "--quiet", "-o", str(folder / "report"))
        files = json.loads((folder / "report").read_text())["files"]
    return {module: _covered(files[str(source_of(module).relative_to(ROOT))]) for module in modules}


def _write_settings(path: Path, modules: Iterable[str]) -> Path:
    """Write settings as in pyproject.toml, but only for these modules: tracing all takes twice as long."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        ours = tomllib.load(file)["tool"]["coverage"]
    run = {name: value for name, value in ours["run"].items() if name != "source_pkgs"}
    run["include"] = [str(source_of(module)) for module in modules]
    parts = {"run": run, "report": ours["report"]}
    lines = [
        line
        for part, values in parts.items()
        for line in (f"[tool.coverage.{part}]", *(f"{k} = {json.dumps(v)}" for k, v in values.items()))
    ]
    path.write_text("\n".join(lines))
    return path


def is_right(found: Mapping[str, Covered]) -> bool:
    """Whether the modules of R18 are covered completely."""
    return all(one.is_whole for module, one in found.items() if module in TESTS)


def write_down(found: Mapping[str, Covered], part: str = "branch coverage") -> None:
    """Record the coverage of the modules of R18."""
    ours = [one for module, one in found.items() if module in TESTS]
    counted = {
        "modules": len(ours),
        "statements": sum(one.statements for one in ours),
        "statements not covered": sum(one.statements_left + one.excluded for one in ours),
        "branches": sum(one.branches for one in ours),
        "branches not covered": sum(one.branches_left for one in ours),
    }
    record("R18", part, counted=counted)


def _do(environment: Mapping[str, str], folder: Path, *command: str) -> None:
    output = folder / "output"
    with output.open("wb") as file:
        python = [sys.executable, "-m", "coverage", *command]
        process = subprocess.Popen(python, cwd=ROOT, env=environment, stdout=file, stderr=file)
        try:
            status = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if status != 0:
        said = output.read_text(errors="replace")[-8000:]
        raise RuntimeError(f"coverage {' '.join(command)} ends with {status}\n{said}")


def _covered(file: Mapping[str, object]) -> Covered:
    summary, left = file["summary"], file["missing_lines"]
    assert isinstance(summary, dict)
    assert isinstance(left, list)
    branches = file["missing_branches"]
    assert isinstance(branches, list)
    return Covered(
        summary["num_statements"],
        summary["missing_lines"],
        summary["num_branches"],
        summary["missing_branches"],
        summary["excluded_lines"],
        sorted({*left, *(start for start, _ in branches)}),
    )


def _show(found: Mapping[str, Covered]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("module")
    for heading in ("statements", "not run", "branches", "not run"):
        table.add_column(heading, justify="right")
    table.add_column("lines")
    for module, one in found.items():
        figures = (one.statements, one.statements_left + one.excluded, one.branches, one.branches_left)
        name = module if module in TESTS else f"({module})"
        table.add_row(name, *map(str, figures), ", ".join(map(str, one.left)))
    Console().print(table)


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Measure; exit with status 1 if a module of R18 is not covered completely."""
    signal.signal(signal.SIGTERM, _stop)
    found = run(QUICK_TESTS, TESTS) | run(ALL_TESTS, OTHERS)
    _show(found)
    write_down(found)
    sys.exit(not is_right(found))


if __name__ == "__main__":
    main()
