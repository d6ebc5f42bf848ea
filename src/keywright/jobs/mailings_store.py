"""SQL for license-file jobs: which licenses and devices get a file, and which customers receive it."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, Any

from msgspec import Struct
from sqlalchemy import and_, bindparam, case, distinct, func, or_, select

from keywright.core.fields import about
from keywright.db.bulk import Lookup
from keywright.db.rows import to_seconds
from keywright.db.schema import activations, customers, job_file_chunks, licenses
from keywright.db.sealed_columns import chunk_associated_data
from keywright.db.transaction import ReadTransaction
from keywright.licensing.licenses.model import Status

#: The maximum number of parts per license: license IDs are below 2**53, part numbers below 2**63.
PARTS = 1024
_COLUMNS, _chunks, _places = licenses.c, job_file_chunks.c, activations.c
_HOLDS_PLACE = _places.deactivated_at.is_(None)
_DEVICES = (
    select(_places.id, _places.token)
    .where(
        _places.license_id == bindparam("license_id"), _HOLDS_PLACE, _places.id > bindparam("after_device")
    )
    .order_by(_places.id)
    .limit(bindparam("most"))
)
_HAS_ADDRESS = and_(customers.c.id == _COLUMNS.customer_id, customers.c.email.is_not(None))
_PARTS_OF = Lookup(
    select(
        _COLUMNS.customer_id,
        _chunks.number,
        func.length(_chunks.sealed_content).label("size"),
        customers.c.id.is_not(None).label("has_address"),
    ).select_from(
        licenses.join(
            job_file_chunks,
            and_(
                _chunks.job_id == bindparam("job_id"),
                _chunks.number.between(_COLUMNS.id * PARTS, _COLUMNS.id * PARTS + PARTS - 1),
            ),
        ).outerjoin(customers, _HAS_ADDRESS)
    ),
    _COLUMNS.customer_id,
)
_PARTS = Lookup(
    select(_chunks.number, _chunks.sealed_content).where(_chunks.job_id == bindparam("job_id")),
    _chunks.number,
)


class FilesPreview(Struct, frozen=True):
    """What a job would make files for now, at most: terms are checked only when a file is made."""

    total: Annotated[int, about("The number of licenses.", 130)]
    licenses: Annotated[int, about("Licenses that are neither disabled, inactive nor expired.", 120)]
    devices: Annotated[int, about("Devices with a place on one of these licenses.", 180)]
    customers_with_address: Annotated[int, about("Customers of these licenses with an e-mail address.", 90)]
    without_customer: Annotated[int, about("The number of these licenses without a customer.", 3)]


def preview(tx: ReadTransaction, product_id: int | None, now: datetime) -> FilesPreview:
    """Count the licenses of a product, or all. Slow for very many licenses."""
    is_meant = () if product_id is None else (_COLUMNS.product_id == product_id,)
    is_good = and_(
        _COLUMNS.status.not_in((Status.DISABLED.value, Status.INACTIVE.value)),
        or_(_COLUMNS.expires_at.is_(None), _COLUMNS.expires_at > to_seconds(now)),
    )
    counts = select(
        func.count(),
        func.count(case((is_good, 1))),
        func.count(distinct(case((is_good, customers.c.id)))),
        func.count(case((and_(is_good, _COLUMNS.customer_id.is_(None)), 1))),
    )
    owned = counts.select_from(licenses.outerjoin(customers, _HAS_ADDRESS)).where(*is_meant)
    places = licenses.join(activations, _places.license_id == _COLUMNS.id)
    held = select(func.count()).select_from(places).where(*is_meant, is_good, _HOLDS_PLACE)
    total, licenses_, customers_, without = tx.connection.execute(owned).one()
    return FilesPreview(total, licenses_, tx.connection.execute(held).scalar_one(), customers_, without)


def list_license_ids(
    tx: ReadTransaction, product_id: int | None, *, after_id: int, last_id: int, limit: int
) -> Sequence[int]:
    """The next license IDs of a product, or of all products, in ascending order."""
    query = select(_COLUMNS.id).where(_COLUMNS.id > after_id, _COLUMNS.id <= last_id)
    if product_id is not None:
        query = query.where(_COLUMNS.product_id == product_id)
    return tx.connection.execute(query.order_by(_COLUMNS.id).limit(limit)).scalars().all()


def list_devices(
    tx: ReadTransaction, license_id: int, *, after_device: int, limit: int
) -> list[tuple[int, str]]:
    """The IDs and tokens of the next devices that hold a place on a license."""
    values = {"license_id": license_id, "after_device": after_device, "most": limit}
    return [(row.id, row.token) for row in tx.connection.execute(_DEVICES, values)]


def list_owners(tx: ReadTransaction, *, after_id: int, limit: int) -> list[int]:
    """The next customers who own a license."""
    query = select(_COLUMNS.customer_id).distinct().where(_COLUMNS.customer_id > after_id)
    return list(tx.connection.execute(query.order_by(_COLUMNS.customer_id).limit(limit)).scalars())


def list_parts_of(tx: ReadTransaction, job_id: int, customer_ids: Collection[int]) -> list[Any]:
    """The parts of a job's file with licenses of these customers: ``customer_id``, ``number``, ``size`` in
    bytes, ``has_address``.
    """
    rows = _PARTS_OF.find_rows(tx.connection, customer_ids, job_id=job_id) if customer_ids else []
    return sorted(set(rows))


def find_parts(tx: ReadTransaction, job_id: int, numbers: Collection[int]) -> list[bytes]:
    """The existing ones of these parts of a job's file, in ascending order."""
    rows = sorted(set(_PARTS.find_rows(tx.connection, numbers, job_id=job_id)))
    return [tx.key_ring.unseal(sealed, chunk_associated_data(job_id, number)) for number, sealed in rows]
