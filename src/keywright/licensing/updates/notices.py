"""Notices to users of certain versions of a product: a vulnerability, a defect, an end of support. Pure."""

from collections.abc import Iterable
from enum import StrEnum
from itertools import islice
from typing import Annotated

from msgspec import Struct

from keywright.core.fields import Id, Time, about
from keywright.core.nouns import CreatedAt, Kept, UpdatedAt
from keywright.licensing.updates.versions import Ranges, VersionScheme, find_key, is_within, parse_ranges

#: The most notices in an answer.
MAX_ANSWERED = 5
MAX_AFFECTED = 200


class Severity(StrEnum):
    """How severe a notice is, in ascending order."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


_ORDER = list(Severity)


class NoticeState(StrEnum):
    """The state of a notice: a draft until it is published; a withdrawn one is in no answer and no mail."""

    DRAFT = "draft"
    PUBLISHED = "published"
    WITHDRAWN = "withdrawn"


class RecipientState(StrEnum):
    """The outcome of the mail to a customer. ``UNREACHABLE``: there was no address."""

    UNREACHABLE = "unreachable"
    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"
    DROPPED = "dropped"


class Notice(Struct, frozen=True, kw_only=True):
    """What users of certain versions of a product should know."""

    id: Annotated[Id, about("Its ID.", 5)]
    product_id: Annotated[Id, about("The product.", 17)]
    affected: Annotated[str, about("The affected versions.", "< 3.2.1")]
    severity: Annotated[Severity, about("How severe it is.", "high")] = Severity.MEDIUM
    is_security: Annotated[bool, about("Whether it is about security.", True)] = False
    title: Annotated[str, about("The title.", "A crafted file runs code")]
    text: Annotated[str | None, about("What users should know and do.", "Please update.")] = None
    url: Annotated[str | None, about("The address of more information.", None)] = None
    fixed_in: Annotated[str | None, about("The first version with a fix.", "3.2.1")] = None
    state: Annotated[
        NoticeState, about("Its state; programs receive only published notices.", "published")
    ] = NoticeState.DRAFT
    published_at: Annotated[Time | None, about("When it was published.", "2026-11-22T08:54:00Z")] = None
    metadata: Kept
    created_at: CreatedAt
    updated_at: UpdatedAt


class AnsweredNotice(Struct, frozen=True, gc=False):
    """A notice about the program's version."""

    id: Annotated[Id, about("Its ID.", 5)]
    severity: Annotated[Severity, about("How severe it is.", "high")]
    title: Annotated[str, about("The title.", "A crafted file runs code")]
    url: Annotated[str | None, about("The address of more information.", "https://example.com/advisories/5")]
    fixed_in: Annotated[str | None, about("The first version with a fix.", "3.2.1")]


class KnownNotice(Struct, frozen=True, gc=False):
    """A published notice, in the form of answers, with the affected versions."""

    answer: AnsweredNotice
    ranges: Ranges


def order_notices(scheme: VersionScheme, found: Iterable[Notice]) -> tuple[KnownNotice, ...]:
    """Order these notices of a product: the most severe first, then the newest."""
    ordered = sorted(found, key=lambda one: (-_ORDER.index(one.severity), -one.id))
    return tuple(
        KnownNotice(
            AnsweredNotice(one.id, one.severity, one.title, one.url, one.fixed_in),
            parse_ranges(scheme, one.affected),
        )
        for one in ordered
    )


def is_affected(scheme: VersionScheme, affected: str, version: str | None) -> bool:
    """Whether a version is within the affected ranges; false if the scheme cannot parse it."""
    key = find_key(scheme, version)
    return key is not None and is_within(parse_ranges(scheme, affected), key)


def list_about(
    notices: tuple[KnownNotice, ...], scheme: VersionScheme, version: str | None
) -> tuple[AnsweredNotice, ...]:
    """Return the notices about a version, in the form of answers."""
    key = find_key(scheme, version) if notices else None
    if key is None:
        return ()
    found = (one.answer for one in notices if is_within(one.ranges, key))
    return tuple(islice(found, MAX_ANSWERED))
