"""The columns of tables of licenses: which field each column is, and how its values are parsed."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from keywright.core import parsing
from keywright.core.errors import InvalidLicenseKey, InvalidStatus
from keywright.core.nouns import Member, list_members
from keywright.licensing.licenses.keys import normalize_key
from keywright.licensing.licenses.model import OWN_FIELDS, LicenseFields, LicenseSource, Status, parse_status
from keywright.provisioning.customers import parse_email, parse_language

#: Programs that parse JSON numbers as JavaScript does confuse larger IDs.
MAX_ID = 2**53 - 1
#: The prefix of a column that is one member of the metadata.
METADATA = "metadata."
#: The column with the reason why a line could not be used. It is written, but never read.
ERROR = "error"
_UNIX_TIME = re.compile(r"\d{9,10}", re.ASCII)

#: The words in a column that stand for other values, in lower case; None is no value.
Words = Mapping[str, Mapping[str, str | None]]


class Preset(NamedTuple):
    """The columns of a shop's export, and the meaning of the words in them."""

    columns: Mapping[str, str]
    words: Words


#: The names of each field in tables, without capitals and punctuation; the first is Keywright's own.
_NAMES = {
    "key": "licensekey key license serial serialnumber serialkey productkey activationkey licensecode",
    "id": "id licenseid",
    "status": "status licensestatus",
    "expires_at": (
        "expiresat expires expiry expirydate expiration expirationdate expireson validuntil enddate"
    ),
    "valid_for_days": "validfordays validfor",
    "times_activated_max": (
        "timesactivatedmax maxactivations activationlimit activationslimit limit maxdevices devices seats"
    ),
    "product_id": "productid productnumber product",
    "order_id": "orderid ordernumber",
    "customer_id": "customerid customernumber userid",
    "customer_email": "customeremail email emailaddress useremail buyeremail purchaseemail",
    "customer_name": "customername buyername",
    "customer_language": "customerlanguage",
    "created_at": "createdat created createdon datecreated purchasedate purchasedat orderdate",
    "created_by": "createdby",
    "updated_at": "updatedat updated updatedon dateupdated modified lastmodified",
    "updated_by": "updatedby",
    "source": "source",
    "metadata": "metadata",
    "policy_id": "policyid",
    "terms": "terms",
    "order_details": "orderdetails",
    "quantity": "soldquantity",
    "rule_terms": "ruleterms",
    "activations": "activations activationdata",
} | {name: name.replace("_", "") for name in OWN_FIELDS}
#: Names of columns that may contain IDs, or something else.
_LOOSE_NAMES = {"order": "order_id", "customer": "customer_id"}
#: Names of columns that are guessed to be about a customer.
_NAMES_OF_PEOPLE = {"customer": "customer_name", "name": "customer_name", "language": "customer_language"}
_FIELD_OF = {name: field for field, names in _NAMES.items() for name in names.split()}
#: Words that any table may contain.
WORDS: Words = {
    "expires_at": {"never": None, "lifetime": None},
    "times_activated_max": {"unlimited": None},
}


def assign_fields(
    names: Sequence[str], given: Mapping[str, str], preset: Preset | None = None
) -> list[str | None]:
    """Return the field of each column: the ``given`` one, or the preset's; without a preset, by the column's
    name. A column with None is not used. Raises ``ValueError``.
    """
    wanted = {name.strip().lower(): _parse_field(field) for name, field in given.items()}
    columns = [name.strip().lower() for name in names]
    there = {*columns}
    missing = [name for name in given if name.strip().lower() not in there]
    if missing:
        raise ValueError(f"there is no column {missing[0]}")
    known = {} if preset is None else {name.lower(): field for name, field in preset.columns.items()}
    taken = {field for field in wanted.values() if field}
    fields = []
    for name, column in zip(names, columns, strict=True):
        guessed = _guess(name) if preset is None else known.get(column)
        fields.append(wanted.get(column, None if guessed in taken else guessed))
    _refuse_twice(names, fields)
    return fields


def guess_fields(
    names: Sequence[str], preset: Preset | None = None, *, is_loose: bool = False
) -> list[str | None]:
    """Guess the field of each column, for a person to check: if two columns could be the same field, the
    first is it. ``is_loose``: a column "Order" contains IDs of orders, unless another column does. A column
    "Customer" then contains their IDs, otherwise their names.
    """
    try:
        fields = assign_fields(names, {}, preset)
    except ValueError:
        known = {} if preset is None else {name.lower(): field for name, field in preset.columns.items()}
        fields = [_guess(name) if preset is None else known.get(name.strip().lower()) for name in names]
        fields = [None if field in fields[:place] else field for place, field in enumerate(fields)]
    for place, name in enumerate(names):
        letters = name.strip().lower()
        field = _LOOSE_NAMES.get(letters) if is_loose else None
        field = field or _NAMES_OF_PEOPLE.get(letters)
        if field and preset is None and fields[place] is None and field not in fields:
            fields[place] = field
    return fields


def parse_map(text: str) -> dict[str, str]:
    """Parse the fields of columns: ``Serial=key,Ends=expires_at``. Raises ``ValueError``."""
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise ValueError("must be COLUMN=FIELD, or several separated by commas")
    for _, _, field in pairs:
        _parse_field(field)
    return {name.strip(): field.strip() for name, _, field in pairs}


def _parse_field(text: str) -> str | None:
    """Parse the name of a field; an empty text is None."""
    field = _guess(text)
    if text.strip() and field is None:
        raise ValueError(f"there is no field {text.strip()}")
    return field


def _guess(name: str) -> str | None:
    name = name.strip()
    if name.lower().startswith(METADATA) and len(name) > len(METADATA):
        return METADATA + name[len(METADATA) :]
    return _FIELD_OF.get(re.sub(r"[^a-z0-9]", "", name.lower()))


def _refuse_twice(names: Sequence[str], fields: list[str | None]) -> None:
    """Resolve two columns for one field: the one with the field's own name is meant; without one, raise."""
    for field in [one for one, count in Counter(fields).items() if one is not None and count > 1]:
        places = [place for place, one in enumerate(fields) if one == field]
        own = [place for place in places if _letters(names[place]) in (_letters(field), _own_name(field))]
        if len(own) != 1:
            both = " and ".join(names[place] for place in places[:2])
            raise ValueError(f"{both} could both be {field_name(field)}; choose one with --map")
        for place in places:
            fields[place] = field if place == own[0] else None


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _own_name(field: str) -> str:
    return _NAMES.get(field, "").partition(" ")[0]


def field_name(field: str) -> str:
    """Return the name of a field as it is shown to people."""
    names = {"key": "license_key", "valid_for_days": "valid_for", "quantity": "sold_quantity"}
    return names.get(field, field)


def _parse_key(value: object) -> str:
    if value is None:
        raise ValueError("is missing")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    try:
        if isinstance(value, str):
            return normalize_key(value)
    except InvalidLicenseKey:
        pass
    raise ValueError("must have 1 to 255 characters, and no control characters")


def _parse_status(value: object) -> int:
    try:
        return Status.ACTIVE.value if value is None else parse_status(value).value
    except InvalidStatus:
        raise ValueError("must be sold, delivered, active, inactive or disabled") from None


def _parse_time(value: object) -> datetime | None:
    """Parse a time as over v2, also with a final UTC, or as a number of seconds since 1970."""
    return _parse_time_text(value) if isinstance(value, str) else parsing.parse_time(value)


# Many lines have the same times, so they are cached.
@lru_cache(maxsize=8192)
def _parse_time_text(text: str) -> datetime | None:
    if _UNIX_TIME.fullmatch(text):
        return datetime.fromtimestamp(int(text), UTC)
    return parsing.parse_time(text.removesuffix(" UTC"))


def _parse_person(parse: Callable[[str], str]) -> Callable[[object], str | None]:
    """Return the parser of a text about a customer; an empty text is None."""

    def parse_value(value: object) -> str | None:
        if not isinstance(value, str | None):
            raise ValueError("must be a text")
        return parse(value.strip()) if value and value.strip() else None

    return parse_value


def _parse_own(member: Member) -> Callable[[object], Any]:
    return lambda value: None if value is None else member.read(str(value))


def _parse_number(value: object) -> int | None:
    return parsing.parse_integer(value)


def _parse_id(value: object) -> int | None:
    return parsing.parse_integer(value, MAX_ID) or None


def _parse_product(value: object) -> int | None:
    """Parse the ID of a product; its name and code are words for the ID (``Defaults.products``)."""
    try:
        return _parse_number(value)
    except ValueError:
        raise ValueError("must be a product's ID or code, or a name that only one product has") from None


def _parse_source(value: object) -> int:
    number = parsing.parse_integer(value, max(LicenseSource).value)
    return number or LicenseSource.IMPORT.value


def _parse_any(value: object) -> object:
    if isinstance(value, str) and not parsing.is_storable(value):
        raise ValueError("must be in UTF-8, without null characters")
    return value


#: The parser of each field; raises ``ValueError`` with the problem.
PARSERS: dict[str, Callable[[object], Any]] = {
    "key": _parse_key,
    "id": _parse_id,
    "status": _parse_status,
    "expires_at": _parse_time,
    "valid_for_days": parsing.parse_days,
    "times_activated_max": parsing.parse_limit,
    "product_id": _parse_product,
    "order_id": _parse_number,
    "customer_id": _parse_number,
    "customer_email": _parse_person(parse_email),
    "customer_name": _parse_person(parsing.parse_name),
    "customer_language": _parse_person(parse_language),
    "policy_id": _parse_id,
    "created_at": _parse_time,
    "created_by": _parse_number,
    "updated_at": _parse_time,
    "updated_by": _parse_number,
    "source": _parse_source,
    "quantity": lambda value: parsing.parse_integer(value, parsing.MAX_COUNT) or 1,
} | {one.name: _parse_own(one) for one in list_members(LicenseFields)}


def parser_of(field: str) -> Callable[[object], Any]:
    """Return the parser of this field. Objects and lists are parsed later, as a whole."""
    return PARSERS.get(field, _parse_any)


_ALIVE = {"inactive": "active", "expired": "active"}
_NO_END = {"0": None, "never": None, "lifetime": None}
_NO_LIMIT = {"unlimited": None}

PRESETS = {
    # The attributes of a license in Keygen's API (https://keygen.sh/docs/api/licenses/). Keygen has no export
    # file; tables of its licenses use these names.
    "keygen": Preset(
        columns={
            "key": "key",
            "name": "metadata.name",
            "expiry": "expires_at",
            "status": "status",
            "maxMachines": "times_activated_max",
            "metadata": "metadata",
            "created": "created_at",
            "updated": "updated_at",
        },
        words={"status": _ALIVE | {"expiring": "active", "suspended": "disabled", "banned": "disabled"}},
    ),
    # The license key object of https://docs.lemonsqueezy.com/api/license-keys; the statuses are explained at
    # https://docs.lemonsqueezy.com/help/licensing/license-api.
    "lemonsqueezy": Preset(
        columns={
            "key": "key",
            "status": "status",
            "activation_limit": "times_activated_max",
            "expires_at": "expires_at",
            "product_id": "product_id",
            "order_id": "order_id",
            "customer_id": "customer_id",
            "user_name": "customer_name",
            "user_email": "customer_email",
            "created_at": "created_at",
            "updated_at": "updated_at",
        },
        words={"status": _ALIVE},
    ),
    # Downloads › Tools › Export License Keys of Easy Digital Downloads, Software Licensing 3.6: csv_cols() in
    # includes/admin/classes/class-sl-export-licenses.php. The expiry is in seconds since 1970.
    "edd": Preset(
        columns={
            "License Key": "key",
            "License Status": "status",
            "Customer ID": "customer_id",
            "Customer Name": "customer_name",
            "Customer Email": "customer_email",
            "Product Name": "metadata.product",
            "Purchase Date": "created_at",
            "Expiration Date": "expires_at",
            "Activation Limit": "times_activated_max",
        },
        words={"status": _ALIVE, "expires_at": _NO_END, "times_activated_max": _NO_LIMIT},
    ),
    # Gumroad's CSV of sales: PURCHASE_FIELDS in app/services/exports/purchase_export_service.rb of
    # https://github.com/antiwork/gumroad. Its last line, with the totals, has no license key.
    "gumroad": Preset(
        columns={
            "License Key": "key",
            "License Key Enabled?": "status",
            "Purchase Date": "created_at",
            "Subscription End Date": "expires_at",
            "Order Number": "order_id",
            "Item Name": "metadata.product",
            "Variants": "metadata.variants",
            "Buyer Name": "customer_name",
            "Purchase Email": "customer_email",
        },
        words={"status": {"0": "disabled", "1": "active"}},
    ),
}
