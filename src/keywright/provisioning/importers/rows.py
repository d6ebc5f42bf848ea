"""Licenses out of the rows of a table."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from keywright.core import parsing
from keywright.licensing.activations.model import ActivationSource
from keywright.licensing.licenses.model import Status
from keywright.provisioning.importers.columns import METADATA, WORDS, Words, field_name, parser_of
from keywright.provisioning.importers.model import ImportedActivation, ImportedLicense

#: How much of an address that came at a moment may be kept.
KeepAddress = Callable[[str, datetime], str]
_TOKEN = re.compile(r"[0-9a-f]{40}")
_MAX_ADDRESS_LENGTH = 45
_ACTIVATION_TIMES = ("created_at", "updated_at", "deactivated_at")
#: How many texts of a column are remembered: most have few.
_MAX_KNOWN = 1_000
_NO_WORDS: Mapping[str, str | None] = {}


class Defaults(NamedTuple):
    """Values that rows do not have: the time of making and of the last change, what is kept of addresses, and
    which ids activations may keep.
    """

    at: datetime
    keep_address: KeepAddress
    may_keep_id: Callable[[int], bool] = lambda _: False


class _Column(NamedTuple):
    """A column; ``known`` are the values of texts in it that were met before."""

    place: int
    field: str
    parse: Callable[[object], Any]
    words: Mapping[str, str | None]
    known: dict[str, Any]


class Rows:
    """Makes a license of each row of a table whose columns are these fields; None is not used."""

    def __init__(self, fields: Sequence[str | None], defaults: Defaults, words: Words = WORDS) -> None:
        self._defaults = defaults
        columns = [
            _Column(place, field, parser_of(field), words.get(field, _NO_WORDS), {})
            for place, field in enumerate(fields)
            if field is not None
        ]
        self._columns = [one for one in columns if not one.field.startswith(METADATA)]
        self._metadata = [one for one in columns if one.field.startswith(METADATA)]
        self._fields = frozenset(one.field.partition(".")[0] for one in columns)

    def license(self, values: Sequence[Any], place: str) -> ImportedLicense:
        """The license of a row. Raises ``ValueError`` with what is wrong, and no license key."""
        found: dict[str, Any] = {one.field: _parse(one, values[one.place]) for one in self._columns}
        if "key" not in found:
            raise ValueError("license_key is missing")
        if "metadata" in self._fields:
            found["metadata"] = self._parse_metadata(found.get("metadata"), values)
        found["created_at"] = found.get("created_at") or self._defaults.at
        found["updated_at"] = found.get("updated_at") or self._defaults.at
        found.setdefault("status", Status.ACTIVE.value)
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
            raise ValueError("activations: a token is there twice")
        return found

    def _parse_activation(self, values: dict[str, Any], created_at: datetime) -> ImportedActivation:
        token = values.get("token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ValueError("token must be 40 hexadecimal digits, without capitals")
        times = {name: parsing.parse_time(values.get(name)) for name in _ACTIVATION_TIMES}
        came_at = times["created_at"] or created_at
        address = parsing.parse_text(values.get("ip_address"), _MAX_ADDRESS_LENGTH) or ""
        number = parsing.parse_integer(values.get("id"))
        return ImportedActivation(
            token=token,
            created_at=came_at,
            id=number if number and self._defaults.may_keep_id(number) else None,
            label=parsing.parse_text(values.get("label"), parsing.MAX_LABEL_LENGTH),
            source=_parse_activation_source(values.get("source")),
            ip_address=self._defaults.keep_address(address, came_at) if address else "",
            user_agent=parsing.parse_text(values.get("user_agent"), parsing.MAX_USER_AGENT_LENGTH) or "",
            meta_data=parsing.parse_meta(values.get("meta_data")),
            updated_at=times["updated_at"],
            deactivated_at=times["deactivated_at"],
        )


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
