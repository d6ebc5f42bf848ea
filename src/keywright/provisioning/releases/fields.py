"""The fields of a release and of its files that can be set."""

import re
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from keywright.core.fields import Fields, Id, Metadata, Parse, about
from keywright.core.file_signatures import MAX_SIGNATURE
from keywright.core.nouns import ListQuery
from keywright.licensing.updates.model import FileKind, ReleaseState, Rollout
from keywright.licensing.updates.versions import MAX_VERSION, VersionScheme, version_key
from keywright.provisioning.products import parse_feature_code, parse_url

MAX_NAME, MAX_NOTES, _MAX_REQUIRES = 200, 20_000, 20
_WORD = re.compile(r"[a-z0-9][a-z0-9_.-]{0,31}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@()~ -]*")
_HEX = re.compile(r"[0-9a-f]{64}")
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*")


def parse_file_name(name: str) -> str:
    """Check the name of a file, without a path. Raises ``ValueError``."""
    if not _NAME.fullmatch(name) or name.endswith((".", " ")):
        raise ValueError("must be a file name of letters, digits, spaces and . _ + @ ( ) ~ -")
    return name


#: The kinds of files by their names, as update frameworks and their build tools name them.
_KINDS = (
    (FileKind.FEED, r".*\.(ya?ml|xml|json)|releases(-.*)?"),
    (FileKind.BLOCKMAP, r".*\.blockmap"),
    (FileKind.SIGNATURE, r".*\.(sig|minisig|asc|signature)"),
    (FileKind.DELTA, r".*(\.delta|-delta\.nupkg)"),
    (FileKind.ARCHIVE, r".*\.(nupkg|zip|7z|tgz|txz|tar|gz|xz|bz2|zst)"),
)


def kind_of(name: str) -> FileKind:
    """Return the kind of a file by its name (``latest.yml`` is a feed); by default, an installer."""
    found = (kind for kind, pattern in _KINDS if re.fullmatch(pattern, name.lower()))
    return next(found, FileKind.INSTALLER)


def parse_word(word: str) -> str:
    """Parse the name of a platform or a processor, in lower case. Raises ``ValueError``."""
    if not _WORD.fullmatch(word.lower()):
        raise ValueError("must be a word such as windows or x86_64")
    return word.lower()


def parse_sha256(digest: str) -> str:
    """Parse hex digits, in lower case. Raises ``ValueError``."""
    if not _HEX.fullmatch(digest.lower()):
        raise ValueError("must be the 64 hex digits of a SHA-256")
    return digest.lower()


def _parse_type(text: str) -> str:
    if not _TYPE.fullmatch(text.lower()):
        raise ValueError("must be a media type such as application/zip")
    return text.lower()


def _parse_vendor_url(url: str) -> str:
    """Check a URL of the vendor's, to which downloads are redirected; the server never requests it itself."""
    parse_url(url)
    is_plain = url.isascii() and url.startswith("https://") and "@" not in url.split("/")[2]
    if not is_plain or "#" in url or "\\" in url:
        raise ValueError("must be an address such as https://example.com/paint.msi, without a user or a #")
    return url


def _check_requires(requires: dict[str, str]) -> dict[str, str]:
    for name, version in requires.items():
        parse_word(name)
        version_key(VersionScheme.LOOSE, version)
    return requires


Version = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_VERSION),
    about("Its version; no two versions may rank equal.", "3.2.1"),
]
_Channel = Annotated[
    str,
    Meta(max_length=64),
    Parse(parse_feature_code),
    about("`stable`, or a channel of the product.", "stable"),
]
_Code = Annotated[str, Meta(max_length=64), Parse(parse_feature_code)]
_REQUIRES = (
    "The minimum versions of what it runs on: `php`, `wp`, and `os` or a platform, which are compared "
    "with the `os_version` that a program sends. What a program does not send is not checked."
)


class ReleaseFields(Fields):
    """The fields of a release that can be set; a change is a JSON merge patch."""

    version: Version | UnsetType = UNSET
    channel: _Channel | UnsetType = UNSET
    notes: (
        Annotated[str, Meta(max_length=MAX_NOTES), about("What is new, as Markdown.", "Faster exports.")]
        | UnsetType
        | None
    ) = UNSET
    is_critical: (
        Annotated[bool, about("Whether it is offered to all devices at once, without a rollout.")] | UnsetType
    ) = UNSET
    is_free_for_expired: (
        Annotated[bool, about("A security fix, also offered to licenses that cover only older versions.")]
        | UnsetType
    ) = UNSET
    entitlements: (
        Annotated[
            list[_Code], Meta(max_length=100), about("The features that a license must include.", ["pro"])
        ]
        | UnsetType
    ) = UNSET
    min_from_version: (
        Annotated[Version, about("The oldest version that can be updated to it.")] | UnsetType | None
    ) = UNSET
    requires: (
        Annotated[
            dict[str, str],
            Meta(max_length=_MAX_REQUIRES),
            Parse(_check_requires),
            about(_REQUIRES, {"os": "12.0"}),
        ]
        | UnsetType
    ) = UNSET
    rollout: (
        Annotated[Rollout, about("How many devices it is offered to; it cannot decrease.")] | UnsetType
    ) = UNSET
    metadata: Metadata | UnsetType | None = UNSET


class NewRelease(ReleaseFields, kw_only=True):
    """A release to make."""

    product_id: Annotated[Id, about("The product.", 17)]
    version: Version


class ReleaseQuery(ListQuery):
    """Filters of releases."""

    product_id: Annotated[Id | None, about("Only releases of this product.")] = None
    version: Annotated[str | None, about("Only releases of this version.")] = None
    channel: Annotated[str | None, about("Only releases of this channel.")] = None
    state: Annotated[ReleaseState | None, about("Only releases in this state.")] = None
    sort: Literal["-created_at", "created_at"] = "-created_at"


class NewFile(Fields):
    """A file of a release. With a `url`, where the vendor hosts it, `size` and `sha256` are required; without
    one, its bytes are uploaded.
    """

    name: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_NAME),
        Parse(parse_file_name),
        about("Its name, without a path; unique in the release.", "paint-3.2.1.msi"),
    ]
    kind: Annotated[FileKind, about("Its kind.", "installer")] = FileKind.INSTALLER
    platform: (
        Annotated[
            str,
            Meta(max_length=32),
            Parse(parse_word),
            about("Its operating system; without it, any.", "windows"),
        ]
        | None
    ) = None
    arch: (
        Annotated[
            str, Meta(max_length=32), Parse(parse_word), about("Its processor; without it, any.", "x86_64")
        ]
        | None
    ) = None
    content_type: (
        Annotated[
            str, Meta(max_length=100), Parse(_parse_type), about("Its media type.", "application/x-msi")
        ]
        | None
    ) = None
    signature: (
        Annotated[
            str,
            Meta(min_length=1, max_length=MAX_SIGNATURE),
            about("Your signature of the file: Ed25519 in base64, or the output of minisign."),
        ]
        | None
    ) = None
    url: (
        Annotated[
            str,
            Meta(max_length=2000),
            Parse(_parse_vendor_url),
            about("Its public https URL on your server, to which downloads are redirected.", None),
        ]
        | None
    ) = None
    size: Annotated[int, Meta(ge=1, le=2**53 - 1), about("Its size in bytes.", None)] | None = None
    sha256: (
        Annotated[
            str,
            Meta(max_length=64),
            Parse(parse_sha256),
            about("The SHA-256 of the file, in hex digits.", None),
        ]
        | None
    ) = None
