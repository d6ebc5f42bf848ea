"""What stands in a field: numbers, statuses, moments, texts, license keys, and recipes for keys."""

from contextlib import suppress
from datetime import UTC
from typing import Any

import msgspec

from keywright import fields, generating, keys
from keywright.cli import options
from keywright.errors import InvalidLicenseKey, InvalidStatus, KeywrightError
from keywright.http import generators, licenses, parameters
from keywright.model import Status
from tests.fuzzing.pieces import object_of, text, value
from tests.makers import KEY_RING, a_generator

_MOST = {
    fields.parse_integer: fields.MAX_ID,
    fields.parse_limit: fields.MAX_COUNT,
    fields.parse_days: fields.MAX_COUNT,
}


def integers(data: bytes) -> None:
    """A number is None or within its bounds, and what is written as digits reads as that number."""
    given = value(data)
    for parse, most in _MOST.items():
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
        status = fields.parse_status(given)
    except InvalidStatus:
        assert not (isinstance(given, str) and given.isascii() and given.upper() in Status.__members__)
        return
    assert fields.parse_status(status.name) is fields.parse_status(int(status)) is status


def moments(data: bytes) -> None:
    """A moment is in UTC and whole seconds, and reads the same when it is written."""
    given = value(data)
    try:
        moment = fields.parse_time(given)
    except ValueError:
        return
    if moment is None:
        assert given in (None, "")
        return
    written = fields.write_time(moment)
    assert (moment.tzinfo, moment.microsecond, len(written)) == (UTC, 0, 19)
    assert fields.parse_time(written) == fields.parse_time(moment.isoformat()) == moment


def texts(data: bytes) -> None:
    """A text and an object of texts can be kept by every database, and are within their bounds."""
    given = value(data)
    try:
        found = fields.parse_text(given, fields.MAX_LABEL_LENGTH)
    except ValueError:
        found = None
    if found is not None:
        assert 1 <= len(found) <= fields.MAX_LABEL_LENGTH
        assert "\0" not in found.encode().decode()
    try:
        meta = fields.parse_meta(given)
    except ValueError:
        return
    if meta is not None:
        written = msgspec.json.encode(meta)
        assert len(written) <= fields.MAX_META_BYTES
        assert fields.parse_meta(written.decode()) == fields.parse_meta(meta) == meta


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
        assert KEY_RING.fingerprint(key) != KEY_RING.fingerprint(f"{key} ")
    shown = keys.mask(given)
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
        recipe = a_generator(**generators._values(asked))
        generating.require_sound(recipe, is_weak_allowed=True)
    except KeywrightError:
        return
    drawn = [keys.generate_key(recipe) for _ in range(3)]
    assert [keys.normalize_key(key) for key in drawn] == drawn
    assert {len(key) for key in drawn} == {keys.key_length(recipe)}
    assert keys.entropy_bits(recipe.charset, recipe.chunks, recipe.chunk_length) >= 0


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
        options.parse_name,
        options.changing(fields.parse_time),
        options.changing(fields.parse_limit),
    ):
        with suppress(ValueError):
            parse(given)
