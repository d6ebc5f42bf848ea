"""Decode bodies, queries and idempotency keys, and report everything that is wrong with them.

msgspec is fast but stops at the first error: the search for the others runs only after msgspec has refused a
value.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from functools import cache, cached_property
from typing import Any, Generic, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct, inspect
from msgspec.structs import FieldInfo, fields

from keywright.core import errors as e
from keywright.core.fields import Finish, build_finish, is_struct, split_type, strip_annotations
from keywright.http.v3.fields import join_pointer
from keywright.licensing.terms.model import Terms

_MAX_LENGTH = 255
_BARE = re.compile(rb"[!#-~][!-~]*")
_QUOTED = re.compile(rb'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_ESCAPED = re.compile(rb'\\(["\\])')


def parse_idempotency_key(header: bytes) -> str:
    """The idempotency key; its bare and quoted forms are equivalent. Raises ``InvalidQuery``."""
    header = header.strip()
    quoted = _QUOTED.fullmatch(header)
    key = header if quoted is None else _ESCAPED.sub(rb"\1", quoted[1])
    if not 1 <= len(key) <= _MAX_LENGTH or (quoted is None and not _BARE.fullmatch(key)):
        detail = f"must be 1 to {_MAX_LENGTH} visible ASCII characters, bare or in quotation marks"
        raise e.InvalidQuery([e.FieldError("Idempotency-Key", "invalid", detail)])
    return key.decode()


AnyStruct = TypeVar("AnyStruct", bound=Struct)

_MAX_PAIRS = 1000
#: What msgspec and ``Parse`` raise for an invalid value.
_REFUSED = (msgspec.ValidationError, ValueError, e.ValueRefusal)
_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeError)


class StructDecoder(Generic[AnyStruct]):
    """Decodes values of one type. What it needs is built at the first use, and cached."""

    def __init__(self, struct: type[AnyStruct]) -> None:
        self.struct = struct

    def decode_json(self, body: bytes) -> AnyStruct:
        """Decode a JSON body. Raises ``BodyUnreadable``, or ``InvalidBody`` with all errors."""
        try:
            value = self._json.decode(body)
        except msgspec.ValidationError:
            raise e.InvalidBody(self._list_errors(body)) from None
        except _UNREADABLE:
            raise e.BodyUnreadable from None
        if b"\\u0000" in body and (errors := self._list_errors(body)):
            raise e.InvalidBody(errors)
        try:
            return value if self._finish is None else self._finish(value)
        except _REFUSED:
            raise e.InvalidBody(self._list_errors(body)) from None

    def decode_form(self, body: bytes) -> AnyStruct:
        """Decode a form (``application/x-www-form-urlencoded``), whose lists and objects are JSON.

        Raises ``BodyUnreadable``, or ``InvalidBody`` with all errors.
        """
        try:
            pairs = parse_qsl(body.decode(), strict_parsing=True, errors="strict", max_num_fields=_MAX_PAIRS)
            sent = {
                name: msgspec.json.decode(value) if name in self._structured else value
                for name, value in pairs
            }
        except (ValueError, *_UNREADABLE):
            raise e.BodyUnreadable from None
        return self._convert(sent, e.InvalidBody, _list_repeated(pairs, e.InvalidBody))

    def decode_query(self, query: bytes, *, is_closed: bool) -> AnyStruct:
        """Decode query parameters. Raises ``InvalidQuery`` with all errors; with ``is_closed``,
        ``UnknownParameters`` first.
        """
        pairs = split_query(query)
        if is_closed:
            require_known(pairs, self._names)
        sent = {name: value for name, value in pairs if name in self._names}
        return self._convert(sent, e.InvalidQuery, _list_repeated(pairs, e.InvalidQuery))

    def _convert(
        self, sent: dict[str, Any], error: type[e.InvalidFields], errors: list[e.FieldError]
    ) -> AnyStruct:
        is_storable = not any("\0" in one for one in sent.values() if isinstance(one, str))
        try:
            value = msgspec.convert(sent, self.struct, strict=False)
            if is_storable and not errors:
                return value if self._finish is None else self._finish(value)
        except _REFUSED:
            pass
        raise error(errors + _as_places(list_wrong_values(self.struct, sent, is_strict=False), error))

    def _list_errors(self, body: bytes) -> list[e.FieldError]:
        try:
            sent = msgspec.json.decode(body)
        except _UNREADABLE:
            raise e.BodyUnreadable from None
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
        """The names of the members that are lists or objects."""
        kinds = {one.encode_name: strip_annotations(split_type(one.type)[0]) for one in fields(self.struct)}
        return frozenset(
            name for name, kind in kinds.items() if is_struct(kind) or get_origin(kind) in (list, dict)
        )


def split_query(query: bytes) -> list[tuple[str, str]]:
    """The parameters of a query string; those with an empty value are dropped. Raises ``InvalidQuery``."""
    if query.count(b"&") >= _MAX_PAIRS:
        detail = f"must have at most {_MAX_PAIRS} parameters"
        raise e.InvalidQuery([e.FieldError("", "too_long", detail)])
    try:
        return parse_qsl(query.decode(), errors="strict")
    except ValueError:
        raise e.InvalidQuery([e.FieldError("", "invalid", "must be UTF-8")]) from None


def require_known(pairs: Iterable[tuple[str, str]], known: list[str]) -> None:
    """Raise ``UnknownParameters`` for parameters that are not in ``known``."""
    unknown = dict.fromkeys(name for name, _ in pairs if name not in known)
    if unknown:
        raise e.UnknownParameters(
            [e.FieldError(one, "unknown", describe_unknown(one, known)) for one in list(unknown)[:MAX_ERRORS]]
        )


def _list_repeated(pairs: list[tuple[str, str]], error: type[e.InvalidFields]) -> list[e.FieldError]:
    counts = Counter(name for name, _ in pairs)
    repeated = [name for name, count in counts.items() if count > 1][:MAX_ERRORS]
    return _as_places(
        [e.FieldError(join_pointer("", name), "invalid", "must be sent once") for name in repeated], error
    )


def _as_places(errors: list[e.FieldError], error: type[e.InvalidFields]) -> list[e.FieldError]:
    """The errors, with parameter names in place of JSON Pointers unless they are about a body.

    "or null" is removed from the details: a query has no null.
    """
    if error.is_body:
        return errors
    return [
        one._replace(pointer=one.pointer.removeprefix("/"), detail=one.detail.removesuffix(" or null"))
        for one in errors
    ]


_SEARCH = '; license keys are never in a URL: POST …/licenses/search {"key": "…"}'
_SEARCH_EMAIL = (
    '; e-mail addresses are never in a URL: POST …/licenses/search or …/customers/search {"email": "…"}'
)
#: By the noun in a path that is followed by something other than an ID.
_OF_PATHS = {
    "licenses": f"A license is addressed by its ID{_SEARCH}.",
    "customers": f"A customer is addressed by its ID{_SEARCH_EMAIL}.",
}
_CLIENT_CALLS = frozenset({"validate", "activate", "deactivate"})
#: By the name of an unknown member or parameter.
_OF_NAMES = {
    "key": _SEARCH,
    "license_key": _SEARCH,
    "email": _SEARCH_EMAIL,
    "state": "; it depends on the time: use status, expires_before and expires_after",
    "months": "; send days, or until",
    "years": "; send days, or until",
}


def of_path(words: Sequence[str]) -> str:
    """A hint about a path at which nothing exists; empty if there is none."""
    if words and words[-1] in _CLIENT_CALLS:
        return f" Programs send POST …/{words[-1]}, with the license key in the body."
    is_guessed = len(words) > 1 and not words[1].isdigit()
    return f" {_OF_PATHS[words[0]]}" if is_guessed and words[0] in _OF_PATHS else ""


def of_name(name: str, known: Collection[str]) -> str:
    """A hint, to follow "is unknown", about a name next to these known ones; empty if there is none."""
    if "terms" in known and name in Terms.__struct_fields__:
        return f'; it is a member of terms: {{"terms": {{"{name}": …}}}}'
    return _OF_NAMES.get(name, "")


#: The most errors that are reported, and the longest name for which similar known names are searched.
MAX_ERRORS, _MAX_COMPARED = 100, 64
_encode = msgspec.json.Encoder().encode


def list_wrong_values(
    kind: Any, value: Any, pointer: str = "", *, is_strict: bool = True
) -> list[e.FieldError]:
    """Every error in a value of this type, at most ``MAX_ERRORS``. Without ``is_strict``, strings are
    accepted for numbers and the like, as in a form.
    """
    errors: list[e.FieldError] = []
    _Search(errors, is_strict=is_strict).search(kind, value, pointer)
    return errors


def describe_unknown(name: str, known: list[str]) -> str:
    """The message about an unknown name, with a hint or the most similar known name."""
    if hint := of_name(name, known):
        return f"is unknown{hint}"
    nearest = get_close_matches(name[:_MAX_COMPARED], known, n=1)
    return f"is unknown; the nearest known name is {nearest[0]}" if nearest else "is unknown"


class _Search:
    def __init__(self, errors: list[e.FieldError], *, is_strict: bool) -> None:
        self._errors = errors
        self._is_strict = is_strict

    def search(self, kind: Any, value: Any, pointer: str) -> None:
        """Collect the errors of a value."""
        if len(self._errors) >= MAX_ERRORS:
            return
        single, is_nullable = split_type(kind)
        if value is None and is_nullable:
            return
        bare = strip_annotations(single)
        before = len(self._errors)
        if is_struct(bare) and isinstance(value, dict):
            self._search_members(bare, value, pointer)
            self._check_whole(single, value, pointer, before)
        elif _is_too_long(single, value):
            # The whole value is refused; checking every item would cost more than the call is worth.
            self._errors.append(e.FieldError(pointer, "too_long", f"must be {describe(kind)}"))
        elif get_origin(bare) is list and isinstance(value, list):
            self._search_items(bare, dict(enumerate(value)), pointer)
            self._check_whole(single, value, pointer, before)
        elif get_origin(bare) is dict and isinstance(value, dict) and get_args(bare)[1] is not Any:
            self._search_items(bare, value, pointer)
            self._check_whole(single, value, pointer, before)
        else:
            self._check(kind, value, pointer)

    def _search_members(self, struct: type[msgspec.Struct], value: dict[str, Any], pointer: str) -> None:
        known = _fields_of(struct)
        is_closed = struct.__struct_config__.forbid_unknown_fields
        for name, one in value.items():
            if name in known:
                self.search(known[name].type, one, join_pointer(pointer, name))
            elif is_closed and len(self._errors) < MAX_ERRORS:
                detail = describe_unknown(name, list(known))
                self._errors.append(e.FieldError(join_pointer(pointer, name[:200]), "unknown", detail))
        for name, field in known.items():
            if field.required and name not in value:
                self._errors.append(e.FieldError(join_pointer(pointer, name), "missing", "is missing"))

    def _search_items(self, kind: Any, items: dict[Any, Any], pointer: str) -> None:
        for place, one in items.items():
            self.search(get_args(kind)[-1], one, join_pointer(pointer, place))

    def _check_whole(self, kind: Any, value: Any, pointer: str, before: int) -> None:
        """Check a whole value if its parts added no errors: ``before`` is the error count before them."""
        if len(self._errors) == before:
            self._check(kind, value, pointer)

    def _check(self, kind: Any, value: Any, pointer: str) -> None:
        try:
            converted = msgspec.convert(value, kind, strict=self._is_strict)
        except msgspec.ValidationError as problem:
            self._errors.append(e.FieldError(pointer, _code_of(str(problem)), f"must be {describe(kind)}"))
            return
        if b"\\u0000" in _encode(value):
            self._errors.append(e.FieldError(pointer, "invalid", "must have no null characters"))
        # In a form, the text "null" is None.
        elif converted is not None and (finish := build_finish(kind)) is not None:
            try:
                finish(converted)
            except ValueError as reason:
                self._errors.append(e.FieldError(pointer, "invalid", str(reason)))
            except e.ValueRefusal as refusal:
                detail = f"is refused: {refusal.fill(refusal.sentence)}"
                self._errors.append(e.FieldError(pointer, "invalid", detail))


def _is_too_long(kind: Any, value: Any) -> bool:
    """Whether a list or an object has more items than the type allows."""
    limits = [one.max_length for one in getattr(kind, "__metadata__", ()) if isinstance(one, msgspec.Meta)]
    return isinstance(value, list | dict) and any(one is not None and len(value) > one for one in limits)


@cache
def _fields_of(struct: type[msgspec.Struct]) -> dict[str, FieldInfo]:
    return {one.encode_name: one for one in fields(struct)}


def _code_of(message: str) -> e.ValueCode:
    """The code of an error, from msgspec's message."""
    if ", got `" in message:
        return "wrong_type"
    if "of length" in message:
        return "too_short" if ">" in message else "too_long"
    if "` >" in message:
        return "too_small"
    return "too_large" if "` <" in message or "out of range" in message else "invalid"


def describe(kind: Any) -> str:
    """What values of a type may be, in words: ``an integer from 1 to 200``."""
    return _describe(inspect.type_info(kind))


def _describe(node: inspect.Type) -> str:
    in_words = _IN_WORDS.get(type(node))
    return "something else" if in_words is None else in_words(node)


_IN_WORDS: dict[type[inspect.Type], Callable[[Any], str]] = {
    inspect.BoolType: lambda _: "true or false",
    inspect.DateTimeType: lambda _: "a time such as 2026-11-22T08:54:00Z",
    inspect.DictType: lambda node: "an object" + _describe_length(node, "members"),
    inspect.EnumType: lambda node: "one of " + ", ".join(str(one.value) for one in node.cls),
    inspect.FloatType: lambda _: "a number",
    inspect.IntType: lambda node: "an integer" + _describe_range(node.ge, node.le),
    inspect.ListType: lambda node: "a list" + _describe_length(node, "items"),
    inspect.LiteralType: lambda node: "one of " + ", ".join(map(str, node.values)),
    inspect.Metadata: lambda node: _describe(node.type),
    inspect.NoneType: lambda _: "null",
    inspect.StrType: lambda node: "a text" + _describe_length(node, "characters"),
    inspect.StructType: lambda _: "an object",
    inspect.UnionType: lambda node: " or ".join(map(_describe, node.types)),
}


def _describe_range(least: int | None, most: int | None) -> str:
    if least is None and most is None:
        return ""
    if most is None:
        return f" of at least {least}"
    return f" of at most {most}" if least is None else f" from {least} to {most}"


def _describe_length(node: inspect.StrType | inspect.ListType | inspect.DictType, unit: str) -> str:
    pattern = getattr(node, "pattern", None)
    matching = f" that matches {pattern}" if pattern else ""
    if node.min_length is None and node.max_length is None:
        return matching
    if node.max_length is None:
        return f" of at least {node.min_length} {unit}{matching}"
    least = f"{node.min_length} to " if node.min_length else "at most "
    return f" of {least}{node.max_length} {unit}{matching}"
