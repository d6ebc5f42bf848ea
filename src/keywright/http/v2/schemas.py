"""The records of v2 as types, the names of its parameters, and what they may hold at most.

The handlers read parameters, and refuse wrong values in the words of the contract; the OpenAPI document
describes both to readers.
"""

from collections.abc import Mapping

from msgspec import Struct

MAX_GENERATED = 10_000
MAX_PER_PAGE = 1000
MAX_TEXT_LENGTH = 255


class Activation(Struct, gc=False):
    """One place taken on a license."""

    id: int
    token: str
    license_id: int
    label: str | None
    source: int
    ip_address: str
    user_agent: str
    meta_data: Mapping[str, str] | None
    created_at: str
    updated_at: str | None
    deactivated_at: str | None


class _License(Struct, rename="camel", gc=False):
    """The fields that every answer about a license begins with."""

    id: int
    order_id: int | None
    product_id: int | None
    user_id: int | None
    license_key: str
    expires_at: str | None
    valid_for: int | None
    source: int
    status: int
    times_activated: int
    times_activated_max: int | None
    created_at: str


class License(_License, rename="camel", gc=False):
    """A license without its activations."""

    created_by: int
    updated_at: str
    updated_by: int | None


class LicenseWithActivations(License, rename="camel", gc=False):
    """A license with its activations, deactivated ones included."""

    activation_data: list[Activation]


class ValidatedLicense(License, rename="camel", gc=False):
    """A license as validation reports it."""

    remaining_activations: int | None
    activation_data: list[Activation]


class ActivatedLicense(_License, rename="camel", gc=False):
    """A license with the activation that the call has created or reactivated."""

    updated_at: str
    activation_data: Activation


class DeactivatedLicense(_License, rename="camel", gc=False):
    """A license with what the call has deactivated."""

    updated_at: str
    activation_data: Activation | list[Activation]


class Generator(Struct, rename="camel"):
    """A recipe for license keys. Four of its numbers are text, as typed clients of the format expect."""

    id: int
    name: str
    charset: str
    chunks: int
    chunk_length: int
    times_activated_max: str | None
    separator: str | None
    prefix: str | None
    suffix: str | None
    expires_in: str | None
    created_at: str
    created_by: str | None
    updated_at: str
    updated_by: str | None


#: The names of the parameters of a new license or a change to one.
LICENSE_PARAMETERS = (
    *("license_key", "order_id", "product_id", "user_id"),
    *("status", "expires_at", "valid_for", "times_activated_max"),
)
#: Those of a new generator or a change to one, of generating, and of a list of licenses.
GENERATOR_PARAMETERS = (
    *("name", "charset", "chunks", "chunk_length"),
    *("times_activated_max", "separator", "prefix", "suffix", "expires_in"),
)
GENERATION_PARAMETERS = ("amount", "status", "order_id", "product_id", "user_id")
LIST_PARAMETERS = ("page", "per_page", "status", "product_id", "order_id", "user_id")
