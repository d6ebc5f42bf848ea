"""``keywright export …``, and the output files of commands."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from errno import ENOENT
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from keywright.cli.installation import Installation
from keywright.cli.options import WrongUsage, command, with_installation


@contextmanager
def open_output(path: Path | None) -> Iterator[BinaryIO]:
    """Open standard output, or a file that only its owner can read and that gets its name when complete.

    Raises ``OSError`` with the name of the folder or of the file.
    """
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(ENOENT, "there is no such folder", str(path.parent))
    try:
        yield from _open_file(path)
    except OSError as problem:
        # The error names a temporary file or, for a full disk, no file at all.
        raise OSError(problem.errno, problem.strerror or str(problem), str(path)) from None


def _open_file(path: Path) -> Iterator[BinaryIO]:
    from keywright.db.locks import new_file, private_folder, rename_durably

    if path.exists() and not path.is_file():
        # Such as a pipe.
        with path.open("wb") as file:
            yield file
        return
    with private_folder(path.parent) as folder:
        with new_file(folder / path.name) as file:
            yield file
        rename_durably(folder / path.name, path, is_overwriting=True)


class Kind(StrEnum):
    """The records to export."""

    LICENSES = "licenses"
    ACTIVATIONS = "activations"
    EVENTS = "events"
    CUSTOMERS = "customers"
    USAGE = "usage"


class Format(StrEnum):
    """The format of the file."""

    CSV = "csv"
    JSONL = "jsonl"


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    add = command(
        app,
        "keywright export licenses -o licenses.csv",
        "keywright export licenses --format jsonl --with-activations -o licenses.jsonl",
        "keywright export events --format jsonl | jq .name",
    )
    add(with_installation(export))


def export(
    here: Installation,
    what: Annotated[
        Kind,
        typer.Argument(
            metavar="WHAT",
            help="licenses, activations, events, customers, or usage (the periods of all meters).",
        ),
    ],
    *,
    format: Annotated[
        Format, typer.Option(help="csv for spreadsheets; jsonl has one JSON object per line.")
    ] = Format.CSV,
    with_activations: Annotated[
        bool,
        typer.Option(
            "--with-activations", help="Include each license's activations; only for licenses as jsonl."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write. Default: standard output."),
    ] = None,
) -> None:
    """Export all records of a kind, with whole license keys and tokens, as CSV or JSON Lines.

    Only its owner can read the file. `keywright import csv` and `keywright import jsonl` restore the
    licenses unchanged, with their IDs where these are free; with --with-activations, the tokens of programs
    stay valid. In CSV, an apostrophe precedes a text that a spreadsheet could take for a formula; the import
    removes it. The server may keep running: each license is exported as it is when it is read.
    """
    from keywright.db import run_read
    from keywright.provisioning import exporters

    table = {
        Kind.LICENSES: exporters.LICENSES_EXPORT,
        Kind.ACTIVATIONS: exporters.ACTIVATIONS_EXPORT,
        Kind.EVENTS: exporters.EVENTS_EXPORT,
        Kind.CUSTOMERS: exporters.CUSTOMERS_EXPORT,
        Kind.USAGE: exporters.USAGE_EXPORT,
    }[what]
    if with_activations:
        if (what, format) != (Kind.LICENSES, Format.JSONL):
            raise WrongUsage("--with-activations is for licenses with --format jsonl")
        table = exporters.LICENSES_WITH_ACTIVATIONS
    write = exporters.as_csv if format is Format.CSV else exporters.as_json_lines
    with open_output(output) as file:
        for chunk in write(partial(run_read, here.storage), table):
            file.write(chunk)
