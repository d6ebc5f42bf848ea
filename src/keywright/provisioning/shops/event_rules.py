"""What of a shop's event can be kept, and when another attempt at it is made. Pure."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from keywright.core.errors import UnreadableEvent
from keywright.core.parsing import is_storable
from keywright.licensing.licenses.keys import REF_PREFIX
from keywright.licensing.licenses.rules import END_OF_TIME
from keywright.provisioning.customers import parse_language
from keywright.provisioning.shops.model import (
    Buyer,
    Change,
    Lines,
    Reason,
    Renewal,
    Sale,
    SaleLine,
    ShopEvent,
    StateChange,
)

#: The most characters of the texts by which a shop names things.
MAX_REF = 255
MAX_TITLE = 200
_MAX_LICENSE_REF = 200
#: The most licenses, and the most lines, of one order.
MAX_LICENSES, MAX_LINES = 5_000, 100
#: How long each wait before another attempt is: while the shop's API does not answer, and while the sale that
#: an event is about has not come.
_FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=10), timedelta(hours=1)
_MAX_SHOP_ATTEMPTS, _MAX_SALE_ATTEMPTS = 80, 9
#: More attempts than any reason has: something keeps them from coming to an end.
MAX_ATTEMPTS = 100


def require_usable(event: ShopEvent) -> ShopEvent:
    """The event, its name and titles cut to what is kept. Raises ``UnreadableEvent`` for texts that cannot be
    kept, and moments that no license has.
    """
    _require_refs([event.id])
    change = event.change
    if isinstance(change, Sale):
        _require_refs([change.order, change.subscription])
        change = replace(
            change,
            lines=_require_lines(_with_refs(change)),
            buyer=None if change.buyer is None else _cut_buyer(change.buyer),
            until=_whole_seconds(change.until),
        )
    elif isinstance(change, Renewal):
        _require_refs([change.subscription, change.order])
        lines = tuple(map(_cut_line, change.lines[:MAX_LINES]))
        change = replace(change, lines=lines, until=_whole_seconds(change.until))
    elif isinstance(change, Lines):
        _require_refs([change.subscription])
        change = replace(change, lines=_require_lines(change.lines), until=_whole_seconds(change.until))
    elif isinstance(change, StateChange):
        _require_refs([change.order, change.subscription])
        if (change.order is None) == (change.subscription is None):
            raise UnreadableEvent("a state is of an order or of a subscription")
    return replace(event, name=_cut(event.name, 100), change=change)


def _with_refs(sale: Sale) -> tuple[SaleLine, ...]:
    """The lines, with the license that the order names where they name none."""
    texts = (sale.metadata.get(name) for name in ("license_ref", "client_reference_id"))
    named = next((one for one in texts if isinstance(one, str) and one.startswith(REF_PREFIX)), None)
    refs = ((one.license_ref or named or "")[:_MAX_LICENSE_REF] or None for one in sale.lines)
    return tuple(replace(line, license_ref=ref) for line, ref in zip(sale.lines, refs, strict=True))


def _require_refs(texts: Collection[str | None]) -> None:
    for text in texts:
        if text is not None and not (0 < len(text) <= MAX_REF and is_storable(text)):
            raise UnreadableEvent(f"a number or an ID is empty or has more than {MAX_REF} characters")


def _require_lines(lines: tuple[SaleLine, ...]) -> tuple[SaleLine, ...]:
    _require_refs([line.number for line in lines])
    if len(lines) > MAX_LINES:
        raise UnreadableEvent(f"the order has more than {MAX_LINES} lines")
    if len({line.number for line in lines}) < len(lines):
        raise UnreadableEvent("two lines of the order have the same number")
    return tuple(map(_cut_line, lines))


def _cut(text: str, most: int) -> str:
    return "".join(filter(str.isprintable, text))[:most]


def _cut_line(line: SaleLine) -> SaleLine:
    """The line without references that no mapping can name."""
    refs = tuple(one for one in line.refs if 0 < len(one) <= MAX_REF and is_storable(one))
    return replace(line, refs=refs, title=_cut(line.title, MAX_TITLE))


def _cut_buyer(buyer: Buyer) -> Buyer:
    name = _cut(buyer.name or "", MAX_TITLE).strip() or None
    return replace(buyer, name=name, language=_language_of(buyer))


def _language_of(buyer: Buyer) -> str | None:
    try:
        return parse_language(buyer.language or "")
    except ValueError:
        return None


def _whole_seconds(moment: datetime | None) -> datetime | None:
    """None for a moment beyond the calendar of licenses, too: it is never."""
    if moment is None or moment >= END_OF_TIME:
        return None if moment is None else END_OF_TIME
    return moment.replace(microsecond=0)


def order_of(change: Change) -> str | None:
    """The order that a change is about, or its subscription; that of a renewal, whose sale has another."""
    order, subscription = getattr(change, "order", None), getattr(change, "subscription", None)
    return subscription if isinstance(change, Renewal) else order or subscription


def to_milliseconds(moment: datetime) -> int:
    """Milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def next_delay(reason: Reason, attempts: int, pause: timedelta = timedelta(0)) -> timedelta | None:
    """The wait before another attempt after so many, as long as the ``pause`` that the shop asks for, within
    bounds; None when a person has to look.
    """
    most = {Reason.SHOP_UNAVAILABLE: _MAX_SHOP_ATTEMPTS, Reason.UNKNOWN_ORDER: _MAX_SALE_ATTEMPTS}
    if attempts >= most.get(reason, 0):
        return None
    doubled: int = 2 ** min(max(attempts, 1) - 1, 10)
    return min(max(_FIRST_DELAY * doubled, pause), LONGEST_DELAY)
