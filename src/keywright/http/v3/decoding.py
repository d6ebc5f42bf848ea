"""Decode bodies, queries and idempotency keys into their types, with all that is wrong in them."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Generic, TypeVar, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from keywright.core.errors import (
    BodyUnreadable,
    FieldError,
    InvalidBody,
    InvalidFields,
    InvalidQuery,
    UnknownParameters,
    ValueRefusal,
)
from keywright.core.fields import Finish, build_finish, is_struct, split_type, strip_annotations
from keywright.http.v3.fields import join_pointer
from keywright.http.v3.wrong_values import MAX_ERRORS, describe_unknown, list_wrong_values

_MAX_LENGTH = 255
_BARE = re.compile(rb"[!#-~][!-~]*")
_QUOTED = re.compile(rb'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_ESCAPED = re.compile(rb'\\(["\\])')


def parse_idempotency_key(header: bytes) -> str:
    """The key; both forms of a text are the same one. Raises ``InvalidQuery``."""
    header = header.strip()
    quoted = _QUOTED.fullmatch(header)
    key = header if quoted is None else _ESCAPED.sub(rb"\1", quoted[1])
    if not 1 <= len(key) <= _MAX_LENGTH or (quoted is None and not _BARE.fullmatch(key)):
        detail = f"must be 1 to {_MAX_LENGTH} visible ASCII characters, bare or in quotation marks"
        raise InvalidQuery([FieldError("Idempotency-Key", "invalid", detail)])
    return key.decode()


AnyStruct = TypeVar("AnyStruct", bound=Struct)

_MAX_PAIRS = 1000
#: What msgspec or ``Parse`` raise for a wrong value.
_REFUSED = (msgspec.ValidationError, ValueError, ValueRefusal)
_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeError)


class StructDecoder(Generic[AnyStruct]):
    """Decodes values of one type. What it needs is made at the first use, and kept."""

    def __init__(self, struct: type[AnyStruct]) -> None:
        self.struct = struct

    def decode_json(self, body: bytes) -> AnyStruct:
        """A body. Raises ``BodyUnreadable``, or ``InvalidBody`` with every error."""
        try:
            value = self._json.decode(body)
        except msgspec.ValidationError:
            raise InvalidBody(self._list_errors(body)) from None
        except _UNREADABLE:
            raise BodyUnreadable from None
        if b"\\u0000" in body and (errors := self._list_errors(body)):
            raise InvalidBody(errors)
        try:
            return value if self._finish is None else self._finish(value)
        except _REFUSED:
            raise InvalidBody(self._list_errors(body)) from None

    def decode_form(self, body: bytes) -> AnyStruct:
        """A form (``application/x-www-form-urlencoded``); lists and objects are in it as JSON.

        Raises ``BodyUnreadable``, or ``InvalidBody`` with every error.
        """
        try:
            pairs = parse_qsl(body.decode(), strict_parsing=True, errors="strict", max_num_fields=_MAX_PAIRS)
            sent = {
                name: msgspec.json.decode(value) if name in self._structured else value
                for name, value in pairs
            }
        except (ValueError, *_UNREADABLE):
            raise BodyUnreadable from None
        return self._convert(sent, InvalidBody, _list_repeated(pairs, InvalidBody))

    def decode_query(self, query: bytes, *, is_closed: bool) -> AnyStruct:
        """Query parameters. Raises ``InvalidQuery`` with every error, and before it, if ``is_closed``,
        ``UnknownParameters``.
        """
        pairs = split_query(query)
        if is_closed:
            require_known(pairs, self._names)
        sent = {name: value for name, value in pairs if name in self._names}
        return self._convert(sent, InvalidQuery, _list_repeated(pairs, InvalidQuery))

    def _convert(
        self, sent: dict[str, Any], error: type[InvalidFields], errors: list[FieldError]
    ) -> AnyStruct:
        is_storable = not any("\0" in one for one in sent.values() if isinstance(one, str))
        try:
            value = msgspec.convert(sent, self.struct, strict=False)
            if is_storable and not errors:
                return value if self._finish is None else self._finish(value)
        except _REFUSED:
            pass
        raise error(errors + _as_places(list_wrong_values(self.struct, sent, is_strict=False), error))

    def _list_errors(self, body: bytes) -> list[FieldError]:
        try:
            sent = msgspec.json.decode(body)
        except _UNREADABLE:
            raise BodyUnreadable from None
        return list_wrong_values(self.struct, sent)

    @cached_property
    def _json(self) -> msgspec.json.Decoder[AnyStruct]:
        return msgspec.json.Decoder(self.struct)

    @cached_property
    def _finish(self) -> Finish | None:
        return build_finish(self.struct)

    @cached_property
    def _names(self) -> list[str]:
        return [one.encode_name for one in fields(self.struct)]

    @cached_property
    def _structured(self) -> frozenset[str]:
        """The members that are lists or objects."""
        kinds = {one.encode_name: strip_annotations(split_type(one.type)[0]) for one in fields(self.struct)}
        return frozenset(
            name for name, kind in kinds.items() if is_struct(kind) or get_origin(kind) in (list, dict)
        )


def split_query(query: bytes) -> list[tuple[str, str]]:
    """The parameters of a query; an empty one counts as not sent. Raises ``InvalidQuery``."""
    if query.count(b"&") >= _MAX_PAIRS:
        detail = f"must have at most {_MAX_PAIRS} parameters"
        raise InvalidQuery([FieldError("", "too_long", detail)])
    try:
        return parse_qsl(query.decode(), errors="strict")
    except ValueError:
        raise InvalidQuery([FieldError("", "invalid", "must be UTF-8")]) from None


def require_known(pairs: Iterable[tuple[str, str]], known: list[str]) -> None:
    """Raise ``UnknownParameters`` for those that are not known."""
    unknown = dict.fromkeys(name for name, _ in pairs if name not in known)
    if unknown:
        raise UnknownParameters(
            [FieldError(one, "unknown", describe_unknown(one, known)) for one in list(unknown)[:MAX_ERRORS]]
        )


def _list_repeated(pairs: list[tuple[str, str]], error: type[InvalidFields]) -> list[FieldError]:
    counts = Counter(name for name, _ in pairs)
    repeated = [name for name, count in counts.items() if count > 1][:MAX_ERRORS]
    return _as_places(
        [FieldError(join_pointer("", name), "invalid", "must be sent once") for name in repeated], error
    )


def _as_places(errors: list[FieldError], error: type[InvalidFields]) -> list[FieldError]:
    """The errors with the names of parameters in place of JSON Pointers, unless they are of a body.

    Null is left out of what they must be: a query has none.
    """
    if error.is_body:
        return errors
    return [
        one._replace(pointer=one.pointer.removeprefix("/"), detail=one.detail.removesuffix(" or null"))
        for one in errors
    ]
