"""The brand in the database: one row."""

from datetime import datetime

import msgspec
from sqlalchemy import delete, insert, select

from keywright.db.rows import to_seconds
from keywright.db.schema import brand as brand_table
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.brand import Brand, FooterLink

_ID = 1
_COLUMNS = [brand_table.c[name] for name in Brand.__struct_fields__]
_decode_links = msgspec.json.Decoder(tuple[FooterLink, ...]).decode


def find_brand(tx: ReadTransaction) -> Brand:
    """The vendor's brand; one without anything before the vendor has saved it."""
    row = tx.connection.execute(select(*_COLUMNS).where(brand_table.c.id == _ID)).first()
    if row is None:
        return Brand()
    return Brand(row.name, row.color, row.logo, row.logo_type, _decode_links(row.links))


def save_brand(tx: WriteTransaction, brand: Brand, now: datetime) -> None:
    """Insert or replace."""
    values = msgspec.structs.asdict(brand) | {"links": msgspec.json.encode(brand.links).decode()}
    tx.connection.execute(delete(brand_table).where(brand_table.c.id == _ID))
    tx.connection.execute(insert(brand_table).values(id=_ID, updated_at=to_seconds(now), **values))
