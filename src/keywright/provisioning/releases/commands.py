"""Commands and queries about releases and their files."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct, field

from keywright.core.command import Command, Cost, Query
from keywright.core.nouns import Create, Delete, Get, List, Noun, Update
from keywright.licensing.updates.model import Release, ReleaseFile
from keywright.provisioning.releases.fields import NewFile, NewRelease, ReleaseFields, ReleaseQuery


class CreateRelease(Create, frozen=True, kw_only=True):
    """Make a draft release."""

    fields: NewRelease


class UpdateRelease(Update, frozen=True, kw_only=True):
    """Change a release."""

    fields: ReleaseFields


class DeleteRelease(Delete, frozen=True, kw_only=True):
    """Delete a release that is not published, with its files."""


class GetRelease(Get, frozen=True, kw_only=True):
    """The release with this ID."""


class ListReleases(List, frozen=True, kw_only=True):
    """A page of the matching releases."""

    where: ReleaseQuery = field(default_factory=ReleaseQuery)


RELEASE = Noun(
    *("release", Release, ReleaseFields, NewRelease, ReleaseQuery),
    *(CreateRelease, UpdateRelease, DeleteRelease, GetRelease, ListReleases),
    product_column="product_id",
)


class _OfRelease(Command, frozen=True, kw_only=True):
    """A command about one release."""

    release_id: int
    only_product_id: int | None = None


class _OfFile(Command, frozen=True, kw_only=True):
    """A command about one file."""

    file_id: int
    only_product_id: int | None = None


class AddFile(_OfRelease, frozen=True, kw_only=True):
    """Add a file to a draft; its bytes are uploaded later, or hosted by the vendor."""

    fields: NewFile


class DeleteFile(_OfFile, frozen=True, kw_only=True):
    """Remove a file from a draft."""


class Digests(Struct, frozen=True):
    """The digests of the bytes of a file: in hex, but ``sha512`` in base64."""

    size: int
    sha256: str
    sha512: str
    sha1: str
    md5: str


class StoreContent(_OfFile, frozen=True, kw_only=True):
    """Record that the bytes of a draft's file are in the folder of files."""

    digests: Digests


class PublishRelease(_OfRelease, frozen=True, kw_only=True):
    """Publish a release. ``checked`` are the files whose bytes and signatures were verified; a version older
    than the newest of its channel needs ``allow_older``.
    """

    cost = Cost.ALONE

    checked: Sequence[ReleaseFile]
    released_at: datetime | None = None
    allow_older: bool = False


class YankRelease(_OfRelease, frozen=True, kw_only=True):
    """Withdraw a published release, and end its downloads."""


class GetFile(Query, frozen=True, kw_only=True):
    """The file with this ID, and its release."""

    file_id: int
    only_product_id: int | None = None


class ListFiles(Query, frozen=True, kw_only=True):
    """The release with this ID, the public keys of its product, and its files."""

    release_id: int
    only_product_id: int | None = None


class ListUses(Query, frozen=True, kw_only=True):
    """The daily counts of a release, for so many days up to today."""

    release_id: int
    now: datetime
    days: int
    only_product_id: int | None = None


class ReleaseWithFiles(Struct, frozen=True):
    """A release, its files by name, and the public keys of its product."""

    release: Release
    files: tuple[ReleaseFile, ...]
    public_keys: tuple[str, ...]
