"""Handlers for the commands of the outbox and of templates."""

import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import NotFound
from keywright.delivery.mail import model, rules, store
from keywright.events.model import MailState, OutboxMail, QueuedMail, Subject
from keywright.events.outbox_store import queue_mail
from keywright.events.unit_of_work import UnitOfWork

#: Mails that are deleted, given up or decided in one transaction.
_AT_ONCE = 500


def finish_mail(work: UnitOfWork, command: model.FinishMail) -> OutboxMail | None:
    """Save the outcome. Returns None if another process has claimed the mail or it was deleted."""
    mail = store.lock_mail(work.tx, command.mail_id)
    if mail is None or mail.claimed_by != command.claimed_by:
        return None
    mail = rules.after_attempt(mail, command.outcome, command.context.now)
    store.save_mail(work.tx, mail)
    return mail


def send_again(work: UnitOfWork, command: model.SendAgain) -> None:
    """Queue a mail again, or a copy if it was sent. Raises ``NotFound``."""
    mail = store.lock_mail(work.tx, command.mail_id)
    if mail is None:
        raise NotFound(f"mail {command.mail_id}")
    now = command.context.now
    if mail.state is MailState.SENT:
        copy = QueuedMail(
            template=mail.template,
            unique=f"again {mail.id} {secrets.token_hex(8)}",
            customer_id=mail.customer_id,
            user_id=mail.user_id,
            product_id=mail.product_id,
            language=mail.language,
            subject=mail.subject,
        )
        queue_mail(work.tx, copy, now)
    elif mail.claimed_by is None:
        waiting = replace(mail, state=MailState.WAITING, attempts=0, next_attempt_at=now, finished_at=None)
        store.save_mail(work.tx, waiting)
        work.tx.has_queued = True
    work.record_event("mail.sent_again", command, {"mail": mail.id, "template": mail.template.value})


def decide_held(work: UnitOfWork, command: model.DecideHeld) -> model.Resumed:
    """Queue or drop a batch of the mails that a restored backup contained."""
    held, now = store.lock_held(work.tx, _AT_ONCE), command.context.now
    for mail in held:
        if command.is_sent:
            decided = replace(mail, state=MailState.WAITING, next_attempt_at=now)
        else:
            decided = rules.finish(mail, MailState.DROPPED, now)
        store.save_mail(work.tx, decided)
    work.tx.has_queued = work.tx.has_queued or command.is_sent
    if held:
        work.record_event("mail.held_decided", command, {"mails": len(held), "sent": command.is_sent})
    return model.Resumed(len(held), is_complete=len(held) < _AT_ONCE)


def queue_sample(work: UnitOfWork, command: model.QueueSample) -> None:
    """Queue a test mail."""
    mail = QueuedMail(
        template=command.template,
        unique=f"sample {secrets.token_hex(16)}",
        user_id=command.user_id,
        product_id=command.product_id,
        language=command.language,
        subject=Subject(is_sample=True),
    )
    queue_mail(work.tx, mail, command.context.now)


def save_template(work: UnitOfWork, command: model.SaveTemplate) -> None:
    """Save a template, which the caller has checked."""
    own = model.OwnTemplate(
        name=command.name,
        product_id=command.product_id,
        language=command.language,
        subject=command.subject,
        text=command.text,
        html=command.html,
        updated_at=command.context.now,
        updated_by=command.context.by,
    )
    store.save_template(work.tx, own)
    work.record_event("mail_template.saved", command, _details(command))


def delete_template(work: UnitOfWork, command: model.DeleteTemplate) -> bool:
    """Delete a template. Returns False if there is none."""
    is_deleted = store.delete_template(work.tx, command.name, command.product_id, command.language)
    if is_deleted:
        work.record_event("mail_template.deleted", command, _details(command))
    return is_deleted


def _details(command: model.SaveTemplate | model.DeleteTemplate) -> dict[str, Any]:
    return {
        "template": command.name.value,
        "product_id": command.product_id,
        "language": command.language,
    }


def purge_mails(work: UnitOfWork, command: model.PurgeMails) -> int:
    """Delete a batch of old mails, and give up mails that have waited as long. Returns how many."""
    now = command.context.now
    before = now - timedelta(days=command.keep_days)
    given_up = store.give_up_old(work.tx, before, now, limit=_AT_ONCE)
    return given_up + store.delete_old(work.tx, before, limit=_AT_ONCE)


def unsubscribe(work: UnitOfWork, command: model.Unsubscribe) -> bool:
    """Save whether the customer gets reminders. Returns False for an unknown customer."""
    moment = command.context.now if command.is_unsubscribed else None
    if store.is_unsubscribed(work.tx, command.customer_id) is command.is_unsubscribed:
        return True
    is_known = store.save_unsubscribed(work.tx, command.customer_id, moment)
    if is_known:
        details = {"number": command.customer_id}
        if command.is_unsubscribed:
            work.record_event("customer.unsubscribed", command, details)
        else:
            work.record_event("customer.subscribed", command, details)
    return is_known


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    model.FinishMail: finish_mail,
    model.SendAgain: send_again,
    model.DecideHeld: decide_held,
    model.QueueSample: queue_sample,
    model.SaveTemplate: save_template,
    model.DeleteTemplate: delete_template,
    model.PurgeMails: purge_mails,
    model.Unsubscribe: unsubscribe,
}
