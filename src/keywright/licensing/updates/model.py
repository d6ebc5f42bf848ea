"""Releases and their files."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, field

from keywright.core.fields import Id, Time, about
from keywright.core.nouns import CreatedAt, Kept, UpdatedAt
from keywright.licensing.updates.notices import KnownNotice

#: The channel of every product, and the most stable one.
STABLE = "stable"
_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class Updates(StrEnum):
    """Who gets the updates of a product: licenses that cover them, everyone, or no one."""

    LICENSED = "licensed"
    OPEN = "open"
    CLOSED = "closed"


class ReleaseState(StrEnum):
    """The state of a release: a draft until it is published; a yanked release is no longer offered."""

    DRAFT = "draft"
    PUBLISHED = "published"
    YANKED = "yanked"


class FileKind(StrEnum):
    """The kind of a file of a release; programs install installers and archives."""

    INSTALLER = "installer"
    ARCHIVE = "archive"
    DELTA = "delta"
    BLOCKMAP = "blockmap"
    FEED = "feed"
    SIGNATURE = "signature"


#: The kinds of files that are offered.
INSTALLED = (FileKind.INSTALLER, FileKind.ARCHIVE)


class Storage(StrEnum):
    """Where the bytes of a file are: on this server, or at a URL of the vendor."""

    LOCAL = "local"
    URL = "url"


class Rollout(Struct, frozen=True, forbid_unknown_fields=True):
    """The share of devices that are offered a release."""

    percent: Annotated[int, Meta(ge=0, le=100), about("The percentage of devices.", 100)] = 100


class Release(Struct, frozen=True, kw_only=True):
    """A version of a product."""

    id: Annotated[Id, about("Its ID.", 12)]
    product_id: Annotated[Id, about("The product.", 17)]
    version: Annotated[str, about("Its version; no two versions of a product rank equal.", "3.2.1")]
    channel: Annotated[str, about("Its channel.", STABLE)] = STABLE
    state: Annotated[ReleaseState, about("Its state; only published releases are offered.", "published")] = (
        ReleaseState.DRAFT
    )
    rank: Annotated[
        int | None, about("Its position in the order of versions, set when it is published.", 41)
    ] = None
    released_at: Annotated[Time | None, about("When it was published.", "2026-11-22T08:54:00Z")] = None
    notes: Annotated[str | None, about("What is new, as Markdown.", "Faster exports.")] = None
    is_critical: Annotated[
        bool, about("Whether it is offered to all devices at once, without a rollout.", False)
    ] = False
    is_free_for_expired: Annotated[
        bool, about("Whether it is also offered to licenses that cover only older versions.", False)
    ] = False
    entitlements: Annotated[list[str], about("The features that a license must include.", [])]
    min_from_version: Annotated[str | None, about("The oldest version that can be updated to it.", None)] = (
        None
    )
    requires: Annotated[dict[str, str], about("The minimum versions of what it runs on.", {"os": "12.0"})]
    rollout: Rollout = Rollout()
    metadata: Kept
    created_at: CreatedAt
    updated_at: UpdatedAt


class ReleaseFile(Struct, frozen=True, kw_only=True):
    """A file of a release, with the digests of its bytes, or until their upload, the expected ones."""

    id: Annotated[Id, about("Its ID.", 31)]
    release_id: Annotated[Id, about("The release.", 12)]
    name: Annotated[str, about("Its name; unique in the release.", "paint-3.2.1.msi")]
    kind: Annotated[FileKind, about("Its kind.", "installer")]
    platform: Annotated[str | None, about("The operating system; null for any.", "windows")]
    arch: Annotated[str | None, about("The processor; null for any.", "x86_64")]
    content_type: Annotated[str | None, about("Its media type.", "application/x-msi")]
    signature: Annotated[str | None, about("Your signature of the file.", None)]
    url: Annotated[str | None, about("Its URL on your server; null if Keywright stores the file.", None)]
    size: Annotated[int | None, about("Its size in bytes.", 104857600)]
    sha256: Annotated[str | None, about("In hex digits.", _SHA256)]
    sha512: Annotated[str | None, about("Base64.", None)] = None
    sha1: Annotated[str | None, about("In hex digits.", None)] = None
    md5: Annotated[str | None, about("In hex digits.", None)] = None
    stored_at: Annotated[Time | None, about("When it was uploaded; null before that.", None)] = None
    created_at: CreatedAt
    updated_at: UpdatedAt

    @property
    def storage(self) -> Storage:
        """Where its bytes are."""
        return Storage.LOCAL if self.url is None else Storage.URL

    @property
    def is_there(self) -> bool:
        """Whether its bytes can be downloaded."""
        return self.url is not None or self.stored_at is not None


class UsesOfDay(NamedTuple):
    """The use of a release on a day (days since 1970): how often programs that have it checked for updates,
    how often it was offered, and how often it was downloaded.
    """

    day: int
    checks: int
    offers: int
    downloads: int


class Known(Struct, frozen=True, gc=False):
    """A published release, with the sort key of its version, the files that are offered, and its other files,
    such as feeds.
    """

    release: Release
    key: tuple[Any, ...]
    files: tuple[ReleaseFile, ...] = ()
    others: tuple[ReleaseFile, ...] = ()

    @property
    def rank(self) -> int:
        """Its position in the order of versions."""
        return self.release.rank or 0


class ProductReleases(Struct, frozen=True, gc=False):
    """What a product offers: its published releases, newest first, and its published notices, most severe
    first. File names are in lower case.
    """

    releases: tuple[Known, ...] = ()
    by_version: dict[str, Known] = field(default_factory=dict)
    by_file: dict[str, list[tuple[Known, ReleaseFile]]] = field(default_factory=dict)
    notices: tuple[KnownNotice, ...] = ()

    def find(self, version: str | None) -> Known | None:
        """Return the release of this version; None if there is none."""
        return None if version is None else self.by_version.get(version)

    def released_at(self, version: str | None) -> datetime | None:
        """Return when this version was published; None if it was not."""
        known = self.find(version)
        return None if known is None else known.release.released_at
