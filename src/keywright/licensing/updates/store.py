"""Database queries for releases, their files, and update tokens."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import delete, func, select, update

from keywright.db.bulk import Lookup, Values, bulk_delete
from keywright.db.rows import Records, to_columns, to_seconds, with_datetimes
from keywright.db.schema import notices, products, release_counts, release_files, releases, update_tokens
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.activations import store as activation_store
from keywright.licensing.licenses import store as license_store
from keywright.licensing.updates import model
from keywright.licensing.updates.notices import Notice, NoticeState, order_notices
from keywright.licensing.updates.rules import Subject
from keywright.licensing.updates.versions import VersionScheme, find_key

RELEASES = Records(releases, model.Release, "product_id")
FILES = Records(release_files, model.ReleaseFile)
NOTICES = Records(notices, Notice, "product_id")

_OF_PRODUCTS = Lookup(RELEASES.all.where(releases.c.rank.is_not(None)), releases.c.product_id)
_TOKENS = Lookup(
    select(*(update_tokens.c[name] for name in ("token_hash", "license_id", "activation_id", "ends_at"))),
    update_tokens.c.token_hash,
)
_FILES_OF = Lookup(FILES.all, release_files.c.release_id)
_IS_PUBLISHED = notices.c.state == NoticeState.PUBLISHED.value
_NOTICES_OF = Lookup(NOTICES.all.where(_IS_PUBLISHED), notices.c.product_id)


def load_releases(
    tx: ReadTransaction, schemes: Iterable[tuple[int, VersionScheme]]
) -> dict[int, model.ProductReleases]:
    """Return the published releases of these products, by product, with their files, and the published
    notices.
    """
    wanted = dict(schemes)
    found = [RELEASES.of_row(row) for row in _OF_PRODUCTS.find_rows(tx.connection, wanted)]
    files = list_files(tx, [one.id for one in found if one.state is model.ReleaseState.PUBLISHED])
    by_product: dict[int, list[model.Known]] = {number: [] for number in wanted}
    for one in found:
        known = _to_known(one, wanted[one.product_id], files.get(one.id, ()))
        by_product[one.product_id].append(known)
    about: dict[int, list[Notice]] = {number: [] for number in wanted}
    for row in _NOTICES_OF.find_rows(tx.connection, wanted):
        about[row.product_id].append(NOTICES.of_row(row))
    return {
        number: replace(order_releases(some), notices=order_notices(wanted[number], about[number]))
        for number, some in by_product.items()
    }


def to_known(tx: ReadTransaction, release: model.Release, scheme: VersionScheme) -> model.Known:
    """Return a release with its files."""
    return _to_known(release, scheme, list_files(tx, [release.id]).get(release.id, ()))


def _to_known(
    release: model.Release, scheme: VersionScheme, files: Sequence[model.ReleaseFile]
) -> model.Known:
    offered = tuple(one for one in files if one.kind in model.INSTALLED)
    others = tuple(one for one in files if one.kind not in model.INSTALLED)
    return model.Known(release, find_key(scheme, release.version) or (), offered, others)


def order_releases(found: Iterable[model.Known]) -> model.ProductReleases:
    """Order these releases of a product, newest first."""
    ordered = tuple(sorted(found, key=lambda one: -one.rank))
    by_file: dict[str, list[tuple[model.Known, model.ReleaseFile]]] = {}
    for one in ordered:
        for file in (*one.files, *one.others):
            by_file.setdefault(file.name.lower(), []).append((one, file))
    return model.ProductReleases(ordered, {one.release.version: one for one in ordered}, by_file)


def list_files(tx: ReadTransaction, release_ids: Collection[int]) -> dict[int, list[model.ReleaseFile]]:
    """Return the files of these releases, by release, ordered by name."""
    by_release: dict[int, list[model.ReleaseFile]] = {}
    for row in _FILES_OF.find_rows(tx.connection, release_ids):
        by_release.setdefault(row.release_id, []).append(FILES.of_row(row))
    return {number: sorted(some, key=lambda one: one.name) for number, some in by_release.items()}


def find_release(tx: ReadTransaction, product_id: int, version: str) -> model.Release | None:
    """Return the release of this version of a product."""
    query = RELEASES.all.where(releases.c.product_id == product_id, releases.c.version == version)
    return tx.first(query, RELEASES.of_row)


def find_file(tx: ReadTransaction, release_id: int, name: str) -> model.ReleaseFile | None:
    """Return the file with this name in a release."""
    query = FILES.all.where(release_files.c.release_id == release_id, release_files.c.name == name)
    return tx.first(query, FILES.of_row)


def count_releases(tx: ReadTransaction, product_id: int) -> int:
    """Count the releases of a product."""
    query = select(func.count()).select_from(releases).where(releases.c.product_id == product_id)
    return int(tx.connection.execute(query).scalar_one())


def has_releases(tx: ReadTransaction, product_id: int) -> bool:
    """Whether a product has releases."""
    query = select(releases.c.id).where(releases.c.product_id == product_id).limit(1)
    return tx.connection.execute(query).first() is not None


def lock_product(tx: WriteTransaction, product_id: int) -> None:
    """Lock a product, so that one release of it is published at a time."""
    tx.connection.execute(select(products.c.id).where(products.c.id == product_id).with_for_update())


def list_ranked(tx: ReadTransaction, product_id: int) -> Sequence[Any]:
    """Return version, channel and rank of the published releases of a product, oldest first."""
    columns = (releases.c.version, releases.c.channel, releases.c.rank)
    query = select(*columns).where(releases.c.product_id == product_id, releases.c.rank.is_not(None))
    return tx.connection.execute(query.order_by(releases.c.rank)).all()


def shift_ranks(tx: WriteTransaction, product_id: int, from_rank: int) -> None:
    """Make room at a rank in the order of a product's versions."""
    those = (releases.c.product_id == product_id, releases.c.rank >= from_rank)
    tx.connection.execute(update(releases).where(*those).values(rank=releases.c.rank + 1))


def has_notices(tx: ReadTransaction, product_id: int) -> bool:
    """Whether a product has notices."""
    query = select(notices.c.id).where(notices.c.product_id == product_id).limit(1)
    return tx.connection.execute(query).first() is not None


def list_newest_notices(tx: ReadTransaction, product_id: int, limit: int) -> list[Notice]:
    """Return the newest notices of a product."""
    query = NOTICES.all.where(notices.c.product_id == product_id).order_by(notices.c.id.desc()).limit(limit)
    return [NOTICES.of_row(row) for row in tx.connection.execute(query)]


def count_published(tx: ReadTransaction, product_id: int) -> int:
    """Count the published notices of a product."""
    those = (notices.c.product_id == product_id, _IS_PUBLISHED)
    return int(tx.connection.execute(select(func.count()).select_from(notices).where(*those)).scalar_one())


def note_change(tx: WriteTransaction, product_id: int) -> None:
    """Note that a product's releases on offer or its notices have changed: servers reload them."""
    count = func.coalesce(products.c.releases_changed, 0) + 1
    tx.connection.execute(update(products).where(products.c.id == product_id).values(releases_changed=count))


def hash_token(token: str) -> bytes:
    """Return the hash by which an update token is looked up; the case of the token does not matter."""
    return hashlib.sha256(token.lower().encode(errors="surrogatepass")).digest()


def find_holders_of(tx: ReadTransaction, tokens: Mapping[str, datetime]) -> dict[str, Subject]:
    """Return the holders of these update tokens, by token; a token must not have ended at its moment."""
    by_hash = {hash_token(one): one for one in tokens}
    rows = {
        by_hash[row.token_hash]: row
        for row in _TOKENS.find_rows(tx.connection, by_hash)
        if row.ends_at is None or row.ends_at > to_seconds(tokens[by_hash[row.token_hash]])
    }
    licenses = (
        license_store.find_licenses_by_id(tx, {row.license_id for row in rows.values()}) if rows else {}
    )
    named = {(row.license_id, row.activation_id) for row in rows.values() if row.activation_id is not None}
    found = activation_store.find_by_id(tx, named) if named else []
    devices = {(one.license_id, one.id): one for one in found}
    return {
        token: Subject(
            licenses[row.license_id],
            devices.get((row.license_id, row.activation_id)),
            needs_place=row.activation_id is not None,
        )
        for token, row in rows.items()
        if row.license_id in licenses
    }


def list_tokens(tx: ReadTransaction, license_id: int) -> list[Values]:
    """Return the tokens of a license without their hashes, oldest first."""
    names = ("id", "license_id", "activation_id", "prefix", "created_at", "ends_at")
    query = select(*(update_tokens.c[name] for name in names)).where(update_tokens.c.license_id == license_id)
    return [with_datetimes(row) for row in tx.connection.execute(query.order_by(update_tokens.c.id))]


def save_new_token(tx: WriteTransaction, token: Struct, text: str) -> int:
    """Insert a token with this text; returns its ID."""
    return tx.insert(update_tokens, to_columns(token) | {"token_hash": hash_token(text)})


def delete_tokens(tx: WriteTransaction, ids: Collection[int]) -> None:
    """Delete these tokens."""
    if ids:
        tx.connection.execute(delete(update_tokens).where(update_tokens.c.id.in_(ids)))


def limit_tokens(tx: WriteTransaction, ids: Collection[int], until: datetime) -> None:
    """Let these tokens end at this moment, unless they end earlier."""
    those = (update_tokens.c.id.in_(ids), func.coalesce(update_tokens.c.ends_at, 2**62) > to_seconds(until))
    if ids:
        tx.connection.execute(update(update_tokens).where(*those).values(ends_at=to_seconds(until)))


_END_TOKENS = bulk_delete(update_tokens, "license_id")


def end_tokens(tx: WriteTransaction, license_ids: Iterable[int]) -> None:
    """Delete the tokens of these licenses."""
    _END_TOKENS.execute(tx.connection, [{"where_license_id": one} for one in license_ids])


def list_uses(tx: ReadTransaction, release_id: int, since_day: int) -> list[model.UsesOfDay]:
    """Return the daily counts of a release since a day (days since 1970), oldest first."""
    counts = release_counts.c
    query = select(counts.day, counts.checks, counts.offers, counts.downloads)
    query = query.where(counts.release_id == release_id, counts.day >= since_day).order_by(counts.day)
    return [model.UsesOfDay(*row) for row in tx.connection.execute(query)]


def delete_files(tx: WriteTransaction, release_id: int) -> None:
    """Delete the files of a release and its counts."""
    tx.connection.execute(delete(release_files).where(release_files.c.release_id == release_id))
    tx.connection.execute(delete(release_counts).where(release_counts.c.release_id == release_id))


def list_stored_files(tx: ReadTransaction) -> list[model.ReleaseFile]:
    """Return every file whose bytes are in the folder of files."""
    return [
        FILES.of_row(row) for row in tx.connection.execute(FILES.all.where(release_files.c.stored_at > 0))
    ]
