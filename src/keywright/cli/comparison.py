"""``--compare`` of ``keywright import lmfwc`` and ``import edd``."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.core.errors import UnknownLicense
from keywright.core.parsing import format_count
from keywright.licensing.activations.model import FindLicenses, LicenseRecord
from keywright.licensing.licenses.model import License, LicenseFilter

if TYPE_CHECKING:
    from keywright.provisioning.importers.lmfwc_client import LmfwcClient
    from keywright_converter.comparison import Difference
    from keywright_converter.source import SpooledSource

_AT_ONCE = 500


def compare_shop(here: Installation, client: "LmfwcClient", *, as_json: bool) -> None:
    """Print how the licenses of a shop differ from those here; exit with status 1 if any does."""
    from keywright.provisioning.importers.run import Report
    from keywright_converter.web import WebShop

    compare_source(here, WebShop(client, Report(), now=here.now), as_json=as_json)


def compare_source(here: Installation, source: "SpooledSource", *, as_json: bool) -> None:
    """Print how the licenses of a source differ from those here; exit with status 1 if any does."""
    with closing(source) as shop:
        with output.progress_bar("Reading the licenses", None) as progress:
            shop.load(progress)
        seen: set[bytes] = set()
        differences = [*_compare_theirs(here, shop, seen), *_list_others(here, seen)]
    amount = len({one.license for one in differences})
    if as_json:
        output.print_json(
            {
                "compared": len(seen),
                "different": amount,
                "differences": [one._asdict() for one in differences],
            }
        )
    else:
        if differences:
            output.print_table(("license", "field", "there", "here"), differences)
            output.print_line()
        what = f"{format_count(len(seen), 'license')} compared"
        result = f"differences in {format_count(amount, 'license')}" if amount else "no differences"
        output.print_line(f"{what}: {result}. Nothing was changed.")
    if amount:
        raise typer.Exit(1)


def _compare_theirs(here: Installation, shop: "SpooledSource", seen: set[bytes]) -> Iterator["Difference"]:
    from keywright_converter.comparison import compare

    with output.progress_bar("Licenses", shop.total) as progress:
        for license in shop.licenses():
            seen.add(_digest(license.key))
            yield from compare(license, _find(here, license.key))
            progress(len(seen))


def _list_others(here: Installation, seen: set[bytes]) -> Iterator["Difference"]:
    """Yield a difference for each license that exists only here."""
    from keywright_converter.comparison import only_here

    for license in _list_licenses(here):
        digest = _digest(license.key)
        if digest not in seen:
            seen.add(digest)
            yield only_here(license)


def _list_licenses(here: Installation) -> Iterator[License]:
    last = 0
    while records := here.ask(FindLicenses(where=LicenseFilter(), after_id=last, limit=_AT_ONCE)):
        yield from (one.license for one in records)
        last = records[-1].license.id


def _find(here: Installation, key: str) -> LicenseRecord | None:
    try:
        return here.get_license(key)
    except UnknownLicense:
        return None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()[:16]
