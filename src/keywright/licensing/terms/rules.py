"""Convert terms to and from the text in the database, and change them. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from keywright.core.errors import FieldError, InvalidTerms, ValueCode
from keywright.core.nouns import Member, list_members
from keywright.licensing.terms import model

MAX_ENTITLEMENTS, MAX_METERS = 100, 20
#: The largest limit of a meter: an integer that every JSON parser reads exactly.
MAX_METER_LIMIT = 2**53 - 1

#: The terms that a quantity multiplies.
LIMITS = ("max_activations", "max_leases")

_CODE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_CODE_IN_WORDS = "must have 1 to 64 of a-z, 0-9, '_', '.', '-', and begin with a letter or a digit"

MAX_HOSTS, MAX_STARS = 50, 3
_HOST = re.compile(r"(?=[^a-z0-9]{0,9}[a-z0-9])[a-z0-9.*:_\[\]-]{1,253}")
_HOST_IN_WORDS = (
    "must be a host such as staging.example.com, localhost or *.test: letters, digits, '-', '.', and at most "
    "three '*'; other letters as punycode"
)

#: The most errors reported, and the most characters shown of an unknown name.
MAX_ERRORS, MAX_NAME = 100, 200

#: The current names of renamed members, by their former names.
_NEW_NAMES = {"portal_releases": "portal_removals"}
#: Parses a value: takes it, its JSON Pointer and the list to append errors to; returns the parsed value.
_Reader = Callable[[Any, str, list[FieldError]], Any]


@lru_cache(maxsize=4096)
def parse_terms(text: str | None, max_activations: int | None, valid_for_days: int | None) -> model.Terms:
    """Parse the columns with a license's terms; cached, as licenses of one policy have the same."""
    stored = {} if text is None else with_new_names(msgspec.json.decode(text))
    columns = {"max_activations": max_activations, "valid_for_days": valid_for_days}
    return msgspec.convert({"starts": _usual_start(valid_for_days).value} | stored | columns, model.Terms)


def to_text(terms: model.Terms) -> str | None:
    """Serialize terms for a license's column: those that differ from the defaults, as JSON; None if none
    does.

    ``max_activations`` and ``valid_for_days`` have columns of their own.
    """
    columns = {"max_activations": None, "valid_for_days": None}
    usual = model.Terms(starts=_usual_start(terms.valid_for_days))
    return _write(replace(terms, **columns), usual)


def parse_policy_terms(text: str) -> model.Terms:
    """Parse a policy's column of terms."""
    return msgspec.convert(with_new_names(msgspec.json.decode(text)), model.Terms)


def policy_to_text(terms: model.Terms) -> str:
    """Serialize terms for a policy's column: those that differ from the defaults, as JSON."""
    return _write(terms, model.Terms()) or "{}"


def merge_terms(terms: model.Terms, patch: Mapping[str, Any]) -> model.Terms:
    """Apply a decoded JSON merge patch to these terms: null restores the default, and removes a meter. Raises
    ``InvalidTerms`` with up to 100 errors; their pointers begin with ``/terms``.
    """
    errors: list[FieldError] = []
    merged = _merge(msgspec.to_builtins(terms), patch, _DEPTH)
    members = {name: merged.get(name) for name in patch}
    changes = _read_members(members, _TERMS, "/terms", errors)
    if errors:
        raise InvalidTerms(tuple(errors[:MAX_ERRORS]))
    defaults = model.Terms()
    changed = replace(
        terms,
        **{name: getattr(defaults, name) if value is None else value for name, value in changes.items()},
    )
    if _settle(changed) != changed:
        raise InvalidTerms(tuple(_find_lonely(changed)))
    return changed


def copy_terms(terms: model.Terms, members: Mapping[str, Any]) -> model.Terms:
    """Replace some members of these terms by ``members``, which is JSON as ``select_terms`` returns it. A
    member that needs another one is turned off if that is not set.
    """
    return _settle(msgspec.convert(msgspec.to_builtins(terms) | with_new_names(members), model.Terms))


def with_new_names(members: Mapping[str, Any]) -> dict[str, Any]:
    """Rename members of terms that an older version may have written to their current names."""
    return {_NEW_NAMES.get(name, name): value for name, value in members.items()}


def select_terms(terms: model.Terms, names: Iterable[str]) -> dict[str, Any]:
    """Return the members with these names, as JSON; ``when_full`` includes ``unseen_days``."""
    members, wanted = msgspec.to_builtins(terms), dict.fromkeys(names)
    if "when_full" in wanted:
        wanted["unseen_days"] = None
    return {name: members[name] for name in wanted}


def multiply_terms(terms: model.Terms, quantity: int) -> model.Terms:
    """Multiply the limits of devices and leases, where there are any, for a license of this quantity. Raises
    ``InvalidTerms`` beyond the highest limits.
    """
    limits = {name: getattr(terms, name) for name in LIMITS}
    return merge_terms(terms, {name: one * quantity for name, one in limits.items() if one is not None})


class Written(NamedTuple):
    """Terms that a rule has written: ``kept`` are the names it left alone because they are set by hand, and
    ``rule_terms`` is the new record of those (see ``License.rule_terms``).
    """

    terms: model.Terms
    kept: tuple[str, ...]
    rule_terms: str | None


def write_by_rule(
    terms: model.Terms, rule_terms: str | None, members: Mapping[str, Any], *, is_forced: bool = False
) -> Written:
    """Let a rule set these members, which are JSON as ``select_terms`` returns it. Without ``is_forced``,
    members set by hand to another value are kept.
    """
    record, now = set_by_hand(rule_terms), msgspec.to_builtins(terms)
    kept = () if is_forced else tuple(one for one in members if one in record and now[one] != members[one])
    written = {name: value for name, value in members.items() if name not in kept}
    left = {name: value for name, value in record.items() if name not in written}
    return Written(copy_terms(terms, written), kept, _write_record(left))


def write_by_hand(before: model.Terms, after: model.Terms, rule_terms: str | None) -> str | None:
    """Return the record of the values that a rule last wrote to terms now set by hand to other values."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    record = {name: old[name] for name in new if new[name] != old[name]} | set_by_hand(rule_terms)
    return _write_record({name: value for name, value in record.items() if new[name] != value})


def set_by_hand(rule_terms: str | None) -> dict[str, Any]:
    """Return the terms that are set by hand, each with the value that a rule last wrote."""
    return {} if rule_terms is None else with_new_names(msgspec.json.decode(rule_terms))


def _settle(terms: model.Terms) -> model.Terms:
    """Turn off the members that need another one which is not set."""
    if terms.when_full is model.WhenFull.REPLACE_UNSEEN and terms.unseen_days is None:
        terms = replace(terms, when_full=model.WhenFull.REFUSE)
    if terms.devices_visible and terms.portal_removals is terms.new_devices is None:
        terms = replace(terms, devices_visible=False)
    return terms


def _find_lonely(terms: model.Terms) -> Iterable[FieldError]:
    """Yield an error for each member that needs another one which is not set."""
    settled = _settle(terms)
    if settled.when_full is not terms.when_full:
        yield FieldError("/terms/unseen_days", "missing", f"is missing: {terms.when_full} requires it")
    if settled.devices_visible is not terms.devices_visible:
        detail = "requires portal_removals or new_devices, which limit how often devices change"
        yield FieldError("/terms/devices_visible", "invalid", detail)


def _write_record(record: Mapping[str, Any]) -> str | None:
    return msgspec.json.encode(record, order="sorted").decode() if record else None


def parse_term_name(name: str) -> str:
    """Return the name if terms have such a member. Raises ``ValueError`` otherwise."""
    if name not in _TERMS:
        raise ValueError(_suggest(name, _TERMS))
    return name


def _usual_start(valid_for_days: int | None) -> model.Starts:
    """Return the default of ``starts``: over v2, days are counted from the first activation."""
    return model.Starts.CREATION if valid_for_days is None else model.Starts.FIRST_ACTIVATION


def _write(terms: model.Terms, usual: model.Terms) -> str | None:
    """Serialize the members that differ from the usual ones, sorted, as JSON; None if none does."""
    members = {
        name: getattr(terms, name)
        for name in model.Terms.__struct_fields__
        if getattr(terms, name) != getattr(usual, name)
    }
    return msgspec.json.encode(members, order="sorted").decode() if members else None


# --- merge patch ----------------------------------------------------------------------------------

#: The levels of objects in terms: terms, meters, one meter. Deeper objects are invalid and not merged.
_DEPTH = 3


def _merge(target: object, patch: Any, depth: int) -> Any:
    """Apply a merge patch (RFC 7396), down to this many levels of objects."""
    if not isinstance(patch, Mapping) or not depth:
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value, depth - 1)
    return merged


def _read_members(
    members: Mapping[str, Any], readers: Mapping[str, _Reader], at: str, errors: list[FieldError]
) -> dict[str, Any]:
    """Parse these members; None stays None."""
    read = {}
    for name, value in members.items():
        pointer = _point(at, name)
        if name not in readers:
            if len(errors) < MAX_ERRORS:  # Looking for the nearest name is slow.
                _add(errors, pointer, "unknown", _suggest(name, readers))
        else:
            read[name] = None if value is None else readers[name](value, pointer, errors)
    return read


def _add(errors: list[FieldError], pointer: str, code: ValueCode, detail: str) -> None:
    errors.append(FieldError(pointer, code, detail))


def _suggest(name: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(name[:MAX_NAME], known, n=1)
    return f"is unknown; the nearest known name is {nearest[0]}" if nearest else "is unknown"


def _point(at: str, name: object) -> str:
    """Return the JSON Pointer of a member (RFC 6901)."""
    return f"{at}/" + str(name)[:MAX_NAME].replace("~", "~0").replace("/", "~1")


def _integer(least: int, most: int) -> _Reader:
    words = f"must be an integer from {least:,} to {most:,}"

    def read(value: Any, pointer: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, int) or isinstance(value, bool):
            _add(errors, pointer, "wrong_type", words)
        elif not least <= value <= most:
            _add(errors, pointer, "too_small" if value < least else "too_large", words)
        return value

    return read


def _boolean(value: Any, pointer: str, errors: list[FieldError]) -> Any:
    if not isinstance(value, bool):
        _add(errors, pointer, "wrong_type", "must be true or false")
    return value


def _choice(kind: type[StrEnum]) -> _Reader:
    words = "must be " + " or ".join(kind)

    def read(value: Any, pointer: str, errors: list[FieldError]) -> Any:
        if isinstance(value, str) and value in list(kind):
            return kind(value)
        _add(errors, pointer, "invalid", words)
        return value

    return read


def _object(kind: Callable[..., Any], readers: Mapping[str, _Reader], needed: Iterable[str]) -> _Reader:
    def read(value: Any, pointer: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, Mapping):
            return _add(errors, pointer, "wrong_type", "must be an object")
        before = len(errors)
        members = _read_members(value, readers, pointer, errors)
        for name in needed:
            if members.get(name) is None:
                _add(errors, _point(pointer, name), "missing", "is missing")
        return kind(**members) if len(errors) == before else None

    return read


def _entitlements(value: Any, pointer: str, errors: list[FieldError]) -> Any:
    if not isinstance(value, list | tuple):
        return _add(errors, pointer, "wrong_type", "must be an array of codes")
    if len(value) > MAX_ENTITLEMENTS:
        return _add(errors, pointer, "too_long", f"must have at most {MAX_ENTITLEMENTS} codes")
    for index, code in enumerate(value):
        if not isinstance(code, str) or not _CODE.fullmatch(code):
            _add(errors, _point(pointer, index), "invalid", _CODE_IN_WORDS)
        elif code in value[:index]:
            _add(errors, _point(pointer, index), "duplicate", "is a duplicate")
    return tuple(value)


def _hosts(value: Any, pointer: str, errors: list[FieldError]) -> Any:
    if not isinstance(value, list | tuple):
        return _add(errors, pointer, "wrong_type", "must be an array of hosts")
    if len(value) > MAX_HOSTS:
        return _add(errors, pointer, "too_long", f"must have at most {MAX_HOSTS} hosts")
    hosts = [one.strip().lower() if isinstance(one, str) else "" for one in value]
    for index, host in enumerate(hosts):
        if not _HOST.fullmatch(host) or host.count("*") > MAX_STARS:
            _add(errors, _point(pointer, index), "invalid", _HOST_IN_WORDS)
    return tuple(dict.fromkeys(hosts))


def _meters(value: Any, pointer: str, errors: list[FieldError]) -> Any:
    if not isinstance(value, Mapping):
        return _add(errors, pointer, "wrong_type", "must be an object of meters")
    if len(value) > MAX_METERS:
        return _add(errors, pointer, "too_long", f"must have at most {MAX_METERS} meters")
    for name in value:
        if not _CODE.fullmatch(name):
            _add(errors, _point(pointer, name), "invalid", f"the name {_CODE_IN_WORDS}")
    return {name: _METER(one, _point(pointer, name), errors) for name, one in value.items()}


def _allowance(least: int, most: int) -> _Reader:
    readers = {"count": _integer(least, most), "per_days": _integer(1, model.MAX_DAYS)}
    return _object(model.Allowance, readers, readers)


_METER = _object(
    model.Meter,
    {"limit": _integer(0, MAX_METER_LIMIT), "per": _choice(model.Period), "overage": _choice(model.Overage)},
    ("limit", "per"),
)


def _build_reader(member: Member) -> _Reader:
    kind, bounds = member.kind, member.form.get("bounds", ())
    if kind is bool:
        return _boolean
    if kind is model.Allowance:
        return _allowance(*bounds)
    return _choice(kind) if issubclass(kind, StrEnum) else _integer(*bounds)


_OWN: Mapping[str, _Reader] = {
    "entitlements": _entitlements,
    "channels": _entitlements,
    "meters": _meters,
    "uncounted_hosts": _hosts,
}
_TERMS: Mapping[str, _Reader] = {
    one.name: _OWN.get(one.name) or _build_reader(one) for one in list_members(model.Terms)
}
