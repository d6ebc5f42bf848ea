"""``keywright import csv`` and ``import jsonl``; and lists as tables, read page by page."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from keywright.cli import imports, output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, WrongUsage, command, with_installation
from keywright.core.command import Query
from keywright.core.nouns import ItemPage, Paging, Position
from keywright.core.parsing import MAX_COUNT

if TYPE_CHECKING:
    from keywright.provisioning.importers.rows import Defaults
    from keywright.provisioning.importers.run import Report
    from keywright.provisioning.importers.tables import Rejects, Table

_STANDARD_INPUT = "-"

#: ``keywright import``, to which this module adds commands.
app = imports.app


class Shop(StrEnum):
    """A shop whose columns are known."""

    KEYGEN = "keygen"
    LEMONSQUEEZY = "lemonsqueezy"
    EDD = "edd"
    GUMROAD = "gumroad"


_File = Annotated[Path, typer.Argument(metavar="FILE", help="The file to import; - is standard input.")]
_Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="COLUMN=FIELD,…",
        help="The field of a column, if its name does not show it; COLUMN= ignores the column.",
    ),
]
_From = Annotated[
    Shop | None,
    typer.Option("--from", help="The system that exported the file, whose columns Keywright knows."),
]
_Errors = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where to write rejected lines. Default: FILE.errors.csv, or .jsonl.",
    ),
]
_Zone = Annotated[
    str | None,
    typer.Option(
        "--zone",
        metavar="ZONE",
        help="The time zone of dates without a time, such as Europe/Berlin. Default: the setting.",
    ),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]


@command(
    app,
    "keywright import csv licenses.csv --dry-run",
    "keywright import csv licenses.csv --map 'Serial=key,Ends on=expires_at'",
    "keywright import csv keys.csv --from lemonsqueezy",
    name="csv",
)
@with_installation
def import_csv(
    here: Installation,
    file: _File,
    *,
    mapping: _Map = None,
    shop: _From = None,
    errors: _Errors = None,
    zone: _Zone = None,
    is_dry_run: _DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import licenses from a CSV file in UTF-8, with commas, semicolons or tabs.

    The first line names the columns: license_key, status, expires_at, valid_for, times_activated_max,
    product_id, order_id, customer_email, customer_name, customer_language, customer_id, created_at,
    updated_at, metadata (JSON) or metadata.NAME, policy_id, terms (JSON), order_details (JSON),
    sold_quantity, rule_terms (JSON), id, and fields of your own, such as external_id. Case does not matter,
    and common names such as Serial or Expiry Date are recognized. Only the license key is required.

    Lines that cannot be used are written to a file of errors, each with its reason, and the exit status is 1;
    all other lines are imported. Correct the lines in that file, and import it. A license that exists already
    is changed to the values in the file, unless it was changed here after updated_at or, without that column,
    after the file was.
    """
    _import(here, _Order("csv", file, mapping or [], shop, errors, zone, is_dry_run, as_json))


@command(
    app,
    "keywright export licenses --format jsonl --with-activations -o licenses.jsonl",
    "keywright import jsonl licenses.jsonl --dry-run",
    name="jsonl",
)
@with_installation
def import_jsonl(
    here: Installation,
    file: _File,
    *,
    mapping: _Map = None,
    shop: _From = None,
    errors: _Errors = None,
    zone: _Zone = None,
    is_dry_run: _DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import licenses from JSON Lines: one object per line.

    Its members are named like the columns of `keywright import csv`. An object may contain the license's
    activations with their tokens, as `keywright export` writes them.
    """
    _import(here, _Order("jsonl", file, mapping or [], shop, errors, zone, is_dry_run, as_json))


class _Order(NamedTuple):
    """The arguments and options of a command."""

    kind: str
    file: Path
    mapping: list[str]
    shop: Shop | None
    errors: Path | None
    zone: str | None
    is_dry_run: bool
    as_json: bool

    @property
    def errors_path(self) -> Path | None:
        """The file for lines that cannot be used; a dry run writes one only if it is named."""
        if self.errors is not None or self.is_dry_run:
            return self.errors
        name = "import" if str(self.file) == _STANDARD_INPUT else self.file.name
        if not name:
            # The file is a folder, which cannot be imported.
            return None
        return self.file.with_name(f"{name}.errors.{self.kind}")


def _import(here: Installation, order: _Order) -> None:
    from keywright.provisioning.importers.run import Report, run_import
    from keywright.provisioning.importers.tables import Rejects

    path, is_dry_run = order.errors_path, order.is_dry_run
    if path is not None and path.absolute() == order.file.absolute():
        raise WrongUsage("--errors cannot be the file that is imported")
    report = Report()
    with closing(Rejects(path, report)) as rejects, _open(order.file) as stream:
        table = _open_table(here, order, stream, rejects)
        with output.progress_bar("Licenses", None) as progress:
            run_import(table, here.change, here.context, report, is_dry_run=is_dry_run, progress=progress)
    _print(order, report, rejects, table)
    if rejects.amount:
        raise typer.Exit(1)


def _parse_maps(texts: list[str]) -> dict[str, str]:
    from keywright.provisioning.importers.columns import parse_map

    given: dict[str, str] = {}
    for text in texts:
        try:
            given |= parse_map(text)
        except ValueError as problem:
            raise WrongUsage(f"--map: {problem}") from None
    return given


def _parse_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise WrongUsage(f"--zone: there is no time zone {name}") from None


def _open_table(here: Installation, order: _Order, stream: BinaryIO, rejects: "Rejects") -> "Table":
    from keywright.provisioning.importers.columns import PRESETS
    from keywright.provisioning.importers.rows import Defaults, address_keeper
    from keywright.provisioning.importers.tables import About, CsvTable, JsonLines
    from keywright.provisioning.store import find_words_for_products

    file, at, preset = order.file, here.now, None if order.shop is None else PRESETS[order.shop]
    if file.is_file():
        at = min(at, datetime.fromtimestamp(int(file.stat().st_mtime), UTC))
    zone = _parse_zone(order.zone or here.settings.time_zone)
    with here.storage.read() as tx:
        products = find_words_for_products(tx)
    defaults = Defaults(at, address_keeper(here.settings, here.now), zone=zone, products=products)
    if order.kind == "jsonl" and file.is_file() and not order.is_dry_run:
        defaults = _reserve_ids(here, file, defaults)
    name = "standard input" if str(file) == _STANDARD_INPUT else file.name
    about = About(name, _parse_maps(order.mapping), preset, defaults)
    return CsvTable(stream, about, rejects) if order.kind == "csv" else JsonLines(stream, about, rejects)


def _reserve_ids(here: Installation, file: Path, defaults: "Defaults") -> "Defaults":
    """Let imported activations keep those of their IDs that no server has issued."""
    from keywright.provisioning.importers.tables import largest_activation_id

    with file.open("rb") as stream:
        largest = largest_activation_id(stream)
    if not largest:
        return defaults
    return imports.keep_ids(here, defaults, license_id=0, activation_id=largest)


@contextmanager
def _open(file: Path) -> Iterator[BinaryIO]:
    if str(file) == _STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with file.open("rb") as stream:
        yield stream


def _print(order: _Order, report: "Report", rejects: "Rejects", table: "Table") -> None:
    path = rejects.path if rejects.amount else None
    if order.as_json:
        about = {"is_dry_run": order.is_dry_run, "errors": None if path is None else str(path)}
        output.print_json(about | {"unused_columns": table.unused} | report.as_json())
        return
    output.print_line("This would be imported:" if order.is_dry_run else "Imported:")
    lines = report.lines() or ["  nothing"]
    if table.unused:
        lines += ["", f"Unused columns: {', '.join(table.unused)}"]
    if path is not None:
        lines += ["", f"Rejected lines are in {path}: correct them there, and import that file."]
    for line in lines:
        output.print_line(output.printable(line))


Item = TypeVar("Item")

_PIECE, _ROWS_OF_A_TABLE = 500, 50

Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=MAX_COUNT,
        help=f"How many to show. Default: {_ROWS_OF_A_TABLE}; as JSON, all.",
    ),
]


def print_list(
    here: Installation,
    query: Callable[[Paging], Query],
    *,
    limit: int | None,
    as_json: bool,
    columns: Sequence[str],
    to_row: Callable[[Any], Sequence[object]],
    to_json: Callable[[Any], object],
) -> None:
    """Print a list in the order of IDs: its beginning as a table, or everything as JSON."""
    if as_json:
        output.print_json_array(map(to_json, _read(here, query, limit)))
        return
    wanted = limit or _ROWS_OF_A_TABLE
    found = list(_read(here, query, wanted + 1))
    output.print_table(columns, map(to_row, found[:wanted]))
    if len(found) > wanted:
        output.print_line(f"The first {wanted:,}; --limit shows more.")


def _read(here: Installation, query: Callable[[Paging], Query], limit: int | None) -> Iterable[Any]:
    after: Position | None = None
    left = limit
    while left is None or left > 0:
        amount = _PIECE if left is None else min(_PIECE, left)
        page: ItemPage[Any] = here.ask(query(Paging(sort="id", after=after, limit=amount)))
        items = page.items[:amount]
        yield from items
        if len(page.items) <= amount:
            return
        after = (items[-1].id, items[-1].id)
        left = None if left is None else left - amount
