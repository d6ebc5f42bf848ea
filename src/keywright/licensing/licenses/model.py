"""Licenses, and the commands about them. All of them are frozen: a change makes a new one.

Times are aware datetimes in UTC, in whole seconds. Numbers that come from the vendor's shop (orders,
products, users) are kept as they came and never looked up.
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

#: A number as it is written everywhere: no two texts are the same number.
_NUMBER = re.compile("0|[1-9][0-9]{0,18}")


class Status(IntEnum):
    """The decision of a person or a shop about a license. The numbers are the wire format's."""

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
    """The origin of a license. The numbers are the wire format's."""

    GENERATOR = 1
    IMPORT = 2
    API = 3
    MIGRATION = 4


class LicenseFields(Fields):
    """What a vendor may set of a license and no rule decides. The API, the terminal, the pages, the history,
    exports and imports read these members; ``License`` stores each by its name, and ``ShownFields`` shows it.
    """

    external_id: (
        Annotated[
            ExternalId,
            about(
                "Your own ID; not unique.",
                "crm-9001",
                label="External ID",
                hint="What another system of yours calls it.",
            ),
        ]
        | UnsetType
        | None
    ) = UNSET


class ShownFields(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The same as they are shown and imported."""

    external_id: Annotated[str | None, about("What another system of yours calls it.", "crm-9001")] = None


#: The names of these fields.
OWN_FIELDS = LicenseFields.__struct_fields__


class License(msgspec.Struct, frozen=True, gc=False):
    """The right to run a program in ``times_activated_max`` places; None is no limit.

    ``times_activated`` counts its active records that take a place, ``uncounted_count`` those that take
    none, and ``deactivated_count`` those that were given up and are still kept. ``metadata``, ``terms`` and
    ``order_details`` are the texts of JSON objects: ``terms`` has those that are not the default and have
    no field (see ``terms.rules.parse_terms``), ``order_details`` is set for orders that are more than a
    number (see ``order_of``). ``quantity`` is how many units it was sold for; ``rule_terms`` is the text of
    a JSON object, too: of terms that were set by hand, the values that a rule (a sale, its policy) last
    wrote. ``external_id`` is the ID of another system
    of the vendor.
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
        """Its active records, also those that take no place."""
        return self.times_activated + self.uncounted_count

    @property
    def record_count(self) -> int:
        """All of its records."""
        return self.active_count + self.deactivated_count


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """The order line that a license was sold with; ``source`` is the shop, ``index`` counts the line's
    licenses from 0; of a bundle, ``policy_id`` tells its licenses apart from the first one's. No two licenses
    are of the same line, index and policy.
    """

    source: str = ""
    id: str | None = None
    line: str | None = None
    index: int = 0
    policy_id: int | None = None

    @property
    def number(self) -> int | None:
        """Its ID, where that is a number, as v2 shows it."""
        text = self.id or ""
        return int(text) if _NUMBER.fullmatch(text) and int(text) <= MAX_ID else None


class LicenseFilter(msgspec.Struct, frozen=True):
    """Which licenses a list is about; None is any."""

    status: int | None = None
    product_id: int | None = None
    order_id: int | None = None
    customer_id: int | None = None
    external_id: str | None = None


def own_fields(license: License) -> dict[str, Any]:
    """The fields that ``LicenseFields`` declares."""
    return {name: getattr(license, name) for name in OWN_FIELDS}


_decode_order = msgspec.json.Decoder(Order).decode


def order_of(license: License) -> Order:
    """The order of a license."""
    return read_order(license.order_id, license.order_details)


def read_order(number: int | None, details: str | None) -> Order:
    """The order that these fields of ``License`` state."""
    if details is not None:
        return _decode_order(details)
    return Order(id=None if number is None else str(number))


def order_fields(order: Order) -> dict[str, int | str | None]:
    """The fields of ``License`` that store this order."""
    number = order.number
    is_number_alone = order == Order(id=order.id) and (order.id is None or number is not None)
    details = None if is_number_alone else msgspec.json.encode(order).decode()
    return {"order_id": number, "order_details": details}


def order_line_hash(order: Order) -> bytes | None:
    """The hash that no two licenses have; None for an order without a line."""
    if order.line is None:
        return None
    of_bundle = [] if order.policy_id is None else [order.policy_id]
    parts = [order.source, order.id, order.line, order.index, *of_bundle]
    return hashlib.sha256(msgspec.json.encode(parts)).digest()


def parse_status(value: object) -> Status:
    """A status by its name in any case or its number. Raises ``InvalidStatus``."""
    text = str(value).strip() if isinstance(value, str | int) and str(value).isascii() else ""
    if re.fullmatch(r"[1-5]", text):
        return Status(int(text))
    try:
        return Status[text.upper()]
    except KeyError:
        raise InvalidStatus from None


class LicenseCommand(Command, frozen=True, kw_only=True):
    """A request to change a license, which is named by its key or by its id.

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
        """The license that may have the key already."""
        return (self.key,)


class UpdateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``License``; ``terms``, ``order`` (with the fields
    of ``Order``) and ``metadata`` are JSON merge patches.
    """

    changes: Mapping[str, Any] = {}
    terms: Mapping[str, Any] = {}
    order: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] | UnsetType | None = UNSET

    @property
    def locks(self) -> Collection[str | int]:
        """The license, and the one that may have the new key already."""
        new_key = self.changes.get("key")
        return (self.license,) if new_key is None else (self.license, new_key)


class ApplyTerms(LicenseCommand, frozen=True, kw_only=True):
    """Give the license these members of its policy's terms, as JSON, for its quantity; all others stay, and
    those that were set by hand, but with ``overwrite``.
    """

    terms: Mapping[str, Any]
    overwrite: bool = False


class DeleteLicense(LicenseCommand, frozen=True, kw_only=True):
    """Delete the license and its activations."""


class ShowKey(LicenseCommand, frozen=True, kw_only=True):
    """Show the whole license key to a user."""


class ExtendLicense(LicenseCommand, frozen=True, kw_only=True):
    """Move the expiry this many days and months (of the time zone) after the present one, after ``now``, or
    after the later of both; or to the moment ``until``.
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


#: The licenses that are given a new key, by that key.
Renames = dict[str | int, list[str | int]]


def with_former_names(names: Iterable[str | int], renames: Renames) -> list[str | int]:
    """These names, and those that licenses have had before they were given one of these."""
    seen = [*names]
    for name in seen:
        # Goes on with the names that are added.
        seen += [old for old in renames.get(name, ()) if old not in seen]
    return seen


def find_renames(commands: Iterable[Command]) -> Renames:
    """The licenses that commands give a new key, by that key."""
    renames: Renames = {}
    for one in commands:
        if type(one) is UpdateLicense and "key" in one.changes:
            renames.setdefault(one.changes["key"], []).append(one.license)
    return renames
