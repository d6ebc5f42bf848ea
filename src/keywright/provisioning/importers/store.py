"""Database access for imports."""

from collections.abc import Collection, Iterator

from sqlalchemy import bindparam, func, select, text

from keywright.db.bulk import Lookup, bulk_upsert
from keywright.db.schema import activations, api_keys, checkpoints, events, licenses
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.policies.store import save_new_policy

#: Names in ``checkpoints``: imports may give activations the IDs after the first, up to the second.
_AFTER, _UNTIL = "imported_ids_after", "imported_ids_until"
_RESERVED = select(checkpoints.c.name, checkpoints.c.last_id).where(checkpoints.c.name.in_((_AFTER, _UNTIL)))
_SAVE = bulk_upsert(checkpoints, ["name"], largest=["last_id"])
_EVENTS_OF = Lookup(
    select(events.c.license_id, events.c.name)
    .where(events.c.license_id != 0)
    .group_by(events.c.license_id, events.c.name),
    events.c.license_id,
)
_ACTIVATION_IDS = select(activations.c.id).where(
    activations.c.id > bindparam("after"), activations.c.id <= bindparam("until")
)
#: PostgreSQL's sequence ignores IDs that were inserted explicitly.
_SKIP_POLICIES = text(
    "SELECT setval('policies_id_seq', greatest(:last, (SELECT last_value FROM policies_id_seq)))"
)


def list_event_names(tx: ReadTransaction, license_ids: Collection[int]) -> dict[int, set[str]]:
    """Return the names of the events of these licenses, including deleted ones, by license."""
    found: dict[int, set[str]] = {}
    for license_id, name in _EVENTS_OF.find_rows(tx.connection, license_ids):
        found.setdefault(license_id, set()).add(name)
    return found


def reserve_ids(tx: WriteTransaction, license_id: int, activation_id: int) -> tuple[int, int]:
    """Reserve the IDs up to these; new licenses and activations get larger ones. Return the range of IDs that
    an import may give activations: after the first, up to the second. A repeated import gets the same.
    """
    tx.ids.skip("license", license_id)
    last = tx.ids.skip("activation", activation_id)
    reserved = {name: number for name, number in tx.connection.execute(_RESERVED)}
    after, until = reserved.get(_AFTER, last), reserved.get(_UNTIL, last)
    if last == until:
        # No server has assigned an activation ID since.
        until = max(until, activation_id)
    rows = [{"name": _AFTER, "last_id": after}, {"name": _UNTIL, "last_id": until}]
    _SAVE.execute(tx.connection, rows)
    return after, until


def list_activation_ids(tx: ReadTransaction, after: int, until: int) -> Iterator[int]:
    """Yield the IDs of activations in this range."""
    yield from tx.connection.execute(_ACTIVATION_IDS, {"after": after, "until": until}).scalars()


def count_licenses(tx: ReadTransaction) -> int:
    """Return the number of licenses."""
    return int(tx.connection.execute(select(func.count()).select_from(licenses)).scalar_one())


def has_api_key(tx: ReadTransaction, consumer_key_hash: str) -> bool:
    """Whether there is an API key with this hash, including revoked ones."""
    query = select(api_keys.c.id).where(api_keys.c.key_hash == consumer_key_hash)
    return tx.connection.execute(query).first() is not None


def save_policy(tx: WriteTransaction, policy: Policy) -> int:
    """Insert a policy with its ID, or with a new one for ID 0; return the ID."""
    policy_id = save_new_policy(tx, policy)
    if policy.id and tx.is_postgres:
        tx.connection.execute(_SKIP_POLICIES, {"last": policy_id})
    return policy_id
