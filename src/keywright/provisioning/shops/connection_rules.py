"""What a connection can be, and what it takes of the metadata of a sale. Pure."""

from keywright.core.errors import ConnectionFieldInvalid
from keywright.core.parsing import is_storable, parse_metadata, parse_name, parse_shop_address
from keywright.core.standard_webhooks import parse_secret
from keywright.events.outbox import MailTemplate
from keywright.licensing.licenses.keys import REF_PREFIX
from keywright.provisioning.shops.event_rules import MAX_REF
from keywright.provisioning.shops.model import Change, Connection, Does, Sale, Shop

#: The most products of a mapping, and the most order states that make licenses.
MAX_MAPPED, MAX_STATES = 1_000, 20
#: The most policies of a bundle.
MAX_POLICIES = 20
#: The templates that show buyers their keys.
_WITH_KEYS = (MailTemplate.YOUR_LICENSE, MailTemplate.YOUR_KEYS)
#: The most names of metadata, and the most characters of a name and of its text.
MAX_NAMES, MAX_NAME, MAX_TEXT = 20, 64, 250
_MAX_STATE, _MIN_SECRET, _MAX_SECRET = 40, 8, 500


def require_usable_connection(connection: Connection) -> None:
    """Raise ``ConnectionFieldInvalid`` for a field that cannot be."""
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


def require_usable_secret(shop: Shop, secret: str) -> None:
    """Raise ``ConnectionFieldInvalid`` for a secret that the shop cannot have given."""
    if not (_MIN_SECRET <= len(secret) <= _MAX_SECRET and secret.isascii() and secret.isprintable()):
        raise ConnectionFieldInvalid("secret", f"must have {_MIN_SECRET} to {_MAX_SECRET} ASCII characters")
    if shop is Shop.GENERIC:
        try:
            parse_secret(secret)
        except ValueError as problem:
            raise ConnectionFieldInvalid("secret", str(problem)) from None


def _require_usable_mapping(connection: Connection) -> None:
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
        if one.does is not Does.MAKE and len(ids) != 1:
            raise ConnectionFieldInvalid("mapping", "must name one policy to renew or upgrade by")


def _require_names(connection: Connection) -> None:
    external_id = () if connection.external_id_name is None else (connection.external_id_name,)
    if not _are_names(connection.paid_states, MAX_STATES, _MAX_STATE):
        raise ConnectionFieldInvalid("paid_states", "must be the names of order states")
    if not _are_names(connection.metadata_names, MAX_NAMES, MAX_NAME):
        raise ConnectionFieldInvalid("metadata_names", f"must be {MAX_NAMES} names of metadata at most")
    if not _are_names(external_id, 1, MAX_NAME):
        raise ConnectionFieldInvalid("external_id_name", "must be a name of metadata")


def _are_names(names: tuple[str, ...], most: int, longest: int) -> bool:
    return len(names) <= most and all(0 < len(one) <= longest and one.isprintable() for one in names)


# --- metadata of a sale ---------------------------------------------------------------------------


def find_external_id(sale: Sale, connection: Connection) -> str | None:
    """The buyer's ID in another system of the vendor; None for one that cannot be stored, too."""
    value = sale.metadata.get(connection.external_id_name or "")
    text = "" if value is None or isinstance(value, bool) else str(value).strip()
    is_usable = 0 < len(text) <= MAX_REF and is_storable(text) and not text.startswith(REF_PREFIX)
    return text if is_usable else None


def take_metadata(change: Change, connection: Connection) -> str | None:
    """The metadata of licenses that a sale makes; None where the sale has none of what was named."""
    if not isinstance(change, Sale):
        return None
    named = {name: change.metadata[name] for name in connection.metadata_names if name in change.metadata}
    taken = {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in named.items()}
    try:
        return parse_metadata({"shop": taken}) if taken else None
    except ValueError:
        return None
