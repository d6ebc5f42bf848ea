"""The one list of columns that hold what a secret plays a part in: sealed values, and their blind indexes.

Rotating the secret re-seals what is listed here, and nothing else; a copy and a backup carry these columns
as they are, so they say which secrets belong to them. A test compares the list with the tables: a column of
bytes that says of itself that it is ``SEALED`` or a ``BLIND_INDEX`` and is not here fails it.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, Table

from keywright.core.crypto import license_place
from keywright.db.schema import idempotency_records, job_file_chunks, licenses, second_factors


class Sealed(NamedTuple):
    """A column of sealed values."""

    column: Column[Any]
    #: Where a row's value can be unsealed, see ``KeyRing.seal``: nowhere but in this row.
    place: Callable[[Any], bytes]
    #: The column under which the row is found: the plain value's ``KeyRing.blind_index``.
    blind_index: Column[Any] | None = None
    #: How many rows are sealed anew in one transaction.
    at_once: int = 200

    @property
    def table(self) -> Table:
        """The table that the column is in."""
        table: Table = self.column.table
        return table


def chunk_place(job_id: int, number: int) -> bytes:
    """The place that a sealed chunk of a job's file is bound to."""
    return b"job:%d:%d" % (job_id, number)


def factor_place(user_id: int) -> bytes:
    """The place that the sealed secret of a user's app is bound to."""
    return b"user:%d" % user_id


ALL: Final = (
    Sealed(licenses.c.sealed_key, lambda row: license_place(row.id), blind_index=licenses.c.key_hmac),
    Sealed(idempotency_records.c.sealed_body, lambda row: bytes(row.scope)),
    Sealed(second_factors.c.sealed_secret, lambda row: factor_place(row.user_id)),
    # A chunk may have a megabyte.
    Sealed(job_file_chunks.c.sealed_content, lambda row: chunk_place(row.job_id, row.number), at_once=4),
)
