"""What a connection can be. Pure."""

from keywright.core.errors import ConnectionFieldInvalid
from keywright.core.parsing import is_storable, parse_name, parse_shop_address
from keywright.core.standard_webhooks import parse_secret
from keywright.events.outbox.model import MailTemplate
from keywright.provisioning.shops.event_rules import MAX_REF
from keywright.provisioning.shops.model import Connection, Shop

#: The most products of a mapping, and the most order states that make licenses.
MAX_MAPPED, MAX_STATES = 1_000, 20
#: The templates that show buyers their keys.
_WITH_KEYS = (MailTemplate.YOUR_LICENSE, MailTemplate.YOUR_KEYS)
_MAX_STATE, _MIN_SECRET, _MAX_SECRET = 40, 8, 500


def require_usable_connection(connection: Connection) -> None:
    """Raise ``ConnectionFieldInvalid`` for a name, mapping, address, states or template that cannot be."""
    try:
        is_named = parse_name(connection.name) == connection.name
    except ValueError as problem:
        raise ConnectionFieldInvalid("name", str(problem)) from None
    if not is_named:
        raise ConnectionFieldInvalid("name", "must not begin or end with white space")
    _require_usable_mapping(connection)
    states = connection.paid_states
    if len(states) > MAX_STATES or not all(
        0 < len(one) <= _MAX_STATE and one.isprintable() for one in states
    ):
        raise ConnectionFieldInvalid("paid_states", "must be the names of order states")
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
