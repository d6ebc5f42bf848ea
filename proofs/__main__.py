"""Hold every promise to its word: ``python -m proofs``."""

import signal
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from proofs import page, results
from proofs.promises import PROMISES, Promise
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
        float, typer.Option(metavar="P", min=0.0001, max=1.0, help="This part of each long form; 1 is all.")
    ] = 1.0,
    is_page_only: Annotated[
        bool, typer.Option("--page", help="Run nothing; write the page from the results that are there.")
    ] = False,
) -> None:
    """Run them one after the other; a result is kept as soon as it is there."""
    chosen = _chosen(only)
    for promise in [] if is_page_only else chosen:
        _say(f"{promise.sign}: {promise.title}")
        results.save(run(promise, part, _say))
        page.write(results.load())
    found = results.load()
    page.write(found)
    _show(chosen, found)
    if not all(found[one.sign].is_kept for one in chosen if one.sign in found):
        raise typer.Exit(1)


def _show(chosen: list[Promise], found: dict[str, results.Result]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("", "promise", "wanted", "last long run", "of it"):
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
