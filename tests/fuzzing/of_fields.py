"""What stands in a field: numbers, statuses, moments, texts, license keys, and recipes for keys."""

from contextlib import suppress
from datetime import UTC
from typing import Any

import msgspec

from keywright.cli import options
from keywright.core import crypto, parsing
from keywright.core.errors import InvalidLicenseKey, InvalidStatus, KeywrightError
from keywright.http.v2 import generators, licenses, parameters
from keywright.licensing.licenses import keys
from keywright.licensing.licenses.model import Status, parse_status
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import merge_terms
from keywright.provisioning.policies import handlers as generating
from keywright.provisioning.policies import rules
from tests.fuzzing.pieces import object_of, text, value
from tests.makers import KEY_RING, a_policy

_MAX_OF = {
    parsing.parse_integer: parsing.MAX_ID,
    parsing.parse_limit: parsing.MAX_COUNT,
    parsing.parse_days: parsing.MAX_COUNT,
}


def integers(data: bytes) -> None:
    """A number is None or within its bounds, and what is written as digits reads as that number."""
    given = value(data)
    for parse, most in _MAX_OF.items():
        try:
            number = parse(given)
        except ValueError:
            assert not (type(given) is int and 0 <= given <= most)
            continue
        assert number is None or (type(number) is int and 0 <= number <= most)
        assert number is None or parse(str(number)) == parse(number) == number
        assert given is None or number == int(given) or (number is None and int(given) == 0)


def statuses(data: bytes) -> None:
    """A status reads the same by its name and its number."""
    given = value(data)
    try:
        status = parse_status(given)
    except InvalidStatus:
        assert not (isinstance(given, str) and given.isascii() and given.upper() in Status.__members__)
        return
    assert parse_status(status.name) is parse_status(int(status)) is status


def moments(data: bytes) -> None:
    """A moment is in UTC and whole seconds, and reads the same when it is written."""
    given = value(data)
    try:
        moment = parsing.parse_time(given)
    except ValueError:
        return
    if moment is None:
        assert given in (None, "")
        return
    written = parsing.write_time(moment)
    assert (moment.tzinfo, moment.microsecond, len(written)) == (UTC, 0, 19)
    assert parsing.parse_time(written) == parsing.parse_time(moment.isoformat()) == moment


def texts(data: bytes) -> None:
    """A text and an object of texts can be kept by every database, and are within their bounds."""
    given = value(data)
    try:
        found = parsing.parse_text(given, parsing.MAX_LABEL_LENGTH)
    except ValueError:
        found = None
    if found is not None:
        assert 1 <= len(found) <= parsing.MAX_LABEL_LENGTH
        assert "\0" not in found.encode().decode()
    try:
        meta = parsing.parse_meta(given)
    except ValueError:
        return
    if meta is not None:
        written = msgspec.json.encode(meta)
        assert len(written) <= parsing.MAX_META_BYTES
        assert parsing.parse_meta(written.decode()) == parsing.parse_meta(meta) == meta


def license_keys(data: bytes) -> None:
    """What is a license key stays as it is, can be sealed and read again, and its mask gives little away."""
    given = text(data)
    try:
        key = keys.normalize_key(given)
    except InvalidLicenseKey:
        key = None
    if key is not None:
        assert key in given
        assert keys.normalize_key(key) == key
        assert KEY_RING.unseal_key(KEY_RING.seal_key(key, 7), 7) == key
        assert KEY_RING.blind_index(key) != KEY_RING.blind_index(f"{key} ")
    shown = crypto.mask(given)
    assert shown.isprintable()
    assert len(shown) - 1 <= min(4, len(given) / 4)


def sealed_keys(data: bytes) -> None:
    """What was not sealed here is not taken for a key."""
    try:
        KEY_RING.unseal_key(data, 7)
    except ValueError:
        return
    raise AssertionError("somebody else's bytes were unsealed")


def recipes(data: bytes) -> None:
    """A sound recipe makes keys of the length that it says, which are license keys as they stand."""
    asked = object_of(data)
    try:
        values = generators._values(asked)
        terms = merge_terms(Terms(), generators._terms(values))
        recipe = a_policy(**values, terms=terms)
        generating.require_sound(recipe, is_weak_allowed=True)
    except KeywrightError:
        return
    drawn = [rules.generate_key(recipe) for _ in range(3)]
    assert [keys.normalize_key(key) for key in drawn] == drawn
    assert {len(key) for key in drawn} == {rules.key_length(recipe)}
    assert rules.entropy_bits(recipe.charset, recipe.chunks, recipe.chunk_length) >= 0


def changes(data: bytes) -> None:
    """What create, update and generate read of their parameters is what the columns hold."""
    asked = object_of(data)
    for read in (licenses._changes, licenses._filter, licenses._license_key, licenses._token, _generated):
        with suppress(KeywrightError):
            read(asked)


def _generated(asked: Any) -> dict[str, Any]:
    return parameters.read(asked, generators._GENERATE_PARSERS)


def command_options(data: bytes) -> None:
    """What the command line reads, it reads, or says in words why not."""
    given = text(data)
    for parse in (
        options.parse_key,
        options.parse_status,
        options.parse_label,
        parsing.parse_name,
        options.changing(parsing.parse_time),
        options.changing(parsing.parse_limit),
    ):
        with suppress(ValueError):
            parse(given)
