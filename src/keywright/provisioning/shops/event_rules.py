"""Rules for the events of shops, their retries, and the fields of connections. Pure."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from keywright.core.errors import ConnectionFieldInvalid, UnreadableEvent
from keywright.core.parsing import is_storable, parse_metadata, parse_name, parse_shop_address
from keywright.core.standard_webhooks import parse_secret
from keywright.events.model import MailTemplate
from keywright.licensing.licenses.keys import REF_PREFIX
from keywright.licensing.licenses.rules import END_OF_TIME
from keywright.provisioning.customers import parse_language
from keywright.provisioning.shops import model

#: The maximum length of a shop's IDs, and of titles.
MAX_REF = 255
MAX_TITLE = 200
_MAX_LICENSE_REF = 200
#: The largest number of licenses, and of lines, of one order.
MAX_LICENSES, MAX_LINES = 5_000, 100
#: The delay between attempts, which doubles: while the shop's API is unavailable, and while the sale that an
#: event is about has not been received.
_FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=10), timedelta(hours=1)
_MAX_SHOP_ATTEMPTS, _MAX_SALE_ATTEMPTS = 80, 9
#: More attempts than for any reason: something prevents the event from being finished.
MAX_ATTEMPTS = 100


def require_usable(event: model.ShopEvent) -> model.ShopEvent:
    """Return the event, its name and titles cut to the stored length. Raises ``UnreadableEvent`` for texts
    that cannot be stored.
    """
    _require_refs([event.id])
    change = event.change
    if isinstance(change, model.Sale):
        _require_refs([change.order, change.subscription])
        change = replace(
            change,
            lines=_require_lines(_with_refs(change)),
            buyer=None if change.buyer is None else _cut_buyer(change.buyer),
            until=_whole_seconds(change.until),
        )
    elif isinstance(change, model.Renewal):
        _require_refs([change.subscription, change.order])
        lines = tuple(map(_cut_line, change.lines[:MAX_LINES]))
        change = replace(change, lines=lines, until=_whole_seconds(change.until))
    elif isinstance(change, model.Lines):
        _require_refs([change.subscription])
        change = replace(change, lines=_require_lines(change.lines), until=_whole_seconds(change.until))
    elif isinstance(change, model.StateChange):
        _require_refs([change.order, change.subscription])
        if (change.order is None) == (change.subscription is None):
            raise UnreadableEvent("a state is of an order or of a subscription")
    return replace(event, name=_cut(event.name, 100), change=change)


def _with_refs(sale: model.Sale) -> tuple[model.SaleLine, ...]:
    """Return the lines; those without a license reference get that of the order."""
    texts = (sale.metadata.get(name) for name in ("license_ref", "client_reference_id"))
    named = next((one for one in texts if isinstance(one, str) and one.startswith(REF_PREFIX)), None)
    refs = ((one.license_ref or named or "")[:_MAX_LICENSE_REF] or None for one in sale.lines)
    return tuple(replace(line, license_ref=ref) for line, ref in zip(sale.lines, refs, strict=True))


def _require_refs(texts: Collection[str | None]) -> None:
    for text in texts:
        if text is not None and not (0 < len(text) <= MAX_REF and is_storable(text)):
            raise UnreadableEvent(f"a number or an ID is empty or has more than {MAX_REF} characters")


def _require_lines(lines: tuple[model.SaleLine, ...]) -> tuple[model.SaleLine, ...]:
    _require_refs([line.number for line in lines])
    if len(lines) > MAX_LINES:
        raise UnreadableEvent(f"the order has more than {MAX_LINES} lines")
    if len({line.number for line in lines}) < len(lines):
        raise UnreadableEvent("two lines of the order have the same number")
    return tuple(map(_cut_line, lines))


def _cut(text: str, most: int) -> str:
    return "".join(filter(str.isprintable, text))[:most]


def _cut_line(line: model.SaleLine) -> model.SaleLine:
    """Remove the refs that no mapping can contain, and cut the title."""
    refs = tuple(one for one in line.refs if 0 < len(one) <= MAX_REF and is_storable(one))
    return replace(line, refs=refs, title=_cut(line.title, MAX_TITLE))


def _cut_buyer(buyer: model.Buyer) -> model.Buyer:
    name = _cut(buyer.name or "", MAX_TITLE).strip() or None
    return replace(buyer, name=name, language=_language_of(buyer))


def _language_of(buyer: model.Buyer) -> str | None:
    try:
        return parse_language(buyer.language or "")
    except ValueError:
        return None


def _whole_seconds(moment: datetime | None) -> datetime | None:
    """Return the moment in whole seconds, at most ``END_OF_TIME``, the last that a license can have."""
    if moment is None or moment >= END_OF_TIME:
        return None if moment is None else END_OF_TIME
    return moment.replace(microsecond=0)


def order_of(change: model.Change) -> str | None:
    """Return the order that a change is about, or its subscription; the subscription for a renewal."""
    order, subscription = getattr(change, "order", None), getattr(change, "subscription", None)
    return subscription if isinstance(change, model.Renewal) else order or subscription


def to_milliseconds(moment: datetime) -> int:
    """Return the milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def next_delay(reason: model.Reason, attempts: int, pause: timedelta = timedelta(0)) -> timedelta | None:
    """Return the delay before another attempt after so many, at least the ``pause`` that the shop requested,
    within limits; None if the event has to wait for a person.
    """
    most = {model.Reason.SHOP_UNAVAILABLE: _MAX_SHOP_ATTEMPTS, model.Reason.UNKNOWN_ORDER: _MAX_SALE_ATTEMPTS}
    if attempts >= most.get(reason, 0):
        return None
    doubled: int = 2 ** min(max(attempts, 1) - 1, 10)
    return min(max(_FIRST_DELAY * doubled, pause), LONGEST_DELAY)


#: The largest number of products in a mapping, and of order states that make licenses.
MAX_MAPPED, MAX_STATES = 1_000, 20
#: The largest number of policies in a bundle.
MAX_POLICIES = 20
#: The templates that contain the buyer's keys.
_WITH_KEYS = (MailTemplate.YOUR_LICENSE, MailTemplate.YOUR_KEYS)
#: The largest number of metadata names, and the maximum length of a name and of its text.
MAX_NAMES, MAX_NAME, MAX_TEXT = 20, 64, 250
_MAX_STATE, _MIN_SECRET, _MAX_SECRET = 40, 8, 500


def require_usable_connection(connection: model.Connection) -> None:
    """Raise ``ConnectionFieldInvalid`` for an invalid field."""
    try:
        is_named = parse_name(connection.name) == connection.name
    except ValueError as problem:
        raise ConnectionFieldInvalid("name", str(problem)) from None
    if not is_named:
        raise ConnectionFieldInvalid("name", "must not begin or end with white space")
    _require_usable_mapping(connection)
    _require_names(connection)
    if connection.mail_template is not None and connection.mail_template not in _WITH_KEYS:
        raise ConnectionFieldInvalid("mail_template", f"must be {' or '.join(_WITH_KEYS)}")
    if connection.url is not None:
        try:
            parse_shop_address(connection.url)
        except ValueError as problem:
            raise ConnectionFieldInvalid("url", str(problem)) from None


def require_usable_secret(shop: model.Shop, secret: str) -> None:
    """Raise ``ConnectionFieldInvalid`` for a secret that the shop cannot use."""
    if not (_MIN_SECRET <= len(secret) <= _MAX_SECRET and secret.isascii() and secret.isprintable()):
        raise ConnectionFieldInvalid("secret", f"must have {_MIN_SECRET} to {_MAX_SECRET} ASCII characters")
    if shop is model.Shop.GENERIC:
        try:
            parse_secret(secret)
        except ValueError as problem:
            raise ConnectionFieldInvalid("secret", str(problem)) from None


def _require_usable_mapping(connection: model.Connection) -> None:
    products = [one.product for one in connection.mapping]
    if len(products) > MAX_MAPPED:
        raise ConnectionFieldInvalid("mapping", f"must have at most {MAX_MAPPED} products")
    if not all(0 < len(one) <= MAX_REF and is_storable(one) for one in products):
        raise ConnectionFieldInvalid("mapping", f"must name products with 1 to {MAX_REF} characters")
    if len({*products}) < len(products):
        raise ConnectionFieldInvalid("mapping", "must name each product once")
    for one in connection.mapping:
        ids = one.all_policy_ids
        if len(ids) > MAX_POLICIES or len({*ids}) < len(ids):
            raise ConnectionFieldInvalid("mapping", f"must name each policy once, {MAX_POLICIES} at most")
        if one.does is not model.Does.MAKE and len(ids) != 1:
            raise ConnectionFieldInvalid("mapping", "must name one policy for a renewal or an upgrade")


def _require_names(connection: model.Connection) -> None:
    external_id = () if connection.external_id_name is None else (connection.external_id_name,)
    if not _are_names(connection.paid_states, MAX_STATES, _MAX_STATE):
        raise ConnectionFieldInvalid("paid_states", "must be the names of order states")
    if not _are_names(connection.metadata_names, MAX_NAMES, MAX_NAME):
        raise ConnectionFieldInvalid("metadata_names", f"must be at most {MAX_NAMES} metadata names")
    if not _are_names(external_id, 1, MAX_NAME):
        raise ConnectionFieldInvalid("external_id_name", "must be a metadata name")


def _are_names(names: tuple[str, ...], most: int, longest: int) -> bool:
    return len(names) <= most and all(0 < len(one) <= longest and one.isprintable() for one in names)


# --- metadata of a sale ---------------------------------------------------------------------------


def find_external_id(sale: model.Sale, connection: model.Connection) -> str | None:
    """Return the buyer's ID in another system of the vendor; None if there is none that can be stored."""
    value = sale.metadata.get(connection.external_id_name or "")
    text = "" if value is None or isinstance(value, bool) else str(value).strip()
    is_usable = 0 < len(text) <= MAX_REF and is_storable(text) and not text.startswith(REF_PREFIX)
    return text if is_usable else None


def take_metadata(change: model.Change, connection: model.Connection) -> str | None:
    """Return the metadata for the licenses of a sale; None if the sale has none of the named values."""
    if not isinstance(change, model.Sale):
        return None
    named = {name: change.metadata[name] for name in connection.metadata_names if name in change.metadata}
    taken = {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in named.items()}
    try:
        return parse_metadata({"shop": taken}) if taken else None
    except ValueError:
        return None
