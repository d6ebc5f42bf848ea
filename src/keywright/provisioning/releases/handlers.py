"""The handlers of the commands and queries about releases and their files."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict, replace

from keywright.core import errors as e
from keywright.core.command import Command, Query
from keywright.events import nouns
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.updates import store
from keywright.licensing.updates.model import STABLE, Release, ReleaseFile, ReleaseState, UsesOfDay
from keywright.licensing.updates.store import FILES, RELEASES
from keywright.licensing.updates.versions import version_key
from keywright.provisioning.products import Product
from keywright.provisioning.releases import commands
from keywright.provisioning.releases.files import require_same
from keywright.provisioning.store import PRODUCTS

#: The largest number of releases of a product, all of which a program's update check reads; and of files.
MAX_RELEASES, MAX_FILES = 1_000, 100


def check(work: UnitOfWork, before: Release | None, after: Release) -> Release:
    """Check the version and channel against the product. Of a published release, both are fixed, and the
    rollout can only grow. Raises ``UnknownReference``, ``InvalidRelease``, ``AlreadyExists`` and
    ``StillInUse``.
    """
    product = PRODUCTS.find(work.tx, after.product_id)
    if product is None:
        raise e.UnknownReference(f"product {after.product_id}", "/product_id")
    _check_values(product, after)
    other = store.find_release(work.tx, product.id, after.version)
    if other is not None and other.id != after.id:
        raise e.AlreadyExists("release", "version")
    if before is None:
        if store.count_releases(work.tx, product.id) >= MAX_RELEASES:
            raise e.StillInUse(f"product {product.id}", f"{MAX_RELEASES:,} releases")
        return after
    if before.state is not ReleaseState.DRAFT:
        _require_fixed(before, after)
        store.note_change(work.tx, product.id)
    return after


def _check_values(product: Product, release: Release) -> None:
    errors = []
    for name in ("version", "min_from_version"):
        try:
            version = getattr(release, name)
            if version is not None:
                version_key(product.version_scheme, version)
        except ValueError as reason:
            errors.append(e.FieldError(f"/{name}", "invalid", str(reason)))
    if release.channel not in (STABLE, *product.channels):
        detail = f"must be {' or '.join([STABLE, *product.channels])}, the channels of the product"
        errors.append(e.FieldError("/channel", "unknown", detail))
    if errors:
        raise e.InvalidRelease(tuple(errors))


def _require_fixed(before: Release, after: Release) -> None:
    errors = [
        e.FieldError(f"/{name}", "invalid", "cannot be changed after the release was published")
        for name in ("version", "channel")
        if getattr(before, name) != getattr(after, name)
    ]
    if after.rollout.percent < before.rollout.percent:
        detail = f"must not decrease: it is {before.rollout.percent}"
        errors.append(e.FieldError("/rollout/percent", "too_small", detail))
    if errors:
        raise e.InvalidRelease(tuple(errors))


def may_delete(work: UnitOfWork, release: Release) -> None:
    """Delete the release's files. Raises ``StillInUse`` if it is published; it must be yanked first."""
    if release.state is ReleaseState.PUBLISHED:
        raise e.StillInUse(f"release {release.id}", "customers")
    store.delete_files(work.tx, release.id)
    if release.rank is not None:
        store.note_change(work.tx, release.product_id)


def _details(release: Release) -> dict[str, Any]:
    return {
        "release_id": release.id,
        "product_id": release.product_id,
        "version": release.version,
        "channel": release.channel,
    }


RULES = nouns.Rules(
    *(commands.RELEASE, RELEASES, None, check, may_delete, _details), unshown=("notes", "metadata")
)


def publish(work: UnitOfWork, command: commands.PublishRelease) -> Release:
    """Publish a release; nothing changes if it is published already. Raises ``NotFound``, ``ReleaseNotReady``
    and ``InvalidRelease``.
    """
    release = _lock(work, command.release_id, command.only_product_id)
    if release.state is ReleaseState.PUBLISHED:
        return release
    if release.state is ReleaseState.YANKED:
        raise e.ReleaseNotReady("it was yanked and cannot be published again; publish a newer version")
    product = PRODUCTS.find(work.tx, release.product_id)
    assert product is not None  # noqa: S101
    store.lock_product(work.tx, product.id)
    files = store.list_files(work.tx, [release.id]).get(release.id, [])
    if list(command.checked) != files:
        raise e.ReleaseNotReady("its files were changed in the meantime; publish it again")
    now = command.context.now
    if command.released_at is not None and command.released_at > now:
        error = e.FieldError("/released_at", "too_large", "must not be in the future")
        raise e.InvalidRelease((error,))
    rank = _find_rank(work, product, release, allow_older=command.allow_older)
    released_at = command.released_at or now
    return _save(work, command, release, "published", rank=rank, released_at=released_at)


def _find_rank(work: UnitOfWork, product: Product, release: Release, *, allow_older: bool) -> int:
    """Return a free rank for a version, in the order of versions. Raises ``ReleaseNotReady``."""
    scheme = product.version_scheme
    key, ranked = version_key(scheme, release.version), store.list_ranked(work.tx, product.id)
    keys = [version_key(scheme, one.version) for one in ranked]
    place = bisect_left(keys, key)
    if place < len(keys) and keys[place] == key:
        raise e.ReleaseNotReady(f"version {ranked[place].version} ranks equally")
    newer = next((one for one in ranked[place:] if one.channel == release.channel), None)
    if newer is not None and not allow_older:
        raise e.ReleaseNotReady(
            f"version {newer.version} of the channel {release.channel} is newer; allow_older publishes it "
            "anyway"
        )
    if place == len(ranked):
        return int(ranked[-1].rank) + 1 if ranked else 1
    rank = int(ranked[place].rank)
    store.shift_ranks(work.tx, product.id, rank)
    return rank


def yank(work: UnitOfWork, command: commands.YankRelease) -> Release:
    """Withdraw a published release. Raises ``NotFound``, and ``ReleaseNotReady`` for a draft."""
    release = _lock(work, command.release_id, command.only_product_id)
    if release.state is ReleaseState.YANKED:
        return release
    if release.state is ReleaseState.DRAFT:
        raise e.ReleaseNotReady("it was not published")
    return _save(work, command, release, "yanked")


def _save(work: UnitOfWork, command: Command, release: Release, state: str, **changes: Any) -> Release:
    saved = replace(release, state=ReleaseState(state), updated_at=command.context.now, **changes)
    RELEASES.update(work.tx, saved)
    store.note_change(work.tx, release.product_id)
    work.record_event(f"release.{state}", command, _details(saved))
    return saved


def add_file(work: UnitOfWork, command: commands.AddFile) -> ReleaseFile:
    """Add a file to a draft. Raises ``NotFound``, ``AlreadyExists``, ``ReleaseNotReady`` and
    ``InvalidRelease``.
    """
    release, fields = _lock_draft(work, command.release_id, command.only_product_id), command.fields
    if fields.url is not None and (fields.size is None or fields.sha256 is None):
        missing = [name for name in ("size", "sha256") if getattr(fields, name) is None]
        raise e.InvalidRelease(
            tuple(e.FieldError(f"/{one}", "missing", "is missing: a url requires it") for one in missing)
        )
    if store.find_file(work.tx, release.id, fields.name) is not None:
        raise e.AlreadyExists("file", "name")
    if len(store.list_files(work.tx, [release.id]).get(release.id, ())) >= MAX_FILES:
        raise e.StillInUse(f"release {release.id}", f"{MAX_FILES} files")
    now = command.context.now
    file = ReleaseFile(id=0, release_id=release.id, **asdict(fields), created_at=now, updated_at=now)
    file = replace(file, id=FILES.insert_new(work.tx, file))
    _record_file(work, command, release, file)
    return file


def delete_file(work: UnitOfWork, command: commands.DeleteFile) -> None:
    """Remove a file from a draft. Raises ``NotFound``, ``ReleaseNotReady``."""
    release, file = _lock_file(work, command)
    FILES.delete(work.tx, file.id)
    _record_file(work, command, release, file)


def store_content(work: UnitOfWork, command: commands.StoreContent) -> ReleaseFile:
    """Record that the bytes of a file are stored; the same bytes again change nothing. Raises ``NotFound``,
    ``ReleaseNotReady`` and ``ContentMismatch``.
    """
    file = _find_file(work.tx, command.file_id, command.only_product_id)[1]
    if file.stored_at is not None:
        require_same(file, command.digests)
        return file
    release, file = _lock_file(work, command)
    require_uploadable(file)
    require_same(file, command.digests)
    now = command.context.now
    stored = replace(file, **asdict(command.digests), stored_at=now, updated_at=now)
    FILES.update(work.tx, stored)
    _record_file(work, command, release, stored)
    return stored


def require_uploadable(file: ReleaseFile) -> None:
    """Raise ``ReleaseNotReady`` for a file that the vendor hosts."""
    if file.url is not None:
        raise e.ReleaseNotReady(f"{file.name} is stored at its url, not here")


def _record_file(work: UnitOfWork, command: Command, release: Release, file: ReleaseFile) -> None:
    work.record_event("release.updated", command, _details(release) | {"file": file.name})


def _lock(work: UnitOfWork, release_id: int, only_product_id: int | None) -> Release:
    release = RELEASES.lock(work.tx, release_id)
    if release is None or only_product_id not in (None, release.product_id):
        raise e.NotFound(f"release {release_id}")
    return release


def _lock_draft(work: UnitOfWork, release_id: int, only_product_id: int | None) -> Release:
    release = _lock(work, release_id, only_product_id)
    if release.state is not ReleaseState.DRAFT:
        raise e.ReleaseNotReady("it was published, so its files cannot be changed")
    return release


def _lock_file(
    work: UnitOfWork, command: commands.DeleteFile | commands.StoreContent
) -> tuple[Release, ReleaseFile]:
    """Return a file and its draft, which is locked, so that it is not published at the same time."""
    found = _find_file(work.tx, command.file_id, command.only_product_id)[0]
    release = _lock_draft(work, found.id, command.only_product_id)
    return release, _find_file(work.tx, command.file_id, None)[1]


def _find_file(tx: Any, file_id: int, only_product_id: int | None) -> tuple[Release, ReleaseFile]:
    file = FILES.find(tx, file_id)
    release = None if file is None else RELEASES.find(tx, file.release_id)
    if file is None or release is None or only_product_id not in (None, release.product_id):
        raise e.NotFound(f"file {file_id}")
    return release, file


def get_file(read: Any, query: commands.GetFile) -> tuple[Release, ReleaseFile]:
    """Return a file, and its release. Raises ``NotFound``."""
    return _find_file(read.tx, query.file_id, query.only_product_id)


def list_files(read: Any, query: commands.ListFiles) -> commands.ReleaseWithFiles:
    """Return a release with its files. Raises ``NotFound``."""
    return find_with_files(read.tx, query.release_id, query.only_product_id)


def find_with_files(
    tx: Any, release_id: int, only_product_id: int | None = None
) -> commands.ReleaseWithFiles:
    """Return a release with its files. Raises ``NotFound``."""
    release = RELEASES.find(tx, release_id)
    if release is None or only_product_id not in (None, release.product_id):
        raise e.NotFound(f"release {release_id}")
    product = PRODUCTS.find(tx, release.product_id)
    files = store.list_files(tx, [release.id]).get(release.id, [])
    return commands.ReleaseWithFiles(release, tuple(files), tuple(product.public_keys if product else ()))


def list_uses(read: Any, query: commands.ListUses) -> list[UsesOfDay]:
    """List the daily counts of a release. Raises ``NotFound``."""
    release = RELEASES.find(read.tx, query.release_id)
    if release is None or query.only_product_id not in (None, release.product_id):
        raise e.NotFound(f"release {query.release_id}")
    today = int(query.now.timestamp()) // 86_400
    return store.list_uses(read.tx, release.id, today - query.days + 1)


HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = {
    **nouns.handlers_of(RULES),
    commands.PublishRelease: publish,
    commands.YankRelease: yank,
    commands.AddFile: add_file,
    commands.DeleteFile: delete_file,
    commands.StoreContent: store_content,
}
QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    **nouns.query_handlers_of(RULES),
    commands.GetFile: get_file,
    commands.ListFiles: list_files,
    commands.ListUses: list_uses,
}
