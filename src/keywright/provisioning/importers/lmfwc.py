"""*License Manager for WooCommerce*: a row of its tables becomes a record, and notices of what is odd."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Protocol

from keywright.core import parsing
from keywright.core.crypto import hash_consumer_secret, mask
from keywright.core.errors import InvalidLicenseKey
from keywright.identity.model import Permissions
from keywright.licensing.licenses.keys import normalize_key
from keywright.licensing.licenses.model import Status
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.importers.defuse import Secrets
from keywright.provisioning.importers.model import (
    ImportedActivation,
    ImportedApiKey,
    ImportedGenerator,
    ImportedLicense,
    Notice,
)
from keywright.provisioning.importers.spool import Spooled, Values
from keywright.provisioning.policies.rules import MIN_ENTROPY_BITS, entropy_bits

#: Ids over this are not kept: programs that read JSON as JavaScript does cannot tell them apart.
MAX_KEPT_ID = 2**53 - 1
_TOKEN = re.compile(r"[0-9a-f]{40}")
_HASH = re.compile(r"[0-9a-f]{64}")
_ZERO_DATE = "0000-00-00"
_CLASSES = ((re.compile("[0-9]"), 10), (re.compile("[A-Z]"), 26), (re.compile("[a-z]"), 26))
_MAX_TEXT, _MAX_SOURCE = 255, 2**15 - 1

Report = Callable[[Notice], None]

# Many rows have the same times.
_parse_time = lru_cache(maxsize=8192)(parsing.parse_time)


class _Fields:
    """The values of a row; what cannot be used becomes None and a notice."""

    def __init__(self, values: Values, place: str, report: Report) -> None:
        self._values, self.place, self._report = values, place, report

    def report(self, code: str, what: str = "") -> None:
        self._report(Notice(code, self.place, what))

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        return self._values.get(name) or ""

    def cut(self, name: str, most: int) -> str:
        """A text of at most so many characters."""
        text = self.text(name)
        kept = text.replace("\0", "")[:most]
        if kept != text:
            self.report("text_cut", name)
        if "\ufffd" in kept:
            self.report("text_broken", name)
        return kept

    def integer(self, name: str, most: int = parsing.MAX_ID) -> int | None:
        text = self._values.get(name)
        if not text:
            return None
        try:
            return parsing.parse_integer(text, most)
        except ValueError:
            self.report("number_odd", f"{name}: {self.text(name)[:30]}")
            return None

    def moment(self, name: str) -> datetime | None:
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
    """The way in which rows hold license keys."""

    def unseal(self, sealed: str) -> str:
        """The license key; raises ``ValueError``."""

    def hash(self, key: str) -> str:
        """The hash that a row with this license key has."""


class Plugin:
    """Makes records of rows. ``keep_address`` says how much of an address that came at a moment is stored."""

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
        #: How often each time of day is the end of a license.
        self.ends: Counter[str] = Counter()
        #: The products and customers that licenses name.
        self.named: dict[NameKind, set[int]] = {kind: set() for kind in NameKind}
        #: The ids that activations may keep.
        self.kept_ids = range(1, MAX_KEPT_ID + 1)

    def license(
        self, row: Spooled, activations: list[Spooled], meta: Mapping[str, str | None]
    ) -> ImportedLicense | None:
        """The license of a row, with its activations; None where its key cannot be used."""
        fields = _Fields(row.values, f"{row.place}license {row.values.get('id')}", self._report)
        key = self._key(fields)
        if key is None:
            return None
        taken = self._activations(activations)
        self._compare_counter(fields, taken)
        expires_at = fields.moment("expires_at")
        if expires_at is not None:
            self.ends[f"{expires_at:%H:%M:%S}"] += 1
        created_at, updated_at = fields.moment("created_at"), fields.moment("updated_at")
        created_at = created_at or updated_at or self._now
        number, product_id, customer_id = map(fields.integer, ("id", "product_id", "user_id"))
        self.named[NameKind.PRODUCT].add(product_id or 0)
        self.named[NameKind.CUSTOMER].add(customer_id or 0)
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

    def _key(self, fields: _Fields) -> str | None:
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

    def _status(self, fields: _Fields) -> int:
        status = fields.integer("status") or 0
        if status in {*Status}:
            return status
        fields.report("status_unknown", fields.text("status")[:30])
        return Status.INACTIVE

    def _compare_counter(self, fields: _Fields, taken: list[ImportedActivation]) -> None:
        if not fields.has("times_activated"):
            return
        counted = fields.integer("times_activated") or 0
        active = sum(one.deactivated_at is None for one in taken)
        if counted != active:
            fields.report("counter_wrong", f"{counted} there, {active} active records")

    def _metadata(self, fields: _Fields, meta: Mapping[str, str | None]) -> str | None:
        try:
            return parsing.parse_metadata(dict(meta))
        except ValueError as problem:
            fields.report("metadata_unusable", str(problem))
            return None

    def _activations(self, rows: list[Spooled]) -> list[ImportedActivation]:
        """The activations that can be used; of several with one token, the one that changed last."""
        found: dict[str, ImportedActivation] = {}
        for row in rows:
            fields = _Fields(row.values, f"{row.place}activation {row.values.get('id')}", self._report)
            token = fields.text("token").strip()
            if not _TOKEN.fullmatch(token):
                fields.report("token_unusable")
                continue
            one = self._activation(fields, token, is_id_taken=row.is_id_taken)
            other = found.get(token)
            if other is not None:
                fields.report("token_twice")
            if other is None or _changed_at(one) > _changed_at(other):
                found[token] = one
        return list(found.values())

    def _activation(self, fields: _Fields, token: str, *, is_id_taken: bool) -> ImportedActivation:
        created_at, updated_at = fields.moment("created_at"), fields.moment("updated_at")
        deactivated_at = fields.moment("deactivated_at")
        created_at = created_at or updated_at or deactivated_at or self._now
        number = fields.integer("id")
        is_kept = number in self.kept_ids and not is_id_taken
        return ImportedActivation(
            token=token,
            created_at=created_at,
            id=number if is_kept else None,
            label=fields.cut("label", parsing.MAX_LABEL_LENGTH) or None,
            source=fields.integer("source", _MAX_SOURCE) or 0,
            ip_address=self._keep_address(fields.cut("ip_address", 45), created_at),
            user_agent=fields.cut("user_agent", parsing.MAX_USER_AGENT_LENGTH),
            meta_data=_meta_data(fields),
            updated_at=updated_at,
            deactivated_at=deactivated_at,
        )

    def generator(self, row: Spooled) -> ImportedGenerator | None:
        """The generator of a row; None where it makes no keys."""
        fields = _Fields(row.values, f"{row.place}generator {row.values.get('id')}", self._report)
        created_at, updated_at = fields.moment("created_at"), fields.moment("updated_at")
        created_at = created_at or updated_at or self._now
        chunks, length = (fields.integer(name, _MAX_TEXT) for name in ("chunks", "chunk_length"))
        if not chunks or not length or not fields.text("charset"):
            fields.report("generator_unusable")
            return None
        return ImportedGenerator(
            id=fields.integer("id", MAX_KEPT_ID),
            name=fields.cut("name", _MAX_TEXT) or "imported",
            charset=fields.cut("charset", _MAX_TEXT),
            chunks=chunks,
            chunk_length=length,
            times_activated_max=fields.integer("times_activated_max", parsing.MAX_COUNT) or None,
            separator=fields.cut("separator", _MAX_TEXT) or None,
            prefix=fields.cut("prefix", _MAX_TEXT) or None,
            suffix=fields.cut("suffix", _MAX_TEXT) or None,
            expires_in_days=fields.integer("expires_in", parsing.MAX_COUNT) or None,
            created_at=created_at,
            created_by=fields.integer("created_by"),
            updated_at=updated_at or created_at,
            updated_by=fields.integer("updated_by"),
            place=fields.place,
        )

    def api_key(self, row: Spooled) -> ImportedApiKey | None:
        """The API key of a row; None where no program can have used it. The plugin keeps consumer keys as
        Keywright does (see ``crypto.hash_consumer_key``), and consumer secrets as they are.
        """
        fields = _Fields(row.values, f"{row.place}API key {row.values.get('id')}", self._report)
        hashed, secret = fields.text("consumer_key"), fields.text("consumer_secret")
        permissions = fields.text("permissions")
        is_known = permissions in ("read", "write", "read_write")
        if not _HASH.fullmatch(hashed) or not secret or not is_known:
            fields.report("api_key_unusable")
            return None
        name = "".join(filter(str.isprintable, fields.text("description"))).strip()
        return ImportedApiKey(
            name=name[: parsing.MAX_NAME_LENGTH] or f"imported {fields.text('id')}",
            permissions=Permissions(permissions),
            consumer_key_hash=hashed,
            secret_hash=hash_consumer_secret(secret),
            key_suffix=fields.text("truncated_key")[-7:],
            place=fields.place,
        )


def _meta_data(fields: _Fields) -> Mapping[str, str] | None:
    """The meta data of an activation: an object of texts, as programs send it."""
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
    """The most random bits that a key of these characters can have."""
    alphabet = sum(size for pattern, size in _CLASSES if pattern.search(key))
    drawn = sum(one.isalnum() for one in key)
    return entropy_bits("".join(map(chr, range(alphabet))), drawn, 1) if alphabet else 4.0 * len(key)


def find_local_midnight(ends: Mapping[str, int]) -> tuple[str, int] | None:
    """The time of day at which most licenses end, and how many, where it looks like a midnight of another
    time zone: more than half of at least ten end then.
    """
    if not ends:
        return None
    time, amount = max(ends.items(), key=lambda item: item[1])
    is_midnight = time in ("00:00:00", "23:59:59", "12:00:00")
    is_odd = not is_midnight and time[3:] in ("00:00", "59:59", "30:00", "29:59", "45:00")
    return (time, amount) if is_odd and amount >= 10 and 2 * amount > sum(ends.values()) else None


def try_secrets(secrets: Secrets, values: Values) -> tuple[bool, bool]:
    """Whether the license key of a row can be unsealed, and whether its hash is right."""
    try:
        plain = secrets.unseal(values.get("license_key") or "")
    except ValueError:
        return False, False
    return True, secrets.hash(plain) == (values.get("hash") or "").lower()
