"""Products."""

from typing import Annotated

from msgspec import Struct

from keywright.core.fields import Id, about
from keywright.core.nouns import CreatedAt, Kept, UpdatedAt
from keywright.provisioning.products import fields
from keywright.provisioning.products.fields import Feature


class Product(Struct, frozen=True):
    """A program that licenses are sold for."""

    id: Annotated[Id, about("The shop's number, or one of Keywright's, from 1,000,000,000.", 17)]
    code: fields.Code | None
    name: fields.ProductName
    url: fields.Url | None
    features: Annotated[list[Feature], about("The features that its licenses may have.")]
    external_id: fields.OtherId | None
    renew_url: fields.RenewUrl | None
    metadata: Kept
    created_at: CreatedAt
    updated_at: UpdatedAt
