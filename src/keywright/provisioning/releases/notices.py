"""Notices: their fields, the commands about them, and the handlers of these."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import replace

from keywright.core.command import Command, Query
from keywright.core.errors import FieldError, InvalidNotice, NotFound, StillInUse, UnknownReference
from keywright.core.fields import Fields, Id, Metadata, Name, about
from keywright.core.nouns import Create, Delete, Flag, Get, List, ListQuery, Noun, Update
from keywright.db.transaction import ReadTransaction
from keywright.events import nouns
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.updates import notices_store, store
from keywright.licensing.updates.notices import MAX_AFFECTED, Notice, NoticeState, Severity, is_affected
from keywright.licensing.updates.notices_store import Affects
from keywright.licensing.updates.store import NOTICES
from keywright.licensing.updates.versions import MAX_VERSION, VersionScheme, parse_ranges, version_key
from keywright.provisioning.products import Product, Url
from keywright.provisioning.store import PRODUCTS

#: The largest number of published notices of a product, all of which an update check reads.
MAX_PUBLISHED = 50
_AT_ONCE = 500
_AFFECTED = "The affected versions, such as < 3.2.1, or >= 2, < 3.2.1; with || between alternatives."
Affected = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_AFFECTED),
    about(_AFFECTED, "< 3.2.1", label="Affected versions"),
]
_Title = Annotated[Name, about("The title, in one line.", "A crafted file runs code", label="Title")]
_Product = Annotated[Id, about("The product.", 17, label="Product", hint="Its ID.")]
_Text = Annotated[str, Meta(min_length=1, max_length=5_000)]


class NoticeFields(Fields):
    """The fields of a notice that can be set; a change is a JSON merge patch."""

    title: _Title | UnsetType = UNSET
    affected: Affected | UnsetType = UNSET
    severity: Annotated[Severity, about("How severe it is.", "high", label="Severity")] | UnsetType = UNSET
    is_security: (
        Annotated[bool, about("Whether it is about security."), Flag("--security/--no-security")] | UnsetType
    ) = UNSET
    fixed_in: (
        Annotated[
            str,
            Meta(min_length=1, max_length=MAX_VERSION),
            about("The first version with a fix.", "3.2.1", label="Fixed in"),
        ]
        | UnsetType
        | None
    ) = UNSET
    url: (
        Annotated[Url, about("The address of more information.", None, label="Address")] | UnsetType | None
    ) = UNSET
    text: (
        Annotated[_Text, about("What users should know and do.", "Please update.", label="Text", rows=8)]
        | UnsetType
        | None
    ) = UNSET
    metadata: Metadata | UnsetType | None = UNSET


class NewNotice(NoticeFields, kw_only=True):
    """A notice to make."""

    product_id: _Product
    title: _Title
    affected: Affected


class NoticeQuery(ListQuery):
    """Filters of notices."""

    product_id: Annotated[Id | None, about("Only notices about this product.")] = None
    state: Annotated[NoticeState | None, about("Only notices in this state.")] = None
    severity: Annotated[Severity | None, about("Only notices of this severity.")] = None
    sort: Literal["-created_at", "created_at"] = "-created_at"


class CreateNotice(Create, frozen=True, kw_only=True):
    """Make a draft notice."""

    fields: NewNotice


class UpdateNotice(Update, frozen=True, kw_only=True):
    """Change a notice."""

    fields: NoticeFields


class DeleteNotice(Delete, frozen=True, kw_only=True):
    """Delete a notice that was not mailed to anyone."""


class GetNotice(Get, frozen=True, kw_only=True):
    """The notice with this ID."""


class ListNotices(List, frozen=True, kw_only=True):
    """A page of the matching notices."""

    where: NoticeQuery = field(default_factory=NoticeQuery)


NOTICE = Noun(
    *("notice", Notice, NoticeFields, NewNotice, NoticeQuery),
    *(CreateNotice, UpdateNotice, DeleteNotice, GetNotice, ListNotices),
    product_column="product_id",
)


class SetNoticeState(Command, frozen=True, kw_only=True):
    """Publish a notice, or withdraw it."""

    notice_id: int
    state: NoticeState
    only_product_id: int | None = None


class RecipientQuery(ListQuery):
    """The order of the recipients."""

    sort: Literal["-created_at", "created_at"] = "created_at"


class ListRecipients(List, frozen=True, kw_only=True):
    """A page of the recipients of a notice."""

    notice_id: int


class PurgeRecipients(Command, frozen=True, kw_only=True):
    """Delete a batch of the records of notices that were mailed before this moment; return their number."""

    is_internal = True

    before: datetime


def check(work: UnitOfWork, before: Notice | None, after: Notice) -> Notice:
    """Check the versions by the product's scheme. Raises ``UnknownReference`` and ``InvalidNotice``."""
    product = PRODUCTS.find(work.tx, after.product_id)
    if product is None:
        raise UnknownReference(f"product {after.product_id}", "/product_id")
    _check_versions(product.version_scheme, after)
    if before is not None and before.state is NoticeState.PUBLISHED:
        store.note_change(work.tx, product.id)
    return after


def _check_versions(scheme: VersionScheme, notice: Notice) -> None:
    errors = []
    for name, parse in (("affected", parse_ranges), ("fixed_in", version_key)):
        try:
            if (value := getattr(notice, name)) is not None:
                parse(scheme, value)
        except ValueError as reason:
            errors.append(FieldError(f"/{name}", "invalid", str(reason)))
    if not errors and is_affected(scheme, notice.affected, notice.fixed_in):
        errors.append(FieldError("/fixed_in", "invalid", "must not be affected itself"))
    if errors:
        raise InvalidNotice(tuple(errors))


def find_affects(tx: ReadTransaction, notice: Notice) -> Affects:
    """Return the function that checks whether a version is affected, by the product's version scheme."""
    product = PRODUCTS.find(tx, notice.product_id)
    scheme = VersionScheme.LOOSE if product is None else product.version_scheme
    return partial(is_affected, scheme, notice.affected)


def may_delete(work: UnitOfWork, notice: Notice) -> None:
    """Raise ``StillInUse`` for a published notice, which must be withdrawn first, and for one with
    recipients, whose records are kept.
    """
    if notice.state is NoticeState.PUBLISHED:
        raise StillInUse(f"notice {notice.id}", "programs")
    if notices_store.has_recipients(work.tx, notice.id):
        raise StillInUse(f"notice {notice.id}", "records of who was notified")


def _details(notice: Notice) -> dict[str, Any]:
    return {"notice_id": notice.id, "product_id": notice.product_id, "title": notice.title}


RULES = nouns.Rules(*(NOTICE, NOTICES, None, check, may_delete, _details), unshown=("text", "metadata"))


def set_state(work: UnitOfWork, command: SetNoticeState) -> Notice:
    """Publish or withdraw a notice; nothing changes if it has that state already. Raises ``NotFound``,
    ``InvalidNotice`` and ``StillInUse``.
    """
    notice = NOTICES.lock(work.tx, command.notice_id)
    if notice is None or command.only_product_id not in (None, notice.product_id):
        raise NotFound(f"notice {command.notice_id}")
    state, now = command.state, command.context.now
    if notice.state is state or (notice.state is NoticeState.DRAFT and state is NoticeState.WITHDRAWN):
        return notice
    if state is NoticeState.PUBLISHED:
        _check_versions(_get_product(work, notice).version_scheme, notice)
    published_at = notice.published_at or now
    saved = replace(notice, state=state, published_at=published_at, updated_at=now)
    NOTICES.update(work.tx, saved)
    store.note_change(work.tx, notice.product_id)
    work.record_event(f"notice.{state}", command, _details(saved))
    return saved


def _get_product(work: UnitOfWork, notice: Notice) -> Product:
    """Lock and return the notice's product. Raises ``StillInUse`` if it has too many published notices."""
    store.lock_product(work.tx, notice.product_id)
    if store.count_published(work.tx, notice.product_id) >= MAX_PUBLISHED:
        raise StillInUse(f"product {notice.product_id}", f"{MAX_PUBLISHED} published notices")
    product = PRODUCTS.find(work.tx, notice.product_id)
    assert product is not None  # noqa: S101
    return product


def purge_recipients(work: UnitOfWork, command: PurgeRecipients) -> int:
    """Delete a batch of old records; return their number."""
    return notices_store.delete_old(work.tx, command.before, limit=_AT_ONCE)


HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = {
    **nouns.handlers_of(RULES),
    SetNoticeState: set_state,
    PurgeRecipients: purge_recipients,
}
QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = nouns.query_handlers_of(RULES)
