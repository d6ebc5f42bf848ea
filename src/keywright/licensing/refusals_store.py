"""Refused calls in the database."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, select, tuple_, update

from keywright.db.bulk import Lookup, bulk_delete, bulk_insert
from keywright.db.rows import to_columns, to_datetime, to_seconds
from keywright.db.schema import refusals
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.events.store import advance_checkpoint
from keywright.licensing.refusals import RefusedCall

#: The name in ``checkpoints`` of the time of the last save: its row is the lock of those who save.
_CHECKPOINT = "refusals_saved"
#: The most rows that a statement deletes or changes because of their age.
_MAX_OLD = 1_000
_FIELDS = RefusedCall.__struct_fields__

_REFUSALS_OF = Lookup(
    select(refusals.c.license_id, *(refusals.c[name] for name in _FIELDS)), refusals.c.license_id
)
_DELETE = bulk_delete(refusals, "license_id")
_INSERT = bulk_insert(refusals)
_KEY = tuple_(refusals.c.license_id, refusals.c.number)
_IS_OLD = refusals.c.refused_at < bindparam("before")
_OLD = select(refusals.c.license_id, refusals.c.number).where(_IS_OLD).limit(_MAX_OLD)
_DELETE_OLD = delete(refusals).where(_KEY.in_(_OLD))
_FORGET_ADDRESSES = (
    update(refusals).where(_KEY.in_(_OLD.where(refusals.c.ip_address != ""))).values(ip_address="")
)


def lock_refusals(tx: WriteTransaction, now: datetime) -> None:
    """Let other servers wait: each reads what the others have saved, and replaces it."""
    advance_checkpoint(tx, _CHECKPOINT, to_seconds(now))


def list_refusals(tx: ReadTransaction, license_ids: Collection[int]) -> dict[int, list[RefusedCall]]:
    """The refused calls of these licenses, by license; the last one first."""
    found: dict[int, list[RefusedCall]] = defaultdict(list)
    for license_id, *values in {tuple(row) for row in _REFUSALS_OF.find_rows(tx.connection, license_ids)}:
        fields = dict(zip(_FIELDS, values, strict=True))
        found[license_id].append(RefusedCall(**fields | {"refused_at": to_datetime(fields["refused_at"])}))
    for calls in found.values():
        calls.sort(key=lambda one: one.refused_at, reverse=True)
    return found


def save_refusals(tx: WriteTransaction, kept: Mapping[int, Sequence[RefusedCall]]) -> None:
    """Store these as the refused calls of these licenses, instead of those that they had."""
    _DELETE.execute(tx.connection, [{"where_license_id": number} for number in sorted(kept)])
    _INSERT.execute(
        tx.connection,
        [
            {"license_id": license_id, "number": number} | to_columns(one)
            for license_id, calls in sorted(kept.items())
            for number, one in enumerate(calls)
        ],
    )


def delete_old_refusals(tx: WriteTransaction, before: datetime) -> int:
    """Delete some of the calls that were refused before this moment; returns how many."""
    return tx.connection.execute(_DELETE_OLD, {"before": to_seconds(before)}).rowcount


def forget_addresses(tx: WriteTransaction, before: datetime) -> int:
    """Erase the addresses of some of the calls that were refused before this moment; return their number."""
    return tx.connection.execute(_FORGET_ADDRESSES, {"before": to_seconds(before)}).rowcount
