"""The fields of a connection to a shop that can be set."""

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field

from keywright.core.command import Context
from keywright.core.errors import ConnectionFieldInvalid
from keywright.core.fields import Fields, Id, Name, about, list_changes
from keywright.core.nouns import Flag, Items
from keywright.core.parsing import parse_integer
from keywright.provisioning.shops.commands import AddConnection, UpdateConnection
from keywright.provisioning.shops.event_rules import MAX_MAPPED, MAX_NAME, MAX_NAMES, MAX_POLICIES, MAX_STATES
from keywright.provisioning.shops.model import (
    Connection,
    Does,
    MappedProduct,
    Mode,
    OnCancel,
    QuantityRule,
    Shop,
)

_Text = Annotated[str, Meta(min_length=1, max_length=255)]
_Word = Annotated[str, Meta(min_length=1, max_length=40)]
_Secret = Annotated[str, Meta(min_length=1, max_length=500)]
_Url = Annotated[str, Meta(min_length=1, max_length=2000)]
_Policies = Annotated[list[Id], Meta(max_length=MAX_POLICIES)]
_MetadataName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
EXTERNAL_ID = "The name in the metadata of a sale that contains the buyer's `external_id`."
METADATA = "Names in the metadata of a sale that are copied to `metadata.shop` of the licenses."


class NewMappedProduct(Fields):
    """What a product of the shop makes."""

    product: Annotated[
        _Text, about("A price, variation, product or SKU of the shop; `*` matches any other.", "price_1Pro")
    ]
    policy_id: Annotated[Id | None, about("The policy of its licenses; null for none.", 3)] = None
    policy_ids: Annotated[
        _Policies, about("The policies of a bundle; each unit makes a license from each of them.", [])
    ] = field(default_factory=list)
    does: Annotated[
        Does,
        about("`renew` or `upgrade` applies the policy to the license that the order's `license_ref` names."),
    ] = Does.MAKE
    quantity: Annotated[
        QuantityRule, about("Whether a quantity makes `keys`, or one license for more `devices`.", "keys")
    ] = QuantityRule.KEYS

    def finish(self) -> MappedProduct:
        """Return the entry to store. Raises ``ConnectionFieldInvalid``."""
        ids = self.policy_ids or [one for one in (self.policy_id,) if one is not None]
        if self.policy_id not in (None, *ids[:1]):
            raise ConnectionFieldInvalid("mapping", "must have policy_id, or policy_ids that begin with it")
        return MappedProduct(self.product, ids[0] if ids else None, self.quantity, tuple(ids[1:]), self.does)


def parse_mapped(text: str) -> NewMappedProduct:
    """Parse ``PRODUCT=POLICY``, ``PRODUCT=POLICY+POLICY``, ``PRODUCT=POLICY:WORD`` or ``PRODUCT=none``.
    Raises ``ValueError``.
    """
    product, _, made = text.rpartition("=")
    policies, _, word = made.partition(":")
    try:
        does = Does(word) if word in (Does.RENEW, Does.UPGRADE) else Does.MAKE
        rule = QuantityRule(word or "keys") if does is Does.MAKE else QuantityRule.KEYS
        ids = [] if policies == "none" else [parse_integer(one.strip()) or 0 for one in policies.split("+")]
    except ValueError:
        product = ""
    if not product:
        raise ValueError(
            "must be PRODUCT=POLICY, PRODUCT=POLICY+POLICY, PRODUCT=POLICY:devices, PRODUCT=POLICY:renew, "
            "PRODUCT=POLICY:upgrade or PRODUCT=none"
        )
    return NewMappedProduct(product=product, policy_ids=ids, quantity=rule, does=does)


def format_mapped(one: MappedProduct) -> str:
    """Format an entry as ``parse_mapped`` reads it."""
    policies = "+".join(map(str, one.all_policy_ids)) or "none"
    words = [one.does.value] if one.does is not Does.MAKE else []
    words += ["devices"] if one.quantity is QuantityRule.DEVICES else []
    return ":".join([f"{one.product}={policies}", *words])


_Mapping = Annotated[
    list[NewMappedProduct],
    Meta(max_length=MAX_MAPPED),
    about("What each product of the shop makes, renews or upgrades; `*` matches any other."),
    Items(parse_mapped, format_mapped, "--map", "PRODUCT=POLICY"),
]
_States = Annotated[
    list[_Word],
    Meta(max_length=MAX_STATES),
    about("The order states that make licenses, if the shop offers a choice."),
    Items(str, str, "--paid-state", "STATE"),
]
_MetadataNames = Annotated[
    list[_MetadataName],
    Meta(max_length=MAX_NAMES),
    about(METADATA),
    Items(str, str, "--metadata-name", "NAME"),
]
_MAIL = "Whether buyers get a mail with their keys; by default, those of a new connection do."
_Mail = Annotated[bool, about(_MAIL, True), Flag("--mail/--no-mail")]
_OnCancel = Annotated[
    OnCancel,
    about(
        "When the licenses of a canceled subscription end: `paid_until` (default) or `at_once`.",
        "paid_until",
    ),
]
_NewSecret = Annotated[
    _Secret, about("The secret with which the shop signs; without it, one is generated and shown once.")
]
_Name = Annotated[Name, about("Its name in the admin pages.", "Stripe, Europe")]


class ConnectionFields(Fields):
    """The fields of a connection that can be set; a change is a JSON merge patch."""

    name: _Name | UnsetType = UNSET
    mode: (
        Annotated[Mode, about("Whether `live` (default) or `test` events make licenses.", "live")] | UnsetType
    ) = UNSET
    secret: Annotated[_Secret, about("The secret with which the shop signs.")] | UnsetType = UNSET
    api_key: Annotated[_Secret, about("A restricted key of the shop's API.")] | UnsetType | None = UNSET
    mapping: _Mapping | UnsetType = UNSET
    url: Annotated[_Url, about("The shop's address, if the shop has its own.")] | UnsetType | None = UNSET
    paid_states: _States | UnsetType = UNSET
    sends_mail: _Mail | UnsetType = UNSET
    mail_template: (
        Annotated[_Word, about("The mail template: `your_license` (default) or `your_keys`.")]
        | UnsetType
        | None
    ) = UNSET
    on_cancel: _OnCancel | UnsetType = UNSET
    external_id_name: (
        Annotated[_MetadataName, about(EXTERNAL_ID, "client_reference_id")] | UnsetType | None
    ) = UNSET
    metadata_names: _MetadataNames | UnsetType = UNSET


class NewConnection(ConnectionFields, kw_only=True):
    """A connection to add."""

    shop: Annotated[Shop, about("The shop.", "stripe")]
    name: _Name
    secret: _NewSecret | UnsetType | None = UNSET  # type: ignore[assignment]


def to_add(context: Context, fields: NewConnection) -> AddConnection:
    """Return the command that adds a connection. Raises ``ConnectionFieldInvalid``."""
    given, secrets = _split(fields)
    connection = Connection(id=0, **given, created_at=context.now, updated_at=context.now)
    return AddConnection(context=context, connection=connection, **secrets)


def to_update(
    context: Context,
    connection_id: int,
    fields: ConnectionFields,
    precondition: Callable[[Connection], None] | None = None,
) -> UpdateConnection:
    """Return the command that changes a connection. Raises ``ConnectionFieldInvalid``."""
    changes, secrets = _split(fields)
    return UpdateConnection(
        context=context,
        connection_id=connection_id,
        changes=changes,
        precondition=precondition,
        **secrets,
    )


def _split(fields: ConnectionFields) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the given fields into those of a connection, as they are stored, and the secrets."""
    given = list_changes(fields)
    secrets = {"secret": given.pop("secret", None)}
    if "api_key" in given:
        secrets["api_key"] = given.pop("api_key") or ""
    if "mapping" in given:
        given["mapping"] = [one.finish() for one in given["mapping"]]
    return {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}, secrets
