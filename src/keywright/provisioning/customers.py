"""Customers: their fields, and the commands about them. Pure."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from keywright.core.fields import ExternalId, Fields, Metadata, Name, OwnId, Parse, Time, about
from keywright.core.nouns import Create, Delete, Get, List, ListQuery, Noun, Update

_MAX_LENGTH = 320
_LANGUAGE = re.compile(r"[a-z]{2,3}([-_][a-z0-9]{2,8}){0,3}", re.ASCII | re.IGNORECASE)
_EMAIL = re.compile(r"[^\s@<>,;:\"]+@[^\s@<>,;:\"]+")


def parse_email(text: str) -> str:
    """Parse an e-mail address, without white space around it. Raises ``ValueError``."""
    email = text.strip()
    if not _EMAIL.fullmatch(email) or not email.isprintable() or len(fold_email(email)) > _MAX_LENGTH:
        raise ValueError("must be an e-mail address")
    return email


def fold_email(email: str) -> str:
    """Return the form of an address by which a customer is looked up, independent of case."""
    return email.lower()


def parse_language(text: str) -> str:
    """Return a language tag (BCP 47) as catalogs spell it: ``de``, ``pt-BR``. Raises ``ValueError``."""
    if not _LANGUAGE.fullmatch(text):
        raise ValueError("must be a language such as de or pt-BR")
    language, *others = text.replace("_", "-").split("-")
    return "-".join((language.lower(), *(one.upper() if len(one) == 2 else one.title() for one in others)))


Email = Annotated[str, Meta(min_length=3, max_length=_MAX_LENGTH), Parse(parse_email)]
#: A tag of BCP 47.
Language = Annotated[str, Meta(min_length=2, max_length=35), Parse(parse_language)]

CustomerName = Annotated[Name, about("The name.", "Ada", label="Name", hint="")]
CustomerEmail = Annotated[
    Email,
    about(
        "The e-mail address; unique, ignoring case.",
        "ada@example.com",
        label="E-mail",
        hint="No two customers can have the same.",
    ),
]
CustomerLanguage = Annotated[Language, about("The language of mails and of the portal.", "pt-BR")]
OtherId = Annotated[
    ExternalId,
    about("The ID in another system of yours; unique.", "crm-311", label="External ID"),
]
_OwnId = Annotated[OwnId, about("The ID in your shop. Without one, Keywright assigns one.", 311, label="ID")]


class CustomerFields(Fields):
    """The fields of a customer that can be set; a change is a JSON merge patch."""

    name: CustomerName | UnsetType | None = UNSET
    email: CustomerEmail | UnsetType | None = UNSET
    language: CustomerLanguage | UnsetType | None = UNSET
    external_id: OtherId | UnsetType | None = UNSET
    metadata: Metadata | UnsetType | None = UNSET


class NewCustomer(CustomerFields):
    """A customer to make."""

    id: _OwnId | UnsetType | None = UNSET


class CustomerQuery(ListQuery):
    """Filters of customers."""

    external_id: Annotated[str | None, about("Only the customer with this external ID.")] = None
    created_after: Annotated[Time | None, about("Only customers created after this time.")] = None
    created_before: Annotated[Time | None, about("Only customers created before this time.")] = None
    updated_after: Annotated[Time | None, about("Only customers changed after this time.")] = None
    sort: Literal["created_at", "-created_at", "updated_at", "-updated_at"] = "-created_at"


class CustomerFilter(CustomerQuery):
    """Filters of customers, with those that must not be in a URL."""

    email: Annotated[str | None, about("Only the customer with this e-mail address, ignoring case.")] = None
    name: Annotated[str | None, about("Only customers with exactly this name.")] = None


class Customer(msgspec.Struct, frozen=True):
    """A person or a company that has licenses. ``id`` is the shop's ID, or one that Keywright gave; ``email``
    is unique in any case, and ``external_id`` is the unique ID in another system of the vendor. ``language``
    (``de``, ``pt-BR``) is that of mails and the portal; a customer with ``unsubscribed_at`` gets no
    reminders.
    """

    id: int
    email: str | None
    email_verified_at: datetime | None
    name: str | None
    language: str | None
    external_id: str | None
    metadata: dict[str, Any]
    erasure_requested_at: datetime | None
    unsubscribed_at: datetime | None
    created_at: datetime
    updated_at: datetime


_NOTE = "note"


def read_note(customer: Customer) -> str:
    """Return the note about a customer: ``note`` in the metadata, which v3 shows and an erasure clears."""
    note = customer.metadata.get(_NOTE)
    return note if isinstance(note, str) else ""


def change_note(note: str | None) -> dict[str, Any]:
    """Return the patch of metadata that sets this note, or deletes it."""
    return {_NOTE: note or None}


class CreateCustomer(Create, frozen=True, kw_only=True):
    """Make a customer. The last two members are for restoring one who was deleted."""

    fields: NewCustomer
    erasure_requested_at: datetime | None = None
    unsubscribed_at: datetime | None = None

    def restored(self) -> dict[str, Any]:
        """Return the values that are stored with the fields."""
        return {
            "erasure_requested_at": self.erasure_requested_at,
            "unsubscribed_at": self.unsubscribed_at,
        }


class UpdateCustomer(Update, frozen=True, kw_only=True):
    """Change a customer."""

    fields: CustomerFields


class DeleteCustomer(Delete, frozen=True, kw_only=True):
    """Delete the customer, if no license names it."""


class GetCustomer(Get, frozen=True, kw_only=True):
    """The customer with this ID."""


class ListCustomers(List, frozen=True, kw_only=True):
    """A page of the matching customers; names match whole, e-mail addresses in any case."""

    where: CustomerQuery = field(default_factory=CustomerQuery)


CUSTOMER = Noun(
    *("customer", Customer, CustomerFields, NewCustomer, CustomerQuery),
    *(CreateCustomer, UpdateCustomer, DeleteCustomer, GetCustomer, ListCustomers),
)
