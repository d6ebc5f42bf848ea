"""Database access for trials. A device is looked up by the blind index of its fingerprint."""

from sqlalchemy import insert, select

from keywright.db.rows import to_seconds, with_datetimes
from keywright.db.schema import trials
from keywright.db.sealed_columns import trial_associated_data
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.customers import fold_email
from keywright.provisioning.trials import Trial

_TRIAL = select(trials.c.product_id, trials.c.license_id, trials.c.email, trials.c.created_at)
#: The largest number of trials that are found for one address.
_MAX_BY_EMAIL = 1_000


def find_trial(tx: ReadTransaction, product_id: int, fingerprint: str) -> Trial | None:
    """Return the trial that the device with this fingerprint has had of a product."""
    is_of_device = trials.c.fingerprint_hmac.in_(list(tx.key_ring.blind_indexes([fingerprint])))
    query = _TRIAL.where(trials.c.product_id == product_id, is_of_device)
    return tx.first(query, lambda row: Trial(**with_datetimes(row)))


def find_by_email(tx: ReadTransaction, email: str) -> list[int]:
    """Return the IDs of the licenses of trials with this address, in any case; at most 1,000."""
    query = select(trials.c.license_id).where(trials.c.email == fold_email(email)).limit(_MAX_BY_EMAIL)
    return list(tx.connection.execute(query).scalars())


def save_new_trial(tx: WriteTransaction, trial: Trial, fingerprint: str) -> None:
    """Insert a trial; the database rejects a second one of the device."""
    associated_data = trial_associated_data(trial.product_id)
    values = {
        "product_id": trial.product_id,
        "fingerprint_hmac": tx.sealing.blind_index(fingerprint),
        "sealed_fingerprint": tx.sealing.seal(fingerprint.encode(), associated_data),
        "license_id": trial.license_id,
        "email": None if trial.email is None else fold_email(trial.email),
        "created_at": to_seconds(trial.created_at),
    }
    tx.connection.execute(insert(trials).values(values))
