"""Hold every promise to its word: ``python -m proofs``."""

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
    "Run the long form of every promise of docs/explanation/never-wrong.md, and write that page from what "
    "was found. Status 1 when one was not kept."
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
        raise typer.BadParameter(f"there is no {', '.join(unknown)}", param_hint="--only")
    return [one for one in PROMISES if one.sign in signs]


def prove(
    *,
    only: Annotated[str | None, typer.Option(metavar="R1,…", help="Only these promises.")] = None,
    part: Annotated[
        float,
        typer.Option(metavar="P", min=0.0001, max=1.0, help="This part of each; parts add up to 1, all."),
    ] = 1.0,
    is_page_only: Annotated[
        bool, typer.Option("--page", help="Run nothing; write the page from the results that are there.")
    ] = False,
) -> None:
    """Run them one after the other; a result is kept as soon as it is there."""
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
    """Whether an earlier run adds to one of today's code: it ran through the same."""
    return find_changes(promise, earlier.commit).changed == 0


def _write_page() -> None:
    """Write the page, after counting what has changed since the last runs."""
    found = results.load()
    run_once = [one for one in PROMISES if one.sign in found]
    since = {one.sign: find_changes(one, found[one.sign].runs[-1].commit) for one in run_once}
    compared = results.Compared(find_commit().rstrip("+"), since)
    results.write(results.FOLDER / "since.json", compared)
    page.write(results.load())


def _show(chosen: list[Promise], found: dict[str, results.Result]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("", "promise", "wanted", "long runs", "of it"):
        table.add_column(name, overflow="fold")
    for one in chosen:
        result = found.get(one.sign)
        of_it = "" if result is None else f"{result.part:.0%}"
        table.add_row(one.sign, one.title, one.target, page.reached(one, result), of_it)
    Console().print(table)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Run the proofs; Ctrl-C and SIGTERM end them with everything that they started."""
    signal.signal(signal.SIGTERM, _stop)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=_HELP)(prove)
    app(prog_name="python -m proofs", standalone_mode=True)


if __name__ == "__main__":
    main()
