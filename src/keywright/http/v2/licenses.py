"""The handlers of calls about licenses: each reads the call, executes a command or query, and answers."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

from msgspec.structs import replace

from keywright.core import errors as e
from keywright.core import parsing
from keywright.http.answer import Answer
from keywright.http.middleware.call import Call
from keywright.http.v2 import parameters, wire
from keywright.http.v2.parameters import LICENSE_PARAMETERS, MAX_PER_PAGE
from keywright.licensing.activations.model import (
    Activate,
    Deactivate,
    DeactivateAll,
    FindLicenses,
    LicensePage,
    LicenseRecord,
    ListLicenses,
    Reactivate,
    Validate,
)
from keywright.licensing.licenses import keys
from keywright.licensing.licenses import model as license_model

_PIECE = 100
#: How long a list that has begun pauses before it retries when too many calls wait, in seconds.
_PAUSE = 0.5
_DEFAULT_PER_PAGE = 10

#: Names of fields that differ from their names on the wire.
_FIELDS = {"license_key": "key", "user_id": "customer_id", "valid_for": "valid_for_days"}
_PARSERS: dict[str, Any] = {
    "order_id": parsing.parse_integer,
    "product_id": parsing.parse_integer,
    "user_id": parsing.parse_integer,
    "status": license_model.parse_status,
    "expires_at": parsing.parse_time,
    "valid_for": parsing.parse_days,
    "times_activated_max": parsing.parse_limit,
}
_NOT_WRITABLE = frozenset(
    "id hash times_activated source created_at created_by updated_at updated_by".split()
)
_FILTERS = ("product_id", "order_id", "user_id")


async def activate(call: Call) -> Answer:
    """Activate or reactivate.

    Takes a place on the license: `timesActivated` increases by one, and the answer contains the new
    activation with its `token`. Store the token: it identifies this place in all later calls.

    With `token`, takes back the place of that deactivated activation: it counts like a new one, and
    `deactivated_at` becomes null.

    Refusals are checked in this order: unknown key, expired, inactive or disabled, then the token, then the
    limit.
    """
    asked = call.parameters
    token = _token(asked)
    if token is not None:
        command: license_model.LicenseCommand = Reactivate(**_fields(call), token=token)
    else:
        given = parameters.read(asked, _ACTIVATION_PARSERS)
        command = Activate(**_fields(call), label=given.get("label"), meta_data=given.get("meta"))
    return await call.change(command, wire.one_activation)


async def deactivate(call: Call) -> Answer:
    """Deactivate.

    Gives up the place with this `token`: `timesActivated` decreases by one. Without a token, gives up all
    places of the license.

    This also works for expired, inactive and disabled licenses.
    """
    token = _token(call.parameters)
    if token is not None:
        return await call.change(Deactivate(**_fields(call), token=token), wire.one_activation)
    return await call.change(DeactivateAll(**_fields(call)), wire.many_activations)


async def validate(call: Call) -> Answer:
    """Validate.

    Returns the license and changes nothing. `activationData` lists all its activations, including deactivated
    ones; with `token`, only the active one with that token.

    An expired, inactive or disabled license is returned like any other: check `expiresAt` and `status`. With
    the setting `v2_validate = refuse`, it is refused, as by `activate`.
    """
    return await _validate(call, refused_at=None)


async def validate_or_refuse(call: Call) -> Answer:
    """Validate, but refuse a license that ``activate`` would refuse for its expiry or status."""
    return await _validate(call, refused_at=call.now)


async def _validate(call: Call, refused_at: datetime | None) -> Answer:
    token = _token(call.parameters)
    query = Validate(key=call.key, token=token, only_product_id=call.only_product_id, refused_at=refused_at)
    return await call.ask(query, wire.validation)


async def get_license(call: Call) -> Answer:
    """Get a license.

    Returns the license with its activations.
    """
    query = Validate(key=call.key, only_product_id=call.only_product_id)
    return await call.ask(query, wire.license_with_activations)


async def list_licenses(call: Call) -> Answer:
    """List licenses.

    Without `page` and `per_page`, all matching licenses, the oldest first. With either of them, one page,
    with headers that state the number of licenses and pages and link to the adjacent pages.
    """
    asked = call.parameters
    where = _filter(asked)
    if call.only_product_id is not None:
        if where.product_id not in (None, call.only_product_id):
            raise e.NoLicenses
        where = replace(where, product_id=call.only_product_id)
    if "page" in asked or "per_page" in asked:
        return await _page(call, where)
    first: tuple[LicenseRecord, ...] = await call.desk.query(_piece(where, 0), call)
    if not first:
        raise e.NoLicenses
    return Answer(200, b"", pieces=_stream(call, where, first))


async def create_license(call: Call) -> Answer:
    """Create a license.

    `license_key` is required, in the body or the query.
    """
    asked = call.parameters
    key = _license_key(asked)
    changes = {"status": license_model.Status.ACTIVE, "product_id": call.only_product_id} | _changes(asked)
    parameters.require_own_product(call, changes)
    command = license_model.CreateLicense(context=call.context, key=key, **changes)
    return await call.change(command, wire.license_alone)


async def update_license(call: Call) -> Answer:
    """Change a license.

    Changes only the given fields. PUT, PATCH and POST are equivalent.

    `id`, `hash`, `times_activated`, `source`, `created_at`, `created_by`, `updated_at` and `updated_by` are
    read-only: if one of them is sent, or the body has an unknown field, nothing is changed.
    """
    asked = {name: value for name, value in call.query.items() if name in _KNOWN} | call.sent
    for name in asked:
        if name not in _WRITABLE:
            raise e.FieldNotWritable(name)
    if not asked:
        raise e.NothingToChange
    changes = _changes(asked)
    if "license_key" in asked:
        changes["key"] = _license_key(asked)
    if "expires_at" in asked:
        changes.setdefault("valid_for_days", None)
    parameters.require_own_product(call, changes)
    return await call.change(
        license_model.UpdateLicense(**_fields(call), changes=changes), wire.license_alone
    )


async def delete_license(call: Call) -> Answer:
    """Delete a license.

    Deletes the license and its activations.
    """
    return await call.change(license_model.DeleteLicense(**_fields(call)), wire.nothing)


def _fields(call: Call) -> dict[str, Any]:
    """The fields that every command about one license has."""
    return {
        "context": call.context,
        "license": call.key,
        "only_product_id": call.only_product_id,
    }


_ACTIVATION_PARSERS: dict[str, Any] = {
    "label": lambda value: parsing.parse_text(value, parsing.MAX_LABEL_LENGTH),
    "meta": parsing.parse_meta,
}
_WRITABLE = frozenset(LICENSE_PARAMETERS)
_KNOWN = _WRITABLE | _NOT_WRITABLE


def _license_key(asked: Mapping[str, Any]) -> str:
    key = asked.get("license_key")
    if isinstance(key, parameters.Number):
        key = key.text
    elif isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    if not isinstance(key, str):
        raise e.InvalidLicenseKey
    return keys.normalize_key(key)


def _token(asked: Mapping[str, Any]) -> str | None:
    token = asked.get("token")
    if token is None or token == "":
        return None
    if not isinstance(token, str):
        raise e.InvalidParameters({"token": "must be a text"})
    # A token of spaces is kept, and matches no activation: without a token, every place would be given up.
    return token.strip() or token


def _changes(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that create and update set, under their names in ``License``."""
    values = parameters.read(asked, _PARSERS)
    if values.get("expires_at") is not None:
        values["valid_for"] = None
    return _by_field(values)


def _by_field(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_FIELDS.get(name, name): value for name, value in values.items()}


def _filter(query: Mapping[str, Any]) -> license_model.LicenseFilter:
    parsers: dict[str, Any] = dict.fromkeys(_FILTERS, parsing.parse_integer)
    values = parameters.read(query, parsers)
    if "status" in query:
        try:
            values["status"] = license_model.parse_status(query["status"])
        except e.InvalidStatus:
            names = ", ".join(one.name.lower() for one in license_model.Status)
            raise e.InvalidParameters({"status": f"must be one of {names}"}) from None
    return license_model.LicenseFilter(**_by_field(values))


async def _page(call: Call, where: license_model.LicenseFilter) -> Answer:
    numbers = parameters.read(call.parameters, {"page": _page_number, "per_page": _page_size})
    page, per_page = numbers.get("page", 1), numbers.get("per_page", _DEFAULT_PER_PAGE)
    query = ListLicenses(where=where, page=page, per_page=per_page)
    found: LicensePage = await call.desk.query(query, call)
    if found.total == 0:
        raise e.NoLicenses
    pages = -(-found.total // per_page)
    headers = [
        (b"x-wp-total", b"%d" % found.total),
        (b"x-wp-totalpages", b"%d" % pages),
    ]
    links = [("prev", page - 1)] * (1 < page <= pages + 1) + [("next", page + 1)] * (page < pages)
    if links:
        written = (f'<{_address_of_page(call, number)}>; rel="{kind}"' for kind, number in links)
        headers.append((b"link", ", ".join(written).encode()))
    body = await asyncio.to_thread(wire.licenses_with_activations, found.records)
    return Answer(200, body, tuple(headers))


def _page_number(value: object) -> int:
    return _whole(value, 2**31 - 1)


def _page_size(value: object) -> int:
    return _whole(value, MAX_PER_PAGE)


def _whole(value: object, most: int) -> int:
    number = parsing.parse_integer(value, parsing.MAX_ID)
    if number is None or not 1 <= number <= most:
        raise ValueError(f"must be an integer from 1 to {most}")
    return number


def _address_of_page(call: Call, number: int) -> str:
    """The URL of another page of the same list; links must not contain credentials."""
    query = [
        (name, value)
        for name, value in parse_qsl(call.scope["query_string"].decode("latin-1"))
        if name not in ("page", "consumer_key", "consumer_secret")
    ]
    # One slash, because two would start the name of another host.
    path = "/" + call.scope["raw_path"].decode("ascii").lstrip("/")
    return f"{path}?{urlencode([*query, ('page', str(number))], safe='/')}"


async def _stream(
    call: Call, where: license_model.LicenseFilter, first: tuple[LicenseRecord, ...]
) -> AsyncGenerator[bytes, None]:
    """The list in pieces, each read in a separate transaction: no call waits for the whole list, and it is
    never in memory as a whole.
    """
    yield b'{"success":true,"data":[' + await asyncio.to_thread(wire.some_licenses, first)
    last = first
    while len(last) == _PIECE:
        last = await _next_piece(call, _piece(where, last[-1].license.id))
        if last:
            yield b"," + await asyncio.to_thread(wire.some_licenses, last)
    yield b"]}"


def _piece(where: license_model.LicenseFilter, after_id: int) -> FindLicenses:
    return FindLicenses(where=where, after_id=after_id, limit=_PIECE)


async def _next_piece(call: Call, query: FindLicenses) -> tuple[LicenseRecord, ...]:
    """The next piece of a list that has begun; retry while too many calls wait."""
    while True:
        try:
            return await call.desk.query(query, call)  # type: ignore[no-any-return]
        except (e.QueueFull, e.WaitedTooLong):
            if call.is_gone:
                raise
            await asyncio.sleep(_PAUSE)
