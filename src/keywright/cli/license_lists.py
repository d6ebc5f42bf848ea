"""``keywright license list`` and ``keywright license find``"""

import sys
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any

import msgspec
import typer

from keywright.cli import licenses, options, output
from keywright.cli.installation import Installation
from keywright.core import crypto
from keywright.core.parsing import MAX_COUNT, parse_external_id, parse_integer
from keywright.licensing.activations.model import FindLicenses, LicensePage, LicenseRecord, ListLicenses
from keywright.licensing.licenses.model import License, LicenseFilter
from keywright.licensing.management import ManagedLicense

#: ``keywright license``, to which this module adds commands.
app = licenses.app

_ROWS_OF_A_TABLE = 50
_PIECE = 500
#: The length that the end of a key must have to be searched for.
_LEAST_END, _MOST_END = 4, 8
_OF_SHOP = ("product", "order", "customer")

_PolicyId = Annotated[
    int | None, typer.Option(metavar="ID", parser=parse_integer, help="Only licenses of this policy.")
]
_ExternalId = Annotated[
    str | None,
    typer.Option(metavar="ID", parser=parse_external_id, help="Only licenses with this external ID."),
]
_Expired = Annotated[bool, typer.Option("--expired", help="Only expired licenses.")]


class _Sort(StrEnum):
    """The orders of a list; a dash reverses the order."""

    ID = "id"
    LATEST_ID = "-id"
    CREATED = "created_at"
    LATEST_CREATED = "-created_at"
    EXPIRES = "expires_at"
    LATEST_EXPIRES = "-expires_at"


_SortOption = Annotated[
    _Sort,
    typer.Option(
        "--sort", metavar="BY", help="id, created_at or expires_at; a leading - reverses the order."
    ),
]

_Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=MAX_COUNT,
        help=f"How many to show. Default: {_ROWS_OF_A_TABLE}; as JSON, all.",
    ),
]
_ShowKeys = Annotated[bool, typer.Option("--show-keys", help="Show whole license keys in the table.")]


@options.command(
    app,
    "keywright license list --status disabled",
    "keywright license list --expired --sort -expires_at",
    "keywright license list --json > licenses.json",
    name="list",
)
@options.with_installation
def list_licenses(
    here: Installation,
    *,
    status: options.StatusOption = None,
    product_id: options.ProductId = None,
    order_id: options.OrderId = None,
    customer_id: options.CustomerId = None,
    policy_id: _PolicyId = None,
    external_id: _ExternalId = None,
    is_expired: _Expired = False,
    sort: _SortOption = _Sort.ID,
    limit: _Limit = None,
    show_keys: _ShowKeys = False,
    as_json: options.AsJson = False,
) -> None:
    """List licenses.

    The table shows only the last characters of their keys, unless you use --show-keys; JSON contains whole
    keys.
    """
    where = LicenseFilter(status, product_id, order_id, customer_id, external_id)
    if policy_id is not None or is_expired or sort is not _Sort.ID:
        found = _search(here, where, policy_id, sort, is_expired=is_expired)
        _print_found(here, found, limit, show_keys=show_keys, as_json=as_json)
        return
    if as_json:
        records = _all(here, where, limit)
        output.print_json_array(map(output.record_json, records))
        return
    query = ListLicenses(where=where, page=1, per_page=limit or _ROWS_OF_A_TABLE)
    page: LicensePage = here.ask(query)
    _print_table(here, [one.license for one in page.records], show_keys=show_keys)
    more = " (--limit shows more)" if len(page.records) < page.total else ""
    output.print_line(f"{len(page.records):,} of {page.total:,} licenses{more}")


@options.command(app, "keywright license find YCJ5G", "keywright license find ada@example.com --json")
@options.with_installation
def find(
    here: Installation,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="A license key or its end, an e-mail address, a token, a fingerprint, a label, an order …",
        ),
    ],
    *,
    limit: _Limit = None,
    show_keys: _ShowKeys = False,
    as_json: options.AsJson = False,
) -> None:
    """Find licenses by something that the customer knows, newest first.

    TEXT is a license key in upper or lower case, with or without dashes; its last 4 to 8 characters; the
    customer's e-mail address, ID or name; an order; or the token, fingerprint, label or IP address of a
    device. A new device can be found after some seconds.
    """
    found = _find(here, text, limit or _ROWS_OF_A_TABLE)
    if as_json:
        output.print_json_array(output.managed_license_json(one, here.now) for one in found)
        return
    if not found:
        output.print_line("No license found.")
        return
    _print_table(here, [one.license for one in found], show_keys=show_keys)


def _find(here: Installation, text: str, limit: int) -> tuple[ManagedLicense, ...]:
    """Try the meanings of the text, the likeliest first; return the licenses of the first that has any."""
    from keywright.search.license_pages import ManagedPage, SearchManaged

    ways: list[dict[str, Any]] = [{"key": text}, {"email": text} if "@" in text else {"text": text}]
    if _LEAST_END <= len(crypto.fold_key(text)) <= _MOST_END:
        ways.insert(1, {"key_end": text})
    ways.append({"fingerprint": text})
    for way in ways:
        page: ManagedPage = here.ask(SearchManaged(now=here.now, limit=limit, **way))
        if page.licenses:
            return page.licenses
    return ()


def _search(
    here: Installation, where: LicenseFilter, policy_id: int | None, sort: _Sort, *, is_expired: bool
) -> Iterator[License]:
    """Yield the licenses that match, read page by page."""
    # Imported here: it needs SQLAlchemy, for which --help should not wait.
    from keywright.search.filters import Order, Search
    from keywright.search.license_pages import ListManaged, ManagedPage

    orders = {"id": Order.OLDEST, "created_at": Order.CREATED, "expires_at": Order.EXPIRES}
    search = Search(
        **msgspec.structs.asdict(where),
        policy_id=policy_id,
        expires=(None, here.now + timedelta(seconds=1)) if is_expired else None,
        order=orders[sort.removeprefix("-")],
    )
    page: ManagedPage | None = None
    while page is None or page.after is not None:
        query = ListManaged(
            search=search,
            now=here.now,
            limit=_PIECE,
            after=None if page is None else page.after,
            is_backward=sort.startswith("-"),
        )
        page = here.ask(query)
        yield from (one.license for one in page.licenses)


def _print_found(
    here: Installation, found: Iterator[License], limit: int | None, *, show_keys: bool, as_json: bool
) -> None:
    if as_json:
        shown = islice(found, limit)
        output.print_json_array(output.record_json(here.get_license(one.key)) for one in shown)
        return
    wanted = limit or _ROWS_OF_A_TABLE
    licenses = list(islice(found, wanted + 1))
    _print_table(here, licenses[:wanted], show_keys=show_keys)
    if len(licenses) > wanted:
        output.print_line(f"The first {wanted:,}; --limit shows more.")


def _print_table(here: Installation, licenses: list[License], *, show_keys: bool) -> None:
    # Show an ID of the shop only if one of the licenses has it.
    of_shop = [name for name in _OF_SHOP if any(getattr(one, f"{name}_id") is not None for one in licenses)]
    columns = ("id", "license key", "status", "activations", "expires at", *of_shop)
    output.print_table(columns, [_license_row(here, one, of_shop, show_keys=show_keys) for one in licenses])


def _all(here: Installation, where: LicenseFilter, limit: int | None) -> Iterator[LicenseRecord]:
    """Yield the licenses that match, read in pieces, so that only one piece is in memory."""
    after, left = 0, sys.maxsize if limit is None else limit
    while left:
        query = FindLicenses(where=where, after_id=after, limit=min(_PIECE, left))
        piece: tuple[LicenseRecord, ...] = here.ask(query)
        if not piece:
            return
        yield from piece
        after, left = piece[-1].license.id, left - len(piece)


def _license_row(
    here: Installation, one: License, of_shop: list[str], *, show_keys: bool
) -> tuple[object, ...]:
    key = one.key if show_keys else crypto.mask(one.key)
    state = (output.status_name(one), output.places(one), output.expiry(one, here.now))
    return (one.id, key, *state, *(getattr(one, f"{name}_id") for name in of_shop))
