"""Run the long forms of promises: ``python -m proofs``."""

import signal
from functools import partial
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from proofs import page, results
from proofs.promises import PROMISES, Promise
from proofs.reach import find_changes, find_commit
from proofs.run import run

_HELP = (
    "Run the long form of all promises in docs/explanation/never-wrong.md, and generate that page from the "
    "results. Exits with status 1 if a promise was not kept."
)

_progress = Console(stderr=True, highlight=False)


def _say(message: str) -> None:
    _progress.print(message, style="dim", markup=False)


def _chosen(text: str | None) -> list[Promise]:
    if text is None:
        return list(PROMISES)
    signs = text.upper().replace(" ", "").split(",")
    unknown = sorted(set(signs) - {one.sign for one in PROMISES})
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}", param_hint="--only")
    return [one for one in PROMISES if one.sign in signs]


def prove(
    *,
    only: Annotated[str | None, typer.Option(metavar="R1,…", help="Only these promises.")] = None,
    part: Annotated[
        float,
        typer.Option(metavar="P", min=0.0001, max=1.0, help="Only this share of each; shares add up to 1."),
    ] = 1.0,
    is_page_only: Annotated[
        bool, typer.Option("--page", help="Run nothing; generate the page from the stored results.")
    ] = False,
) -> None:
    """Run the promises one after another, and store each result immediately."""
    chosen = _chosen(only)
    for promise in [] if is_page_only else chosen:
        _say(f"{promise.sign}: {promise.title}")
        results.add(run(promise, part, _say), partial(_counts, promise))
        _write_page()
    _write_page()
    found = results.load()
    _show(chosen, found)
    if not all(found[one.sign].is_kept for one in chosen if one.sign in found):
        raise typer.Exit(1)


def _counts(promise: Promise, earlier: results.Run) -> bool:
    """Whether an earlier run counts for the current code: the files that it used have not changed."""
    return find_changes(promise, earlier.commit).changed == 0


def _write_page() -> None:
    """Count the changes since the last runs, and generate the page."""
    found = results.load()
    run_once = [one for one in PROMISES if one.sign in found]
    since = {one.sign: find_changes(one, found[one.sign].runs[-1].commit) for one in run_once}
    compared = results.Compared(find_commit().rstrip("+"), since)
    results.write(results.FOLDER / "since.json", compared)
    page.write(results.load())


def _show(chosen: list[Promise], found: dict[str, results.Result]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("", "promise", "wanted", "long runs", "share"):
        table.add_column(name, overflow="fold")
    for one in chosen:
        result = found.get(one.sign)
        of_it = "" if result is None else f"{result.part:.0%}"
        table.add_row(one.sign, one.title, one.target, page.reached(one, result), of_it)
    Console().print(table)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Run the proofs; Ctrl-C and SIGTERM stop them and everything they started."""
    signal.signal(signal.SIGTERM, _stop)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=_HELP)(prove)
    app(prog_name="python -m proofs", standalone_mode=True)


if __name__ == "__main__":
    main()
