"""Second factors of users, and their recovery codes, within one transaction."""

from collections.abc import Collection

from sqlalchemy import delete, func, insert, select, update

from keywright.db import rows
from keywright.db.schema import recovery_codes, second_factors
from keywright.db.sealed_columns import factor_associated_data
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.identity.model import SecondFactor


def has_factor(tx: ReadTransaction, user_id: int) -> bool:
    """Whether the user has a second factor."""
    query = select(second_factors.c.user_id).where(second_factors.c.user_id == user_id)
    return tx.connection.execute(query).first() is not None


def list_users_with_factor(tx: ReadTransaction) -> set[int]:
    """The numbers of the users that have one."""
    return set(tx.connection.execute(select(second_factors.c.user_id)).scalars())


def find_factor(tx: ReadTransaction, user_id: int) -> SecondFactor | None:
    """The user's second factor."""
    query = select(second_factors).where(second_factors.c.user_id == user_id)
    row = tx.connection.execute(query).first()
    if row is None:
        return None
    secret = tx.key_ring.unseal(row.sealed_secret, factor_associated_data(user_id)).decode()
    return SecondFactor(user_id, secret, rows.to_datetime(row.enabled_at), row.last_step, row.failed_attempts)


def lock_factor(tx: WriteTransaction, user_id: int) -> SecondFactor | None:
    """The same, locked until the end."""
    query = select(second_factors.c.user_id).where(second_factors.c.user_id == user_id)
    tx.connection.execute(query.with_for_update())
    return find_factor(tx, user_id)


def save_new_factor(tx: WriteTransaction, factor: SecondFactor) -> None:
    """Insert; the secret is sealed, and readable as this user's only."""
    values = {
        "user_id": factor.user_id,
        "sealed_secret": tx.sealing.seal(factor.secret.encode(), factor_associated_data(factor.user_id)),
        "enabled_at": rows.to_seconds(factor.enabled_at),
        "last_step": factor.last_step,
        "failed_attempts": factor.failed_attempts,
    }
    tx.connection.execute(insert(second_factors).values(values))


def save_attempt(tx: WriteTransaction, factor: SecondFactor) -> None:
    """Update what an attempt changes."""
    query = update(second_factors).where(second_factors.c.user_id == factor.user_id)
    tx.connection.execute(query.values(last_step=factor.last_step, failed_attempts=factor.failed_attempts))


def forget_failures(tx: WriteTransaction, user_id: int) -> None:
    """Let the user have all attempts again."""
    query = update(second_factors).where(second_factors.c.user_id == user_id)
    tx.connection.execute(query.values(failed_attempts=0))


def delete_factor(tx: WriteTransaction, user_id: int) -> None:
    """Delete the user's second factor with its recovery codes."""
    save_codes(tx, user_id, ())
    tx.connection.execute(delete(second_factors).where(second_factors.c.user_id == user_id))


def count_codes(tx: ReadTransaction, user_id: int) -> int:
    """The number of recovery codes the user has left."""
    query = select(func.count()).where(recovery_codes.c.user_id == user_id)
    return int(tx.connection.execute(query).scalar_one())


def save_codes(tx: WriteTransaction, user_id: int, hashes: Collection[bytes]) -> None:
    """Let these be the user's recovery codes, instead of those there were."""
    tx.connection.execute(delete(recovery_codes).where(recovery_codes.c.user_id == user_id))
    if hashes:
        values = [{"user_id": user_id, "code_hash": one} for one in hashes]
        tx.connection.execute(insert(recovery_codes), values)


def take_code(tx: WriteTransaction, user_id: int, code_hash: bytes) -> bool:
    """Delete a recovery code; False when there is none like that."""
    own = recovery_codes.c.user_id == user_id
    query = delete(recovery_codes).where(own, recovery_codes.c.code_hash == code_hash)
    return tx.connection.execute(query).rowcount == 1
