"""Drill failovers: ``python -m drill``."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import psycopg
import typer
from rich.console import Console

from drill import cluster, folders, instances, network
from drill.faults import FAULTS
from drill.report import Report, save, show
from drill.rounds import Drill, Round
from drill.trouble import Trouble

_HELP = (
    "Let a PostgreSQL cluster lose its primary again and again, under load.\n\n"
    "Three nodes with Patroni and etcd, two instances of Keywright, clients that write down what they are "
    "told. After each fault what they were told is compared with what the database holds.\n\n"
    + "\n\n".join(f"{kind}: {fault.words}." for kind, fault in FAULTS.items())
)

_progress = Console(stderr=True, highlight=False)


def _say(message: str) -> None:
    _progress.print(message, style="dim", markup=False)


def _kinds(text: str | None) -> list[str]:
    reason = network.why_not()
    if text is None:
        if reason is not None:
            _say(f"{', '.join(k for k, f in FAULTS.items() if f.needs_network)} are left out: {reason}")
        return [kind for kind, fault in FAULTS.items() if reason is None or not fault.needs_network]
    kinds = text.replace(" ", "").split(",")
    for kind in kinds:
        if kind not in FAULTS:
            raise typer.BadParameter(f"there is no {kind}; there are {', '.join(FAULTS)}")
        if FAULTS[kind].needs_network and reason is not None:
            raise typer.BadParameter(f"{kind} is not possible: {reason}")
    return kinds


@contextmanager
def _keeping_logs(folder: Path, logs: Path | None) -> Iterator[None]:
    try:
        yield
    finally:
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
            for log in folder.glob("*.log"):
                shutil.copy(log, logs)


def _play(drill: Drill, report: Report, kinds: list[str], rounds: int) -> None:
    total = rounds * len(kinds)
    # Turn by turn, so that one kind of fault meets what another has left.
    for number in range(total):
        report.rounds.append(drill.play(kinds[number % len(kinds)]))
        _say(f"round {number + 1} of {total}: {_words(report.rounds[-1])}")
    drill.judge_again()


def _words(played: Round) -> str:
    wrong = ", something is wrong" if played.findings else ""
    return (
        f"{played.kind}, {played.acknowledged:,} changes acknowledged, "
        f"{len(played.findings.missing)} missing, "
        f"no writes for {played.write_outage:.1f} s (the cluster {played.cluster_outage:.1f} s), "
        f"no validations for {played.read_outage:.1f} s{wrong}"
    )


def drill(
    *,
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="How many faults of each kind.")
    ] = 2,
    kinds: Annotated[
        str | None, typer.Option(metavar="KIND,…", help=f"Only some of: {', '.join(FAULTS)}.")
    ] = None,
    asynchronous: Annotated[
        bool,
        typer.Option(
            "--asynchronous",
            help="Commit without waiting for a standby. That may lose changes; status 1 when it does not.",
        ),
    ] = False,
    writers: Annotated[
        int, typer.Option(metavar="N", min=8, max=256, help="How many clients change something.")
    ] = 16,
    logs: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep what the programs have logged there.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there, too.")
    ] = None,
) -> None:
    """Drill, and print what was found; status 1 when anything is not as it must be."""
    chosen = _kinds(kinds)
    with_network = any(FAULTS[kind].needs_network for kind in chosen)
    for leftover in folders.clear_leftovers():
        _say(f"cleared away {leftover}")
    report = Report(not asynchronous, [])
    try:
        with folders.own_folder() as folder, _keeping_logs(folder, logs):
            _say("making a cluster …")
            with (
                cluster.running(folder, synchronous=not asynchronous, with_network=with_network) as nodes,
                instances.running(folder, nodes.url) as servers,
            ):
                _play(Drill(nodes, servers, writers=writers), report, chosen, rounds)
    except (Trouble, psycopg.Error, subprocess.SubprocessError) as problem:
        report.trouble = str(problem)
    show(report, Console())
    if json_file is not None:
        save(report, json_file)
    if not report.is_right:
        raise typer.Exit(1)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Run the drill; Ctrl-C and SIGTERM end it with everything that it started."""
    signal.signal(signal.SIGTERM, _stop)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=_HELP)(drill)
    app(prog_name="python -m drill", standalone_mode=True)


if __name__ == "__main__":
    main()
