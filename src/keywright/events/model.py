"""Events, commands of the audit log, and mails to be sent."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from keywright.core.command import Command, Cost


class Event(msgspec.Struct, frozen=True):
    """An event, named noun.past; ``license_id`` is 0 if it is not about a license, and ``details`` never
    contains a full key.
    """

    occurred_at: datetime
    name: str
    license_id: int
    activation_id: int | None
    actor: str
    ip_address: str
    details: Mapping[str, Any] | None = None


class RecordEvent(Command, frozen=True, kw_only=True):
    """Record an event about what was done outside the database, such as a backup."""

    name: str
    details: Mapping[str, Any] | None = None


class SettleEvents(Command, frozen=True, kw_only=True):
    """Find the last event up to which no other can still be committed; returns whether it is the newest."""

    cost = Cost.ALONE
    is_internal = True


#: The most characters of the text that makes a queued mail unique.
MAX_UNIQUE_LENGTH = 200
#: The most licenses that one mail names; the customer finds the others in the portal.
MAX_LICENSES = 500


class MailTemplate(StrEnum):
    """The kind of a mail."""

    YOUR_LICENSE = "your_license"
    RENEWED = "renewed"
    CHANGED = "changed"
    EXPIRING = "expiring"
    EXPIRED = "expired"
    PAYMENT_FAILED = "payment_failed"
    SIGN_IN_CODE = "sign_in_code"
    YOUR_KEYS = "your_keys"
    #: A license is transferred: mails to the person it is offered to, to the one who receives it, and to the
    #: one who gave it.
    LICENSE_OFFERED = "license_offered"
    LICENSE_RECEIVED = "license_received"
    LICENSE_GIVEN = "license_given"
    #: For customers who use a version that a notice is about.
    NOTICE = "notice"
    #: License files, from a job that makes them for all licenses and devices.
    LICENSE_FILES = "license_files"
    #: For users of the administration pages.
    ENDPOINT_DISABLED = "endpoint_disabled"


class MailState(StrEnum):
    """The state of a mail. ``HELD``: it was waiting in a backup that was restored; a user decides.
    ``DROPPED``: when it was due, there was no reason for it any more.
    """

    WAITING = "waiting"
    HELD = "held"
    SENT = "sent"
    FAILED = "failed"
    DROPPED = "dropped"


class Subject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The subject of a mail, as IDs: everything else is read when it is sent."""

    license_ids: tuple[int, ...] = ()
    #: The ID of a sign-in to the portal (``identity.sign_in_codes``).
    sign_in_id: str | None = None
    endpoint_id: int | None = None
    notice_id: int | None = None
    #: The license files in these parts of this job's file.
    job_id: int | None = None
    parts: tuple[int, ...] = ()
    #: A test mail: sample values instead of the customer's.
    is_sample: bool = False


class QueuedMail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail to queue, for a customer or for a user of the pages.

    ``unique`` identifies the cause and the kind of the mail, such as ``sale 17 your_license``: of all mails
    queued with the same text, only one is sent. It contains no address, key or code. ``product_id`` selects
    the vendor's template for that product; ``language`` (such as ``pt_BR``) overrides that of the customer.
    """

    template: MailTemplate
    unique: str
    customer_id: int | None = None
    user_id: int | None = None
    product_id: int | None = None
    language: str | None = None
    subject: Subject = Subject()


class OutboxMail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail in the outbox. ``unanswered`` counts the attempts with an unknown outcome, because the SMTP
    server's answer did not arrive: each of them may have sent the mail, with the same Message-ID.
    """

    id: int
    template: MailTemplate
    unique_text: str
    customer_id: int | None
    user_id: int | None
    product_id: int | None
    language: str | None
    subject: Subject
    message_id: str
    state: MailState
    attempts: int
    unanswered: int
    created_at: datetime
    #: None once it no longer waits.
    next_attempt_at: datetime | None
    finished_at: datetime | None
    error: str | None
    claimed_by: str | None
    claimed_until: datetime | None
