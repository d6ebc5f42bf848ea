"""Convert the rows of a table to licenses, and decide which part of IP addresses to store."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

import msgspec

from keywright.config import Settings
from keywright.core import parsing
from keywright.core.errors import InvalidTerms
from keywright.core.parsing import IpAddresses
from keywright.licensing.activations.model import ActivationSource
from keywright.licensing.licenses.model import Order, Status, order_fields
from keywright.licensing.terms.rules import merge_terms, parse_term_name, parse_terms, to_text, with_new_names
from keywright.provisioning.importers.columns import METADATA, WORDS, Words, field_name, parser_of
from keywright.provisioning.importers.model import ImportedActivation, ImportedLicense


def address_keeper(settings: Settings, now: datetime) -> Callable[[str, datetime], str]:
    """Return the function that keeps the part of an address, used at a moment, that the settings allow."""
    return keeper_of(settings.ip_addresses, settings.keep_addresses_days, now)


def keeper_of(kept: IpAddresses, days: int, now: datetime) -> Callable[[str, datetime], str]:
    """Return the same function for these two settings."""
    oldest = now - timedelta(days=days) if days else None

    def keep(address: str, came_at: datetime) -> str:
        if oldest is not None and came_at < oldest:
            return ""
        return parsing.keep_address(address, kept)

    return keep


#: Returns the part of an address, used at a moment, that may be stored.
KeepAddress = Callable[[str, datetime], str]
_TIMES, _DAY = ("expires_at", "created_at", "updated_at"), re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TOKEN = re.compile(r"[0-9a-f]{40}")
_MAX_ADDRESS_LENGTH = 45
_MAX_FINGERPRINT_LENGTH = 256
_MAX_ORDER_TEXT = 255
_ACTIVATION_TIMES = ("created_at", "updated_at", "deactivated_at")
#: The number of texts of a column whose values are cached: most columns have few.
_MAX_KNOWN = 1_000
_NO_WORDS: Mapping[str, str | None] = {}


class Defaults(NamedTuple):
    """Values that rows lack: the time of creation and of the last change, the function for addresses, which
    IDs activations may keep, the time zone of days without a time, and the IDs of products by their codes and
    names in lower case.
    """

    at: datetime
    keep_address: KeepAddress
    may_keep_id: Callable[[int], bool] = lambda _: False
    zone: tzinfo = UTC
    products: Mapping[str, str] = {}


class _Column(NamedTuple):
    """A column; ``known`` caches the values of its texts."""

    place: int
    field: str
    parse: Callable[[object], Any]
    words: Mapping[str, str | None]
    known: dict[str, Any]


class Rows:
    """Converts each row of a table with these fields to a license; a column with None is not used."""

    def __init__(self, fields: Sequence[str | None], defaults: Defaults, words: Words = WORDS) -> None:
        self._defaults = defaults
        columns = [
            _Column(place, field, _parser_in(defaults.zone, field), words.get(field, _NO_WORDS), {})
            for place, field in enumerate(fields)
            if field is not None
        ]
        self._columns = [one for one in columns if not one.field.startswith(METADATA)]
        self._metadata = [one for one in columns if one.field.startswith(METADATA)]
        self._fields = frozenset(one.field.partition(".")[0] for one in columns)

    def license(self, values: Sequence[Any], place: str) -> ImportedLicense:
        """Convert a row. Raises ``ValueError`` with the problem, without a license key."""
        found: dict[str, Any] = {one.field: _parse(one, values[one.place]) for one in self._columns}
        if "key" not in found:
            raise ValueError("license_key is missing")
        if "metadata" in self._fields:
            found["metadata"] = self._parse_metadata(found.get("metadata"), values)
        found["created_at"] = found.get("created_at") or self._defaults.at
        found["updated_at"] = found.get("updated_at") or self._defaults.at
        found.setdefault("status", Status.ACTIVE.value)
        if "terms" in found:
            found["terms"] = _parse_terms(found)
        if "rule_terms" in found:
            found["rule_terms"] = _parse_rule_terms(found["rule_terms"])
        if found.get("order_details") is not None:
            found |= _parse_order(found["order_details"])
        if "activations" in found:
            found["activations"] = self._parse_activations(found["activations"], found["created_at"])
        return ImportedLicense(**found, place=place, fields=self._fields)

    def _parse_metadata(self, whole: Any, values: Sequence[Any]) -> str | None:
        parts = {one.field.removeprefix(METADATA): _parse(one, values[one.place]) for one in self._metadata}
        try:
            text = parsing.parse_metadata(whole)
            parts = {name: value for name, value in parts.items() if value is not None}
            if not parts:
                return text
            return parsing.parse_metadata((msgspec.json.decode(text) if text else {}) | parts)
        except ValueError as problem:
            raise ValueError(f"metadata {problem}") from None

    def _parse_activations(self, value: Any, created_at: datetime) -> tuple[ImportedActivation, ...]:
        if not isinstance(value, list | None) or not all(isinstance(one, dict) for one in value or ()):
            raise ValueError("activations must be a list of objects")
        try:
            found = tuple(self._parse_activation(one, created_at) for one in value or ())
        except ValueError as problem:
            raise ValueError(f"activations: {problem}") from None
        if len({one.token for one in found}) < len(found):
            raise ValueError("activations: a token appears twice")
        fingerprints = [one.fingerprint for one in found if one.fingerprint is not None]
        if len({*fingerprints}) < len(fingerprints):
            raise ValueError("activations: a fingerprint appears twice")
        return found

    def _parse_activation(self, values: dict[str, Any], created_at: datetime) -> ImportedActivation:
        token = values.get("token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ValueError("token must be 40 lowercase hexadecimal digits")
        times = {name: parsing.parse_time(values.get(name)) for name in _ACTIVATION_TIMES}
        came_at = times["created_at"] or created_at
        address = parsing.parse_text(values.get("ip_address"), _MAX_ADDRESS_LENGTH) or ""
        number = parsing.parse_integer(values.get("id"))
        device = {
            "fingerprint": parsing.parse_text(values.get("fingerprint"), _MAX_FINGERPRINT_LENGTH),
            "platform": parsing.parse_text(values.get("platform"), parsing.MAX_LABEL_LENGTH),
            "app_version": parsing.parse_text(values.get("app_version"), parsing.MAX_LABEL_LENGTH),
        }
        return ImportedActivation(
            token=token,
            created_at=came_at,
            id=number if number and self._defaults.may_keep_id(number) else None,
            label=parsing.parse_text(values.get("label"), parsing.MAX_LABEL_LENGTH),
            source=_parse_activation_source(values.get("source")),
            ip_address=self._defaults.keep_address(address, came_at) if address else "",
            user_agent=parsing.parse_text(values.get("user_agent"), parsing.MAX_USER_AGENT_LENGTH) or "",
            meta_data=_parse_meta(values.get("meta_data"), has_device=any(device.values())),
            updated_at=times["updated_at"],
            deactivated_at=times["deactivated_at"],
            is_counted=str(values.get("is_counted")).lower() not in ("false", "0"),
            **device,
        )


def _parse_meta(value: object, *, has_device: bool) -> Mapping[str, Any] | None:
    """Parse the metadata of an activation: any JSON object if a device is named, else an object of texts."""
    if not has_device:
        return parsing.parse_meta(value)
    text = parsing.parse_metadata(value)
    return None if text is None else msgspec.json.decode(text)


def _parser_in(zone: tzinfo, field: str) -> Callable[[object], Any]:
    """Return the parser of a field. For a day without a time, it returns the end of the day in the zone if
    the field is an expiry, otherwise the beginning.
    """
    parse = parser_of(field)
    if field not in _TIMES:
        return parse

    def parse_time(value: object) -> Any:
        if isinstance(value, str) and _DAY.fullmatch(value):
            of_day = parsing.parse_last_day if field == "expires_at" else parsing.parse_first_moment
            return of_day(value, zone)
        return parse(value)

    return parse_time


def _parse_terms(found: Mapping[str, Any]) -> str | None:
    """Return the text of a license's terms; the limit and the days are from columns of their own."""
    members = with_new_names(_parse_object("terms", found["terms"]))
    columns = (found.get("times_activated_max"), found.get("valid_for_days"))
    try:
        return to_text(merge_terms(parse_terms(None, *columns), members))
    except InvalidTerms as problem:
        raise ValueError("; ".join(f"{one.pointer[1:]} {one.detail}" for one in problem.errors[:3])) from None


def _parse_rule_terms(value: object) -> str | None:
    """Parse the terms that a rule last wrote, before they were set by hand."""
    members = with_new_names(_parse_object("rule_terms", value))
    for name in members:
        parse_term_name(name)
    return msgspec.json.encode(members, order="sorted").decode() if members else None


def _parse_order(value: object) -> dict[str, Any]:
    """Parse the fields of a license that store its order."""
    try:
        order = msgspec.convert(_parse_object("order_details", value), Order)
    except msgspec.ValidationError:
        raise ValueError("order_details must have the members source, id, line (texts) and index") from None
    texts = (order.source, order.id or "", order.line or "")
    if any(len(one) > _MAX_ORDER_TEXT or not parsing.is_storable(one) for one in texts) or order.index < 0:
        raise ValueError(f"order_details has a text over {_MAX_ORDER_TEXT} characters, or an index below 0")
    return order_fields(order)


def _parse_object(name: str, value: object) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.DecodeError, RecursionError):
        found = ()
    if not isinstance(found, dict | None):
        raise ValueError(f"{name} must be a JSON object")
    return found or {}


def _parse_activation_source(value: object) -> int:
    number = parsing.parse_integer(value, max(ActivationSource).value)
    return number or ActivationSource.MIGRATION.value


def _parse(column: _Column, value: Any) -> Any:
    if not isinstance(value, str):
        return _parse_new(column, value)
    if value in column.known:
        return column.known[value]
    parsed = _parse_new(column, column.words.get(value.strip().lower(), value.strip() or None))
    if len(column.known) < _MAX_KNOWN and column.field != "key":
        column.known[value] = parsed
    return parsed


def _parse_new(column: _Column, value: Any) -> Any:
    try:
        return column.parse(value)
    except ValueError as problem:
        raise ValueError(f"{field_name(column.field)} {problem}") from None
