"""Make, list and end update tokens; a token permits only checks for updates of its license, and downloads."""

import base64
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from keywright.core.command import Command, Query
from keywright.core.errors import LicenseDisabled, NotActivated, NotFound
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import find_by_id
from keywright.licensing.licenses.model import License, LicenseCommand, Status
from keywright.licensing.queries import require_license
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.updates import store

MAX_OF_ACTIVATION, MAX_OF_LICENSE = 5, 20
#: How long a device's former token remains valid after the device gets a new one.
OVERLAP = timedelta(days=7)
_PREFIX, _BYTES, _SHOWN = "upd_", 20, 8


class UpdateToken(Struct, frozen=True):
    """A token, without its secret; ``prefix`` is its first characters."""

    id: int
    license_id: int
    activation_id: int | None
    prefix: str
    created_at: datetime
    ends_at: datetime | None


class NewUpdateToken(Struct, frozen=True):
    """A token that was just made, with its text, which is shown only once."""

    token: UpdateToken
    text: str


class CreateUpdateToken(LicenseCommand, frozen=True, kw_only=True):
    """Make a token for a license, or for one of its devices."""

    activation_id: int | None = None


class EndUpdateToken(LicenseCommand, frozen=True, kw_only=True):
    """End a token at once."""

    token_id: int


class ListUpdateTokens(Query, frozen=True, kw_only=True):
    """The tokens of a license that have not ended."""

    license_id: int
    now: datetime
    only_product_id: int | None = None


def create(work: LicenseWork, command: CreateUpdateToken) -> NewUpdateToken:
    """Make a token. Raises ``NotFound`` for an unknown device, and what ``issue`` raises."""
    license, activation = work.get_license(command), None
    if command.activation_id is not None:
        found = find_by_id(work.tx, [(license.id, command.activation_id)])
        if not found:
            raise NotFound(f"activation {command.activation_id}")
        activation = found[0]
    return issue(work, command, license, activation)


def issue(
    work: LicenseWork, command: Command, license: License, activation: Activation | None
) -> NewUpdateToken:
    """Make a token. Former tokens of the device end after seven days; beyond the maxima, the oldest end at
    once. Raises ``LicenseDisabled`` and ``NotActivated``.
    """
    if license.status == Status.DISABLED:
        raise LicenseDisabled(license.key)
    if activation is not None and activation.deactivated_at is not None:
        raise NotActivated
    now, number = command.context.now, None if activation is None else activation.id
    known = list_live(work.tx, license.id, now)
    own = [] if number is None else [one for one in known if one.activation_id == number]
    over = own[: max(0, len(own) + 1 - MAX_OF_ACTIVATION)]
    left = [one for one in known if one not in over]
    over += left[: max(0, len(left) + 1 - MAX_OF_LICENSE)]
    store.delete_tokens(work.tx, [one.id for one in over])
    store.limit_tokens(work.tx, [one.id for one in own if one not in over], now + OVERLAP)
    text = _PREFIX + base64.b32encode(secrets.token_bytes(_BYTES)).decode().lower()
    token = UpdateToken(0, license.id, number, text[:_SHOWN], now, None)
    id = store.save_new_token(work.tx, token, text)
    work.record_license_event("license.update_token_made", license, command, details={"prefix": token.prefix})
    return NewUpdateToken(UpdateToken(id, license.id, number, token.prefix, now, None), text)


def end(work: LicenseWork, command: EndUpdateToken) -> None:
    """End a token. Raises ``NotFound``."""
    license = work.get_license(command)
    known = {one.id: one for one in list_live(work.tx, license.id, command.context.now)}
    if command.token_id not in known:
        raise NotFound(f"update token {command.token_id}")
    store.delete_tokens(work.tx, [command.token_id])
    details = {"prefix": known[command.token_id].prefix}
    work.record_license_event("license.update_token_ended", license, command, details=details)


def list_tokens(read: Any, query: ListUpdateTokens) -> list[UpdateToken]:
    """Return the tokens of a license that have not ended, oldest first. Raises ``UnknownLicenseId``."""
    require_license(read.tx, query.license_id, query.only_product_id)
    return list_live(read.tx, query.license_id, query.now)


def list_live(tx: Any, license_id: int, now: datetime) -> list[UpdateToken]:
    """Return the tokens of a license that have not ended, oldest first."""
    found = (UpdateToken(**one) for one in store.list_tokens(tx, license_id))
    return [one for one in found if one.ends_at is None or one.ends_at > now]


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    CreateUpdateToken: create,
    EndUpdateToken: end,
}
QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {ListUpdateTokens: list_tokens}
