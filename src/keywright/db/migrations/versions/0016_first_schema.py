"""The first schema: Keywright 1.0. Earlier revisions belong to versions before the first release."""

import sqlalchemy as sa
from alembic import op

from keywright.db.migrations.first_schema import exchange, licenses, people, records

revision = "0016"
down_revision = None

_FIRST_OWN_ID = 1_000_000_000
#: The first IDs that Keywright assigns. On SQLite, a row contains the last assigned ID.
_FIRST_IDS = {"license": 1, "activation": 1, "product": _FIRST_OWN_ID, "customer": _FIRST_OWN_ID}


def upgrade() -> None:
    records.create()
    people.create()
    exchange.create()
    licenses.create()
    sequences = sa.table("sequences", sa.column("name"), sa.column("last_id"))
    op.bulk_insert(sequences, [{"name": kind, "last_id": first - 1} for kind, first in _FIRST_IDS.items()])
    if op.get_bind().dialect.name == "postgresql":
        for kind, first in _FIRST_IDS.items():
            op.execute(sa.schema.CreateSequence(sa.Sequence(f"{kind}_id_seq", start=first)))
