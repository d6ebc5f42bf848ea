"""The answers about policies and customers as types; see ``schemas``."""

from datetime import datetime
from typing import Annotated

from msgspec import Struct

from keywright.core.fields import Id, Time, about
from keywright.core.nouns import CreatedAt, Kept, UpdatedAt
from keywright.licensing.terms.model import Terms
from keywright.provisioning import customers
from keywright.provisioning.policies import model


class Customer(Struct):
    """A person or a company that has licenses."""

    id: Annotated[Id, about("The shop's number, or one of Keywright's, from 1,000,000,000.", 311)]
    email: customers.CustomerEmail | None
    email_verified_at: Annotated[Time | None, about("When a sign-in proved the address.", None)]
    name: customers.CustomerName | None
    language: customers.CustomerLanguage | None
    external_id: customers.OtherId | None
    metadata: Kept
    erasure_requested_at: Annotated[
        Time | None, about("When the customer asked, in the portal, to be erased.", None)
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt


class KeyFormat(Struct):
    """The recipe for the keys of a policy: prefix, chunks of drawn characters, suffix."""

    charset: model.Charset
    chunks: model.Chunks
    chunk_length: model.ChunkLength
    separator: model.Separator | None
    prefix: model.Prefix | None
    suffix: model.Suffix | None


class Policy(Struct):
    """The recipe for licenses."""

    id: Annotated[Id, about("Its number.", 3)]
    name: model.PolicyName
    product_id: model.Product | None
    key: Annotated[KeyFormat, about("How its keys are made.")]
    terms: Annotated[Terms, about("The terms that its licenses get when they are made.")]
    archived_at: Annotated[Time | None, about("Since when it makes no more licenses.", None)]
    created_at: Annotated[Time, about("When it was made.", "2026-11-22T08:54:00Z")]
    updated_at: Annotated[Time, about("When it was last changed.", "2026-11-22T08:54:00Z")]


class Erased(Struct):
    """The numbers of records from which something was erased."""

    activations: Annotated[int, about("Addresses, user agents, labels and meta data.", 3)]
    events: Annotated[int, about("Addresses.", 12)]
    licenses: Annotated[int, about("Metadata.", 1)]
    leases: Annotated[int, about("Holders of leases that are over.", 0)]
    trials: Annotated[int, about("E-mail addresses.", 0)]


class CustomerLink(Struct):
    """A link to the customer's portal."""

    url: Annotated[str, about("Signs the customer in, once.", "https://licenses.example.com/portal/link/…")]
    expires_at: Annotated[datetime, about("The link is valid until then.", "2026-11-23T08:54:00Z")]
