"""axe-core finds barriers for people with disabilities."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock
from playwright.sync_api import Page

from tests.browser.waiting import undisturbed
from tests.deploy.programs import give_up

_HERE = Path(__file__).parent
_AXE = _HERE / "node_modules" / "axe-core" / "axe.min.js"
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN = """async ([type, values]) => {
    const found = await axe.run({runOnly: {type, values}, resultTypes: ["violations"]});
    return found.violations;
}"""


@cache
def _axe(lock: Path) -> str:
    """The script; npm installs it if it is missing."""
    with FileLock(lock):
        if not _AXE.exists() and shutil.which("npm") is not None:
            subprocess.run(["npm", "ci"], cwd=_HERE, check=False, capture_output=True, timeout=100)
    if not _AXE.exists():
        give_up("axe", "no axe-core here: npm ci --prefix tests/browser")
    return _AXE.read_text(encoding="utf-8")


class Axe:
    """The findings on a page; ``folder`` is one that all processes of the test run share."""

    def __init__(self, folder: Path) -> None:
        self._source = _axe(folder / "axe.lock")

    def check(self, page: Page, *, only: Sequence[str] = ()) -> None:
        """Fail if anything here is a serious or critical barrier by WCAG 2 A and AA or by good practice; with
        ``only``, by these rules.
        """
        found = [
            f"{rule['id']} ({rule['impact']}): {rule['help']}\n{_places(rule['nodes'])}"
            for rule in self.findings(page, only)
            if rule["impact"] in ("serious", "critical")
        ]
        assert not found, f"axe finds on {page.url}:\n" + "\n".join(found)

    def findings(self, page: Page, only: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Every finding, as axe says it."""
        return undisturbed(page, lambda: self._run(page, ["rule", list(only)] if only else ["tag", _TAGS]))

    def _run(self, page: Page, rules: list[object]) -> list[dict[str, Any]]:
        if not page.evaluate("typeof axe === 'object'"):
            page.evaluate(self._source)
        findings: list[dict[str, Any]] = page.evaluate(_RUN, rules)
        return findings


def _places(nodes: list[dict[str, Any]]) -> str:
    return "\n".join(f"    {' '.join(map(str, one['target']))}: {one['html'][:300]}" for one in nodes)
