"""*License Manager for WooCommerce*: convert a row of its tables, or an answer of its v2 API, to a license
and notices of problems. Used by the relay, and by the converter of shops.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import msgspec

from keywright.core import parsing
from keywright.core.crypto import mask
from keywright.core.errors import InvalidLicenseKey
from keywright.licensing.licenses.keys import normalize_key
from keywright.licensing.licenses.model import Status
from keywright.provisioning.importers.model import ImportedActivation, ImportedLicense, Notice
from keywright.provisioning.policies.rules import MIN_ENTROPY_BITS, entropy_bits

#: Larger IDs are not kept: programs that parse JSON numbers as JavaScript does confuse them.
MAX_KEPT_ID = 2**53 - 1
_TOKEN = re.compile(r"[0-9a-f]{40}")
_ZERO_DATE = "0000-00-00"
_CLASSES = ((re.compile("[0-9]"), 10), (re.compile("[A-Z]"), 26), (re.compile("[a-z]"), 26))
_MAX_SOURCE = 2**15 - 1

#: The plugin's code for most errors; for a list, it means that the list is empty.
DATA_ERROR = "lmfwc_rest_data_error"
_ACTIVATIONS = "activationData"

#: The values of a row, by column.
Values = dict[str, str | None]
Report = Callable[[Notice], None]

# Many rows have the same times, so they are cached.
_parse_time = lru_cache(maxsize=8192)(parsing.parse_time)


class Spooled(NamedTuple):
    """A row and its line number, 0 if the source has no lines."""

    line: int
    values: Values

    @property
    def place(self) -> str:
        """The beginning of a text about the row's place."""
        return place_of(self.line, "")


def place_of(line: int, what: str) -> str:
    """Return a text that names a row's place; a database has no lines."""
    return f"line {line}, {what}" if line else what


class Fields:
    """The values of a row; an unusable value becomes None and a notice."""

    def __init__(self, values: Values, place: str, report: Report) -> None:
        self._values, self.place, self._report = values, place, report

    def report(self, code: str, what: str = "") -> None:
        """Report a problem."""
        self._report(Notice(code, self.place, what))

    def has(self, name: str) -> bool:
        """Whether the row has this column."""
        return name in self._values

    def text(self, name: str) -> str:
        """Return a text; "" if there is none."""
        return self._values.get(name) or ""

    def cut(self, name: str, most: int) -> str:
        """Return a text, cut to so many characters."""
        text = self.text(name)
        kept = text.replace("\0", "")[:most]
        if kept != text:
            self.report("text_cut", name)
        if "\ufffd" in kept:
            self.report("text_broken", name)
        return kept

    def integer(self, name: str, most: int = parsing.MAX_ID) -> int | None:
        """Return a number from 0 to ``most``, or None."""
        text = self._values.get(name)
        if not text:
            return None
        try:
            return parsing.parse_integer(text, most)
        except ValueError:
            self.report("number_odd", f"{name}: {self.text(name)[:30]}")
            return None

    def moment(self, name: str) -> datetime | None:
        """Return a time, or None."""
        text = self._values.get(name)
        if not text:
            return None
        if text.startswith(_ZERO_DATE):
            self.report("date_zero", name)
            return None
        try:
            return _parse_time(text)
        except ValueError:
            self.report("date_odd", f"{name}: {text[:30]}")
            return None


class Sealing(Protocol):
    """How rows store license keys."""

    def unseal(self, sealed: str) -> str:
        """Return the license key. Raises ``ValueError``."""

    def hash(self, key: str) -> str:
        """Return the hash that a row with this license key has."""


class Plugin:
    """Converts rows to licenses. ``keep_address`` returns the part of an IP address to store, by its time."""

    def __init__(
        self,
        secrets: Sealing,
        report: Report,
        *,
        now: datetime,
        keep_address: Callable[[str, datetime], str] = lambda address, _: address,
    ) -> None:
        self._secrets, self._report, self._now = secrets, report, now
        self._keep_address = keep_address

    def license(
        self, row: Spooled, activations: list[Spooled], meta: Mapping[str, str | None]
    ) -> ImportedLicense | None:
        """Convert a row to a license with its activations; None if its key cannot be used."""
        fields = Fields(row.values, f"{row.place}license {row.values.get('id')}", self._report)
        key = self._key(fields)
        if key is None:
            return None
        taken = self._activations(activations)
        self._compare_counter(fields, taken)
        expires_at = fields.moment("expires_at")
        created_at, updated_at = fields.moment("created_at"), fields.moment("updated_at")
        created_at = created_at or updated_at or self._now
        number, product_id, customer_id = map(fields.integer, ("id", "product_id", "user_id"))
        return ImportedLicense(
            key=key,
            status=self._status(fields),
            created_at=created_at,
            updated_at=updated_at or created_at,
            id=number if number and number <= MAX_KEPT_ID else None,
            order_id=fields.integer("order_id") or None,
            product_id=product_id or None,
            customer_id=customer_id or None,
            expires_at=expires_at,
            valid_for_days=fields.integer("valid_for", parsing.MAX_COUNT) or None,
            source=fields.integer("source", _MAX_SOURCE) or 0,
            times_activated_max=fields.integer("times_activated_max", parsing.MAX_COUNT) or None,
            created_by=fields.integer("created_by"),
            updated_by=fields.integer("updated_by"),
            metadata=self._metadata(fields, meta),
            activations=tuple(taken),
            place=row.place.removesuffix(", "),
        )

    def _key(self, fields: Fields) -> str | None:
        try:
            plain = self._secrets.unseal(fields.text("license_key"))
            key = normalize_key(plain)
        except ValueError:
            fields.report("key_unreadable")
            return None
        except InvalidLicenseKey:
            fields.report("key_unusable")
            return None
        fields.place += f" ({mask(key)})"
        if self._secrets.hash(plain) != fields.text("hash").lower():
            fields.report("hash_wrong")
        if key != plain:
            fields.report("key_trimmed")
        if _key_bits(key) < MIN_ENTROPY_BITS:
            fields.report("key_weak", f"{len(key)} characters")
        return key

    def _status(self, fields: Fields) -> int:
        status = fields.integer("status") or 0
        if status in {*Status}:
            return status
        fields.report("status_unknown", fields.text("status")[:30])
        return Status.INACTIVE

    def _compare_counter(self, fields: Fields, taken: list[ImportedActivation]) -> None:
        if not fields.has("times_activated"):
            return
        counted = fields.integer("times_activated") or 0
        active = sum(one.deactivated_at is None for one in taken)
        if counted != active:
            fields.report("counter_wrong", f"{counted} there, {active} active records")

    def _metadata(self, fields: Fields, meta: Mapping[str, str | None]) -> str | None:
        try:
            return parsing.parse_metadata(dict(meta))
        except ValueError as problem:
            fields.report("metadata_unusable", str(problem))
            return None

    def _activations(self, rows: list[Spooled]) -> list[ImportedActivation]:
        """Convert the usable activations; of several with the same token, the one that changed last."""
        found: dict[str, ImportedActivation] = {}
        for row in rows:
            fields = Fields(row.values, f"{row.place}activation {row.values.get('id')}", self._report)
            token = fields.text("token").strip()
            if not _TOKEN.fullmatch(token):
                fields.report("token_unusable")
                continue
            one = self._activation(fields, token)
            other = found.get(token)
            if other is not None:
                fields.report("token_twice")
            if other is None or _changed_at(one) > _changed_at(other):
                found[token] = one
        return list(found.values())

    def _activation(self, fields: Fields, token: str) -> ImportedActivation:
        created_at, updated_at = fields.moment("created_at"), fields.moment("updated_at")
        deactivated_at = fields.moment("deactivated_at")
        created_at = created_at or updated_at or deactivated_at or self._now
        number = fields.integer("id")
        return ImportedActivation(
            token=token,
            created_at=created_at,
            id=number if number and number <= MAX_KEPT_ID else None,
            label=fields.cut("label", parsing.MAX_LABEL_LENGTH) or None,
            source=fields.integer("source", _MAX_SOURCE) or 0,
            ip_address=self._keep_address(fields.cut("ip_address", 45), created_at),
            user_agent=fields.cut("user_agent", parsing.MAX_USER_AGENT_LENGTH),
            meta_data=_meta_data(fields),
            updated_at=updated_at,
            deactivated_at=deactivated_at,
        )


def _meta_data(fields: Fields) -> Mapping[str, str] | None:
    """Return the metadata of an activation: an object of texts, as programs send it."""
    text = fields.text("meta_data")
    if text in ("", "[]", "{}", "null"):
        return None
    try:
        return parsing.parse_meta(text)
    except ValueError:
        fields.report("metadata_unusable", "meta_data")
        return None


def _changed_at(one: ImportedActivation) -> datetime:
    return max(at for at in (one.created_at, one.updated_at, one.deactivated_at) if at is not None)


def _key_bits(key: str) -> float:
    """Return the maximum entropy of a key with these characters, in bits."""
    alphabet = sum(size for pattern, size in _CLASSES if pattern.search(key))
    drawn = sum(one.isalnum() for one in key)
    return entropy_bits("".join(map(chr, range(alphabet))), drawn, 1) if alphabet else 4.0 * len(key)


class PlainKeys:
    """License keys as the API returns them: in plain text, without hashes."""

    def unseal(self, sealed: str) -> str:
        """Return the license key."""
        return sealed

    def hash(self, _key: str) -> str:
        """Return no hash."""
        return ""


def read_license(item: dict[str, Any], plugin: Plugin) -> ImportedLicense | None:
    """Convert the license in an answer, with its activations; None if its key cannot be used."""
    activations = [Spooled(0, one) for one in list_activations(item)]
    return plugin.license(Spooled(0, to_row(item)), activations, {})


def list_activations(item: dict[str, Any]) -> list[Values]:
    """Return the activations of a license, as rows."""
    found = item.get(_ACTIVATIONS)
    return [to_row(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def to_row(item: dict[str, Any]) -> Values:
    """Convert a record to the columns of its table, each value as a text."""
    return {_column(name): _text(value) for name, value in item.items() if name != _ACTIVATIONS}


@lru_cache(maxsize=256)
def _column(name: str) -> str:
    return re.sub("[A-Z]", lambda one: f"_{one[0].lower()}", name)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
