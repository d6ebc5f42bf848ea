"""Types that several routes share."""

from datetime import datetime
from typing import Annotated, Generic, TypeVar

from msgspec import UNSET, Struct, UnsetType

from keywright.core.errors import ValueCode
from keywright.core.fields import Id, Time, about
from keywright.core.nouns import CreatedAt, Kept, UpdatedAt
from keywright.identity.model import Permissions
from keywright.licensing.terms.model import Terms
from keywright.provisioning import customers
from keywright.provisioning.policies import model

Item = TypeVar("Item")


class Page(Struct, Generic[Item]):
    """One page of a list."""

    items: Annotated[list[Item], about("The items on this page.")]
    next_cursor: Annotated[str | None, about("The `cursor` of the next page; null on the last one.", None)]
    total: Annotated[int | UnsetType, about("With `count=true`: how many match, up to 10,000.")] = UNSET
    more_than: Annotated[int | UnsetType, about("With `count=true`: 10,000, if more match.")] = UNSET


class Documents(Struct):
    """Paths of the documentation, relative to the address of the server."""

    openapi: Annotated[str, about("The OpenAPI 3.1 document.", "/openapi/v3.json")]
    reference: Annotated[str, about("The reference page made from it.", "/openapi/v3")]
    problems: Annotated[str, about("The pages about problem codes.", "/problems")]


class Index(Struct):
    """The v3 API: its version, routes and documentation."""

    name: Annotated[str, about("The name of the program.", "Keywright")]
    version: Annotated[str, about("The version of the server.", "1.0.0")]
    faces: Annotated[
        dict[str, list[str]],
        about(
            "The routes of client calls and of the management API.",
            {"client": ["POST /v3/validate"], "management": ["GET /v3/me"]},
        ),
    ]
    documents: Documents


class Me(Struct):
    """The API key that made the call."""

    id: Annotated[Id, about("The API key's ID.", 3)]
    name: Annotated[str, about("The API key's name.", "Web shop")]
    permissions: Annotated[Permissions, about("What the API key may do.", "read_write")]
    product_id: Annotated[
        Id | None, about("The only product that the API key sees; null means all products.", None)
    ]
    expires_at: Annotated[Time | None, about("When the API key expires; null means never.", None)]


class ProblemError(Struct, omit_defaults=True):
    """One invalid value in a request."""

    code: Annotated[ValueCode, about("What is wrong with the value.", "missing")]
    detail: Annotated[str, about("What the value must be, for people to read.", "is missing")]
    pointer: Annotated[str | UnsetType, about("A JSON Pointer (RFC 6901) into the body.", "/name")] = UNSET
    parameter: Annotated[
        str | UnsetType, about("The name of a query parameter or header, instead of a pointer.", "limit")
    ] = UNSET


class Problem(Struct, omit_defaults=True):
    """An error, as problem details (RFC 9457). Some codes have more members: `limit`, `license`."""

    type: Annotated[str, about("The page about the code, relative to the server.", "/problems/invalid")]
    title: Annotated[str, about("The meaning of the code.", "Members of the body are invalid")]
    status: Annotated[int, about("The HTTP status.", 422)]
    detail: Annotated[str, about("What was wrong, for people to read.", "Invalid body: /name is missing.")]
    code: Annotated[str, about("The code of the error, for programs.", "invalid")]
    errors: Annotated[list[ProblemError] | UnsetType, about("All wrong values.")] = UNSET
    retry_after_seconds: Annotated[
        int | UnsetType, about("How many seconds to wait before the next attempt.", 1)
    ] = UNSET


class Customer(Struct):
    """A person or company that owns licenses."""

    id: Annotated[
        Id, about("The customer's ID: the shop's, or one from Keywright, which starts at 1,000,000,000.", 311)
    ]
    email: customers.CustomerEmail | None
    email_verified_at: Annotated[Time | None, about("When a sign-in verified the e-mail address.", None)]
    name: customers.CustomerName | None
    language: customers.CustomerLanguage | None
    external_id: customers.OtherId | None
    metadata: Kept
    erasure_requested_at: Annotated[
        Time | None, about("When the customer asked to be erased, in the portal.", None)
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt


class KeyFormat(Struct):
    """The format of the license keys of a policy: a prefix, chunks of random characters, and a suffix."""

    charset: model.Charset
    chunks: model.Chunks
    chunk_length: model.ChunkLength
    separator: model.Separator | None
    prefix: model.Prefix | None
    suffix: model.Suffix | None


class Policy(Struct):
    """A recipe for licenses: the format of their keys, and their terms."""

    id: Annotated[Id, about("The policy's ID.", 3)]
    name: model.PolicyName
    product_id: model.Product | None
    key: Annotated[KeyFormat, about("The format of the license keys.")]
    terms: Annotated[Terms, about("The terms that licenses get when they are made.")]
    archived_at: Annotated[
        Time | None, about("When the policy was archived: it makes no licenses since then.", None)
    ]
    created_at: Annotated[Time, about("When the policy was created.", "2026-11-22T08:54:00Z")]
    updated_at: Annotated[Time, about("When the policy was last changed.", "2026-11-22T08:54:00Z")]


class Erased(Struct):
    """The number of records of each kind from which personal data was erased."""

    activations: Annotated[int, about("Activations: IP address, user agent, label and metadata.", 3)]
    events: Annotated[int, about("Events: IP address.", 12)]
    licenses: Annotated[int, about("Licenses: metadata.", 1)]
    leases: Annotated[int, about("Ended leases: holder.", 0)]
    trials: Annotated[int, about("Trials: e-mail address.", 0)]


class CustomerLink(Struct):
    """A sign-in link to the customer portal."""

    url: Annotated[
        str,
        about("The link, which signs the customer in once.", "https://licenses.example.com/portal/link/…"),
    ]
    expires_at: Annotated[datetime, about("When the link expires.", "2026-11-23T08:54:00Z")]
