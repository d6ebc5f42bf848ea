"""Read records from a shop's v2 interface: convert its JSON to rows of the plugin's tables."""

import io
import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from datetime import datetime
from typing import IO, Any

from keywright.core.errors import SourceUnusable
from keywright.provisioning.importers.lmfwc import DATA_ERROR, PlainKeys, list_activations, to_row
from keywright.provisioning.importers.lmfwc_client import (
    LmfwcClient,
    ShopRefusal,
    ShopUnavailable,
    read_data,
)
from keywright.provisioning.importers.model import Notice
from keywright.provisioning.importers.run import Report
from keywright_converter.source import GENERATORS, SpooledSource, id_of

#: The number of licenses to request per page; the plugin ignores it and sends all.
_PER_PAGE = 500
_LIST_START = re.compile(rb'\s*\{\s*"success"\s*:\s*true\s*,\s*"data"\s*:\s*\[')
_SEPARATORS = re.compile(r"[\s,]*")
_CHUNK, _MAX_ITEM = 1024**2, 64 * 1024**2
_decoder = json.JSONDecoder()


class WebShop(SpooledSource):
    """The records of a shop; call ``load``, which requests all of them, first."""

    def __init__(
        self,
        client: LmfwcClient,
        report: Report,
        *,
        now: datetime,
    ) -> None:
        super().__init__("lmfwc", PlainKeys(), report, now=now)
        self._client = client

    def load(self, progress: Callable[[int], None] = lambda _: None) -> None:
        """Request all licenses and generators; ``progress`` gets the number of licenses so far. Raises
        ``SourceUnusable``.
        """
        try:
            with closing(self._list_licenses()) as items:
                for number, item in enumerate(items, 1):
                    self._add(item)
                    if number % 100 == 0:
                        progress(number)
            self._load_generators()
        except ShopUnavailable as problem:
            raise SourceUnusable(
                f"{self._client.host} does not answer like License Manager for WooCommerce: {problem}. "
                "Nothing was imported; try again."
            ) from None
        except ShopRefusal as refusal:
            raise SourceUnusable(_explain(refusal, self._client.host)) from None
        self._spool.finish()
        if not self.total:
            raise SourceUnusable(f"{self._client.host} has no licenses. Nothing was imported.")
        self._note_joined()

    def _list_licenses(self) -> Generator[dict[str, Any], None, None]:
        """Yield all licenses, page by page. Systems without pages return all licenses to each request."""
        page, first, pages = 1, None, None
        while pages is None or page <= pages:
            path = f"licenses?page={page}&per_page={_PER_PAGE}"
            try:
                with self._client.open(path) as answer, closing(read_list(answer.body)) as items:
                    pages = answer.pages
                    item = next(items, None)
                    if item is None or item.get("id") == first:
                        return
                    first = item.get("id")
                    yield item
                    yield from items
            except ShopRefusal as refusal:
                if refusal.code == DATA_ERROR:
                    return
                raise
            page += 1

    def _add(self, item: dict[str, Any]) -> None:
        row = to_row(item)
        number = id_of(row, "id")
        if number is None:
            raise ShopUnavailable("a license in its list has no ID")
        self._spool.add_license(number, 0, row.get("license_key") or f"\0{number}", row)
        for one in list_activations(item):
            self._spool.add_activation(number, id_of(one, "id") or 0, 0, one)

    def _load_generators(self) -> None:
        try:
            found = self._client.get("generators")
        except ShopRefusal as refusal:
            if refusal.code != DATA_ERROR:
                self._report.note(Notice("list_refused", "generators", refusal.message[:200]))
            return
        for one in found if isinstance(found, list) else ():
            self._spool.add_other(GENERATORS, 0, to_row(one))


def read_list(file: IO[bytes]) -> Generator[dict[str, Any], None, None]:
    """Yield the records of a list in a response, without loading it whole: it may have hundreds of MB.

    Raises ``ShopUnavailable``, perhaps after some records, and ``ShopRefusal``.
    """
    file.seek(0)
    match = _LIST_START.match(file.read(1024))
    if match is None:
        records = read_data(file)
        if not isinstance(records, list):
            raise ShopUnavailable("its answer is not a list")
        yield from records
        return
    file.seek(match.end())
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace")
    try:
        yield from _decode_items(text)
    finally:
        # Otherwise, the wrapper would close the file.
        text.detach()


def _decode_items(text: io.TextIOWrapper) -> Iterator[dict[str, Any]]:
    buffer, at = "", 0
    while True:
        at = _SEPARATORS.match(buffer, at).end()  # type: ignore[union-attr]
        if buffer.startswith("]", at):
            return
        try:
            item, at = _decoder.raw_decode(buffer, at)
        except ValueError:
            more = text.read(max(_CHUNK, len(buffer) - at))
            if not more or len(buffer) - at > _MAX_ITEM:
                raise ShopUnavailable("its list of licenses cannot be read completely") from None
            buffer, at = buffer[at:] + more, 0
            continue
        if not isinstance(item, dict):
            raise ShopUnavailable("its list of licenses contains other data")
        yield item


def _explain(refusal: ShopRefusal, host: str) -> str:
    if refusal.status in (401, 403):
        help = (
            "Create an API key with read permission in the shop, under License Manager > Settings > REST API"
        )
    else:
        help = "Check that the plugin is active in the shop, and that its routes for licenses are enabled"
    return f"{host} refused the request: {refusal.message[:200]} {help}. Nothing was imported."
