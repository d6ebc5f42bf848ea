"""Products: their fields, and the commands about them; names for IDs of the vendor's shop. Pure."""

import re
import unicodedata
from enum import StrEnum
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import UNSET, Meta, Struct, UnsetType, field

from keywright.core import nouns
from keywright.core.command import Command
from keywright.core.fields import ExternalId, Fields, Id, Metadata, Name, OwnId, Parse, Time, about
from keywright.core.file_signatures import parse_public_key
from keywright.core.parsing import parse_name
from keywright.licensing.updates.model import STABLE, Updates
from keywright.licensing.updates.versions import VersionScheme

_MAX_FEATURES, _MAX_LENGTH = 100, 64
_CODE_PATTERN = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


def parse_feature_code(code: str) -> str:
    """Check the code of a feature. Raises ``ValueError``."""
    if not _CODE_PATTERN.fullmatch(code):
        raise ValueError(
            f"must have 1 to {_MAX_LENGTH} of a-z, 0-9, '_', '.', '-', and begin with a letter or a digit"
        )
    return code


def parse_code(code: str) -> str:
    """Check the code of a product, which is never a number: programs name a product by its code or its ID.
    Raises ``ValueError``.
    """
    if code.isdigit():
        raise ValueError("must not be a number, which would be an ID")
    return parse_feature_code(code)


def derive_code(name: str) -> str | None:
    """Derive a code from a product's name; None if that leaves no usable code."""
    ascii_letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    code = re.sub(r"[^a-z0-9]+", "-", ascii_letters)[:_MAX_LENGTH].strip("-")
    return None if not code or code.isdigit() else code


def parse_url(url: str) -> str:
    """Check the URL of a web page. Raises ``ValueError``."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or not url.isprintable() or " " in url:
        raise ValueError("must be an address such as https://example.com")
    return url


_LongText = Annotated[str, Meta(min_length=1, max_length=2000)]


class Feature(Struct, frozen=True):
    """A feature that licenses of the product may entitle to."""

    code: Annotated[
        str,
        Meta(min_length=1, max_length=_MAX_LENGTH),
        Parse(parse_feature_code),
        about("The entitlement code.", "layers"),
    ]
    name: Annotated[Name, about("Its name.", "Layers")] | None = None
    description: Annotated[_LongText, about("What it does.", None)] | None = None

    def __str__(self) -> str:
        return self.code


class NewFeature(Feature, frozen=True, forbid_unknown_fields=True):
    """A feature to set."""


def parse_feature(line: str) -> Feature:
    """Parse a feature: ``layers = Layers``, or its code alone. Raises ``ValueError``."""
    code, _sign, name = (one.strip() for one in line.partition("="))
    return Feature(parse_feature_code(code), parse_name(name) if name else None)


def _write_feature(feature: Feature) -> str:
    return f"{feature.code} = {feature.name}" if feature.name else feature.code


def _check_features(features: list[Feature]) -> list[Feature]:
    """Check that there are at most ``_MAX_FEATURES`` features, with distinct codes. Raises ``ValueError``."""
    if len(features) > _MAX_FEATURES:
        raise ValueError(f"must have at most {_MAX_FEATURES} features")
    codes = [one.code for one in features]
    for code in codes:
        if codes.count(code) > 1:
            raise ValueError(f"must have each code once; {code} appears twice")
    return [Feature(one.code, one.name, one.description) for one in features]


def _parse_channel(channel: str) -> str:
    if channel == STABLE:
        raise ValueError("must not be stable, which every product has")
    return parse_feature_code(channel)


def _check_unique(values: list[str]) -> list[str]:
    if len({*values}) < len(values):
        raise ValueError("must not have duplicates")
    return values


_Url = Annotated[str, Meta(max_length=2000), Parse(parse_url)]
_Code = Annotated[str, Meta(min_length=1, max_length=_MAX_LENGTH), Parse(parse_code)]
_CODE = (
    "A unique word by which programs can refer to the product; it is fixed once there is a license. "
    "Without one, a new product gets one derived from its name."
)
_RENEW = "Where customers pay for another period; {license_ref} is replaced by a reference to the license."
_LINES = "One per line, a code and a name: layers = Layers. Policies refer to features by their codes."

ProductName = Annotated[Name, about("Its name.", "Paint", label="Name", hint="")]
Code = Annotated[_Code, about(_CODE, "paint", label="Code")]
Url = Annotated[
    _Url, about("Where customers can read about it.", "https://example.com/paint", label="Address")
]
RenewUrl = Annotated[
    _Url, about(_RENEW, "https://shop.example/renew?ref={license_ref}", label="Renewal address")
]
Features = Annotated[
    list[NewFeature],
    Meta(max_length=_MAX_FEATURES),
    Parse(_check_features),
    about("The features that its licenses can include.", label="Features", hint=_LINES, rows=3),
    nouns.Items(parse_feature, _write_feature, "--feature", "CODE[=NAME]"),
]
UpdatesRule = Annotated[
    Updates,
    about(
        "Who gets its updates: licenses that cover them, everyone, or no one.",
        "licensed",
        label="Updates",
        hint="licensed: licenses that cover them. open: everyone. closed: no one.",
    ),
]
_CHANNELS = "The channels of its releases besides stable, the most stable first; each includes all before it."
Channels = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=_MAX_LENGTH), Parse(_parse_channel)]],
    Meta(max_length=20),
    Parse(_check_unique),
    about(_CHANNELS, label="Channels", hint="One per line.", rows=2),
    nouns.Items(_parse_channel, str, "--channel", "CODE"),
]
_KEYS = (
    "The public keys (Ed25519 or minisign) that verify the signatures of files when a release is published."
)
PublicKeys = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=500), Parse(parse_public_key)]],
    Meta(max_length=10),
    Parse(_check_unique),
    about(_KEYS, label="Public keys", hint="One per line.", rows=2),
    nouns.Items(parse_public_key, str, "--public-key", "KEY"),
]
Scheme = Annotated[
    VersionScheme,
    about(
        "How its versions are ordered; fixed once a release is published.",
        "loose",
        label="Version order",
        hint="loose: 1.10 after 1.9. semver: Semantic Versioning. pep440: as in Python.",
    ),
]
OtherId = Annotated[
    ExternalId, about("Its ID in another system of yours; unique.", "erp-7", label="External ID")
]
_OwnId = Annotated[OwnId, about("Its ID in your shop. Without one, Keywright assigns one.", 17, label="ID")]


class ProductFields(Fields):
    """The fields of a product that can be set; a change is a JSON merge patch."""

    name: ProductName | UnsetType = UNSET
    code: Code | UnsetType | None = UNSET
    url: Url | UnsetType | None = UNSET
    renew_url: RenewUrl | UnsetType | None = UNSET
    features: Features | UnsetType = UNSET
    updates: UpdatesRule | UnsetType = UNSET
    channels: Channels | UnsetType = UNSET
    public_keys: PublicKeys | UnsetType = UNSET
    version_scheme: Scheme | UnsetType = UNSET
    external_id: OtherId | UnsetType | None = UNSET
    metadata: Metadata | UnsetType | None = UNSET


class NewProduct(ProductFields):
    """A product to make."""

    name: ProductName
    id: _OwnId | UnsetType | None = UNSET


class ProductQuery(nouns.ListQuery):
    """Filters of products."""

    code: Annotated[str | None, about("Only the product with this code.")] = None
    external_id: Annotated[str | None, about("Only the product with this external ID.")] = None
    created_after: Annotated[Time | None, about("Only products created after this time.")] = None
    created_before: Annotated[Time | None, about("Only products created before this time.")] = None
    sort: Literal["created_at", "-created_at", "name", "-name"] = "-created_at"


class Product(Struct, frozen=True):
    """A program that licenses are sold for."""

    id: Annotated[Id, about("The shop's ID, or one that Keywright assigned, from 1,000,000,000.", 17)]
    code: Code | None
    name: ProductName
    url: Url | None
    features: Annotated[list[Feature], about("The features that its licenses can include.")]
    external_id: OtherId | None
    renew_url: RenewUrl | None
    metadata: nouns.Kept
    created_at: nouns.CreatedAt
    updated_at: nouns.UpdatedAt
    updates: UpdatesRule = Updates.LICENSED
    channels: Channels = field(default_factory=list)
    public_keys: PublicKeys = field(default_factory=list)
    version_scheme: Scheme = VersionScheme.LOOSE


class CreateProduct(nouns.Create, frozen=True, kw_only=True):
    """Make a product. Without a code it gets one derived from its name, if no other product has that."""

    fields: NewProduct


class UpdateProduct(nouns.Update, frozen=True, kw_only=True):
    """Change a product."""

    fields: ProductFields


class DeleteProduct(nouns.Delete, frozen=True, kw_only=True):
    """Delete the product, unless something refers to it (``may_delete_product``)."""


class GetProduct(nouns.Get, frozen=True, kw_only=True):
    """The product with this ID."""


class ListProducts(nouns.List, frozen=True, kw_only=True):
    """A page of the matching products."""

    where: ProductQuery = field(default_factory=ProductQuery)


PRODUCT = nouns.Noun(
    *("product", Product, ProductFields, NewProduct, ProductQuery),
    *(CreateProduct, UpdateProduct, DeleteProduct, GetProduct, ListProducts),
    product_column="id",
)


class NameKind(StrEnum):
    """A kind of ID from the vendor's shop that can have a name."""

    PRODUCT = "product"
    CUSTOMER = "customer"


class SaveName(Command, frozen=True, kw_only=True):
    """Store the name for an ID from the vendor's shop; None deletes it."""

    kind: NameKind
    number: int
    name: str | None
