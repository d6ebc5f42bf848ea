"""Licenses and their commands. All are frozen: a change makes a new instance.

Times are aware datetimes in UTC, in whole seconds. IDs from the vendor's shop (orders, products, customers)
are stored as received and never looked up.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from enum import IntEnum, StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from keywright.core.command import Command
from keywright.core.errors import InvalidStatus
from keywright.core.fields import ExternalId, Fields, about
from keywright.core.parsing import MAX_ID

#: An integer in canonical form: no two texts denote the same one.
_NUMBER = re.compile("0|[1-9][0-9]{0,18}")


class Status(IntEnum):
    """What a person or a shop decided about a license. The values are those of the wire format."""

    SOLD = 1
    DELIVERED = 2
    ACTIVE = 3
    INACTIVE = 4
    DISABLED = 5


class State(StrEnum):
    """Whether a license can be used now: derived from its status, its expiry and its terms."""

    VALID = "valid"
    GRACE = "grace"
    EXPIRED = "expired"
    INACTIVE = "inactive"
    DISABLED = "disabled"


class LicenseSource(IntEnum):
    """The origin of a license. The values are those of the wire format."""

    GENERATOR = 1
    IMPORT = 2
    API = 3
    MIGRATION = 4


class LicenseFields(Fields):
    """The fields of a license that only the vendor sets. The API, the terminal, the pages, the history,
    exports and imports iterate over them; ``License`` stores each by its name, and ``ShownFields`` shows it.
    """

    external_id: (
        Annotated[
            ExternalId,
            about(
                "Your own ID; not unique.",
                "crm-9001",
                label="External ID",
                hint="Its ID in another system of yours.",
            ),
        ]
        | UnsetType
        | None
    ) = UNSET


class ShownFields(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``LicenseFields`` as they are shown and imported."""

    external_id: Annotated[str | None, about("Its ID in another system of yours.", "crm-9001")] = None


#: The names of ``LicenseFields``.
OWN_FIELDS = LicenseFields.__struct_fields__


class License(msgspec.Struct, frozen=True, gc=False):
    """The right to run a program in ``times_activated_max`` places; None means no limit.

    ``times_activated`` counts the active records that take a place, ``uncounted_count`` those that take none,
    and ``deactivated_count`` those that were given up and are still kept. ``metadata``, ``terms``,
    ``order_details`` and ``rule_terms`` are JSON objects as text: ``terms`` has the terms that differ from
    the default and have no field (see ``terms.rules.parse_terms``), ``order_details`` is set for orders that
    are more than a number (see ``order_of``), and ``rule_terms`` has, for terms set by hand, the values that
    a rule (a sale, the policy) last wrote. ``quantity`` is the number of units sold, ``external_id`` the ID
    in another system of the vendor.
    """

    id: int
    key: str
    order_id: int | None
    product_id: int | None
    customer_id: int | None
    expires_at: datetime | None
    valid_for_days: int | None
    source: int
    status: int
    times_activated: int
    times_activated_max: int | None
    created_at: datetime
    created_by: int | None
    updated_at: datetime
    updated_by: int | None
    deactivated_count: int = 0
    metadata: str | None = None
    policy_id: int | None = None
    terms: str | None = None
    order_details: str | None = None
    external_id: str | None = None
    quantity: int = 1
    rule_terms: str | None = None
    uncounted_count: int = 0

    @property
    def active_count(self) -> int:
        """The number of active records, including those that take no place."""
        return self.times_activated + self.uncounted_count

    @property
    def record_count(self) -> int:
        """The number of all records."""
        return self.active_count + self.deactivated_count


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """The order line that a license was sold with. ``source`` is the shop; ``index`` counts the line's
    licenses from 0; in a bundle, ``policy_id`` distinguishes the other licenses from the first. Line, index
    and policy together are unique.
    """

    source: str = ""
    id: str | None = None
    line: str | None = None
    index: int = 0
    policy_id: int | None = None

    @property
    def number(self) -> int | None:
        """The ID as an integer, as v2 shows it; None if it is not one."""
        text = self.id or ""
        return int(text) if _NUMBER.fullmatch(text) and int(text) <= MAX_ID else None


class LicenseFilter(msgspec.Struct, frozen=True):
    """The conditions of a list of licenses; None matches any."""

    status: int | None = None
    product_id: int | None = None
    order_id: int | None = None
    customer_id: int | None = None
    external_id: str | None = None


def own_fields(license: License) -> dict[str, Any]:
    """Return the fields that ``LicenseFields`` declares."""
    return {name: getattr(license, name) for name in OWN_FIELDS}


_decode_order = msgspec.json.Decoder(Order).decode


def order_of(license: License) -> Order:
    """Return the order of a license."""
    return read_order(license.order_id, license.order_details)


def read_order(number: int | None, details: str | None) -> Order:
    """Build an order from these fields of ``License``."""
    if details is not None:
        return _decode_order(details)
    return Order(id=None if number is None else str(number))


def order_fields(order: Order) -> dict[str, int | str | None]:
    """Return the fields of ``License`` that store this order."""
    number = order.number
    is_number_alone = order == Order(id=order.id) and (order.id is None or number is not None)
    details = None if is_number_alone else msgspec.json.encode(order).decode()
    return {"order_id": number, "order_details": details}


def order_line_hash(order: Order) -> bytes | None:
    """Return the hash that is unique among licenses; None for an order without a line."""
    if order.line is None:
        return None
    of_bundle = [] if order.policy_id is None else [order.policy_id]
    parts = [order.source, order.id, order.line, order.index, *of_bundle]
    return hashlib.sha256(msgspec.json.encode(parts)).digest()


def parse_status(value: object) -> Status:
    """Parse a status from its name, in any case, or its number. Raises ``InvalidStatus``."""
    text = str(value).strip() if isinstance(value, str | int) and str(value).isascii() else ""
    if re.fullmatch(r"[1-5]", text):
        return Status(int(text))
    try:
        return Status[text.upper()]
    except KeyError:
        raise InvalidStatus from None


class LicenseCommand(Command, frozen=True, kw_only=True):
    """A request to change a license, which is named by its key or ID.

    With ``only_product_id``, licenses of other products do not exist for the caller.
    """

    license: str | int
    only_product_id: int | None = None

    @property
    def locks(self) -> Collection[str | int]:
        """The license."""
        return (self.license,)


class NewLicenseCommand(Command, frozen=True, kw_only=True):
    """A request to make licenses, with a status, IDs of the vendor's shop, and ``LicenseFields``."""

    status: int
    order_id: int | None = None
    product_id: int | None = None
    customer_id: int | None = None
    fields: Mapping[str, Any] = {}


class CreateLicense(NewLicenseCommand, frozen=True, kw_only=True):
    """Make a license with this key."""

    key: str
    expires_at: datetime | None = None
    valid_for_days: int | None = None
    times_activated_max: int | None = None

    @property
    def locks(self) -> Collection[str | int]:
        """The license that may already have the key."""
        return (self.key,)


class UpdateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Change the given fields, named as in ``License``; ``terms``, ``order`` (fields of ``Order``) and
    ``metadata`` are JSON merge patches.
    """

    changes: Mapping[str, Any] = {}
    terms: Mapping[str, Any] = {}
    order: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] | UnsetType | None = UNSET

    @property
    def locks(self) -> Collection[str | int]:
        """The license, and the one that may already have the new key."""
        new_key = self.changes.get("key")
        return (self.license,) if new_key is None else (self.license, new_key)


class ApplyTerms(LicenseCommand, frozen=True, kw_only=True):
    """Set these members of the license's terms, which are JSON from its policy, for its quantity. Members set
    by hand change only with ``overwrite``; all others stay.
    """

    terms: Mapping[str, Any]
    overwrite: bool = False


class DeleteLicense(LicenseCommand, frozen=True, kw_only=True):
    """Delete the license and its activations."""


class ShowKey(LicenseCommand, frozen=True, kw_only=True):
    """Show the whole license key to a user."""


class ExtendLicense(LicenseCommand, frozen=True, kw_only=True):
    """Move the expiry to this many days and months (in the time zone) after the present one, after ``now``,
    or after the later of both; or move it to ``until``.
    """

    days: int = 0
    months: int = 0
    zone: tzinfo = UTC
    is_from_now: bool = False
    is_from_later: bool = False
    until: datetime | None = None


class RaiseLimit(LicenseCommand, frozen=True, kw_only=True):
    """Allow this many more places."""

    places: int


#: The keys or IDs of licenses that get a new key, by that key.
Renames = dict[str | int, list[str | int]]


def with_former_names(names: Iterable[str | int], renames: Renames) -> list[str | int]:
    """Return these names, and the former names of licenses that were renamed to one of these."""
    seen = [*names]
    for name in seen:
        # The loop also visits the names that it appends.
        seen += [old for old in renames.get(name, ()) if old not in seen]
    return seen


def find_renames(commands: Iterable[Command]) -> Renames:
    """Return the licenses to which commands give a new key, by that key."""
    renames: Renames = {}
    for one in commands:
        if type(one) is UpdateLicense and "key" in one.changes:
            renames.setdefault(one.changes["key"], []).append(one.license)
    return renames
