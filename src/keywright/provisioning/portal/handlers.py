"""The handlers of customers' commands in the portal.

An unknown address costs as much as a known one: the same statements, and the same answer.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import CustomerSignInOver, NotClaimable, NotFound
from keywright.db.transaction import WriteTransaction
from keywright.events import nouns
from keywright.events.model import MailTemplate, QueuedMail, Subject
from keywright.events.outbox_store import queue_mail
from keywright.events.unit_of_work import UnitOfWork
from keywright.identity import passwords
from keywright.identity.sessions import hash_session_token
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_typed
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning import store as customer_store
from keywright.provisioning.customers import DeleteCustomer
from keywright.provisioning.handlers import CUSTOMER_RULES, find_or_make_customer
from keywright.provisioning.ownership.handlers import claim
from keywright.provisioning.ownership.model import ClaimLicense
from keywright.provisioning.ownership.rules import is_claimable
from keywright.provisioning.ownership.store import delete_ended, list_offered_only
from keywright.provisioning.portal import model, rules, store
from keywright.provisioning.portal.store import find_marked

#: The keys are mailed at most once within this time, in seconds.
_KEYS_EVERY = 4 * 3_600


def ask_to_sign_in(work: UnitOfWork, command: model.AskToSignIn) -> None:
    """Mail a code and a link; nothing reveals whether the address is known, or was mailed before."""
    tx, now = work.tx, command.context.now
    number = _number_of(tx, command.email)
    license = None if command.key is None else find_typed(tx, command.key)
    is_claim = number < 0 and license is not None and is_claimable(license)
    before = store.lock_sign_ins(tx, number)
    over = rules.surplus(before, now)
    store.delete_sign_ins(tx, over)
    # In a browser that has signed in before, requests of strangers do not delay the mail.
    is_known = find_marked(tx.key_ring, command.mark) == number
    if not is_known and not rules.may_mail([one for one in before if one.id not in over], now):
        return
    email = command.email if is_claim else None
    store.save_new_sign_in(tx, model.SignIn(command.sign_in_id, number, now + model.KEPT_TIME, email=email))
    # One mail for all unknown addresses of a group; it is dropped when it is due.
    cause = command.sign_in_id if number >= 0 or is_claim else number
    mail = QueuedMail(
        template=MailTemplate.SIGN_IN_CODE,
        unique=f"portal sign-in {cause}",
        customer_id=number,
        language=command.language,
        subject=Subject(sign_in_id=str(command.sign_in_id)),
    )
    _queue(work, command, mail)


def mail_keys(work: UnitOfWork, command: model.MailKeys) -> None:
    """Mail the keys; nothing reveals whether the address is known."""
    number = _number_of(work.tx, command.email)
    period = int(command.context.now.timestamp()) // _KEYS_EVERY if number >= 0 else 0
    unique = f"portal keys {number} {period}"
    language = command.language
    mail = QueuedMail(template=MailTemplate.YOUR_KEYS, unique=unique, customer_id=number, language=language)
    _queue(work, command, mail)


def enter_code(work: UnitOfWork, command: model.EnterCode) -> int | None:
    """Start a session and end the customer's sign-ins; return the customer's ID, None for a wrong code."""
    sign_in = _take_code(work, command.sign_in_ids, command.code, command.context.now)
    if sign_in is None or sign_in.customer_id < 0:
        return None
    return _start_session(work, command, sign_in.customer_id, command.token_hash)


def _take_code(
    work: UnitOfWork, sign_in_ids: Collection[int], code: str, now: datetime
) -> model.SignIn | None:
    """Return the sign-in with this code; for a wrong code, count it and return None."""
    tx = work.tx
    asked = [store.lock_sign_in(tx, number) for number in sorted(sign_in_ids)]
    is_right = [passwords.is_code(tx.key_ring, str(one), code) for one in sorted(sign_in_ids)]
    open_ones = [
        (one, right)
        for one, right in zip(asked, is_right, strict=True)
        if one is not None and rules.takes_code(one, now)
    ]
    for sign_in, right in open_ones:
        if right and (sign_in.customer_id >= 0 or sign_in.email):
            return sign_in
    store.count_wrong_code(tx, [sign_in.id for sign_in, _ in open_ones])
    return None


def claim_with_code(work: LicenseWork, command: model.ClaimWithCode) -> License | None:
    """Sign in, and return the license, which now belongs to the customer; None for a wrong code. Raises
    ``NotClaimable``, without a session or a new customer.
    """
    sign_in = _take_code(work, command.sign_in_ids, command.code, command.context.now)
    if sign_in is None:
        return None
    customer_id, license = sign_in.customer_id, work.find_license(command.license)
    if license is None or not (is_claimable(license) or license.customer_id == customer_id):
        raise NotClaimable
    if customer_id < 0:
        customer_id = find_or_make_customer(work, command, email=sign_in.email, language=command.language).id
        store.delete_sign_ins(work.tx, [sign_in.id])
    _start_session(work, command, customer_id, command.token_hash)
    return claim(work, ClaimLicense(context=command.context, license=license.id, customer_id=customer_id))


def follow_mailed_link(work: UnitOfWork, command: model.FollowMailedLink) -> int:
    """Start a session; return the customer's ID. Raises ``CustomerSignInOver``."""
    tx = work.tx
    sign_in = store.lock_sign_in(tx, command.sign_in_id)
    is_right = passwords.is_link_token(tx.key_ring, str(command.sign_in_id), command.link_token)
    if sign_in is None or not is_right or not rules.takes_link(sign_in, command.context.now):
        raise CustomerSignInOver
    return _start_session(work, command, sign_in.customer_id, command.token_hash)


def follow_portal_link(work: UnitOfWork, command: model.FollowPortalLink) -> int:
    """Start a session; return the customer's ID. Raises ``CustomerSignInOver``."""
    customer_id = store.take_link(work.tx, command.link_hash, command.context.now)
    if customer_id is None:
        raise CustomerSignInOver
    return _start_session(work, command, customer_id, command.token_hash, is_by_mail=False)


def make_portal_link(work: UnitOfWork, command: model.MakePortalLink) -> model.PortalLink:
    """Make a link that is valid once. Raises ``NotFound``."""
    if customer_store.CUSTOMERS.find(work.tx, command.customer_id) is None:
        raise NotFound(f"customer {command.customer_id}")
    expires_at = command.context.now + model.LINK_TIME
    store.save_link(work.tx, hash_session_token(command.token), command.customer_id, expires_at)
    work.record_event("customer.portal_link_made", command, {"number": command.customer_id})
    return model.PortalLink(command.customer_id, expires_at, command.token)


def end_session(work: UnitOfWork, command: model.EndPortalSession) -> None:
    """Sign out; do nothing for an unknown session."""
    store.delete_session(work.tx, command.token_hash)


def request_erasure(work: UnitOfWork, command: model.RequestErasure) -> None:
    """Record or withdraw the customer's request for erasure. Raises ``NotFound``."""
    customer = customer_store.CUSTOMERS.lock(work.tx, command.customer_id)
    if customer is None:
        raise NotFound(f"customer {command.customer_id}")
    if command.is_withdrawn == (customer.erasure_requested_at is None):
        return
    at = None if command.is_withdrawn else command.context.now
    customer_store.CUSTOMERS.update(work.tx, replace(customer, erasure_requested_at=at))
    name = "customer.erasure_withdrawn" if command.is_withdrawn else "customer.erasure_requested"
    work.record_event(name, command, {"number": customer.id})


def purge_sign_ins(work: UnitOfWork, command: model.PurgeSignIns) -> None:
    """Delete what is over, and the customers who were made only for offers."""
    store.purge(work.tx, command.before)
    for number in list_offered_only(work.tx, command.before):
        nouns.delete(CUSTOMER_RULES, work, DeleteCustomer(context=command.context, id=number))
    delete_ended(work.tx, command.before)


def _number_of(tx: WriteTransaction, email: str) -> int:
    """Return the ID of the customer with this address; a negative number for an unknown address."""
    customer = customer_store.CUSTOMERS.find_by(tx, "email", email)
    unknown = rules.number_of_unknown(tx.key_ring, email)
    return unknown if customer is None else customer.id


def _queue(work: UnitOfWork, command: Command, mail: QueuedMail) -> None:
    queue_mail(work.tx, mail, command.context.now)
    # The sender looks for mails after every one of these commands, even if it queued none.
    work.tx.has_queued = True


def _start_session(
    work: UnitOfWork, command: Command, customer_id: int, token_hash: bytes, *, is_by_mail: bool = True
) -> int:
    """Start a session, and end the customer's sign-ins. Raises ``CustomerSignInOver``."""
    tx, now, origin = work.tx, command.context.now, command.context.origin
    customer = customer_store.CUSTOMERS.lock(tx, customer_id)
    if customer is None:
        raise CustomerSignInOver
    store.delete_sign_ins(tx, [one.id for one in store.lock_sign_ins(tx, customer_id)])
    store.save_new_session(tx, model.PortalSession(token_hash, customer_id, now, now + model.SESSION_TIME))
    if is_by_mail and customer.email_verified_at is None:
        customer_store.CUSTOMERS.update(tx, replace(customer, email_verified_at=now))
    signed_in = replace(
        command, context=replace(command.context, origin=replace(origin, actor=f"customer:{customer_id}"))
    )
    work.record_event("customer.signed_in", signed_in, {"number": customer_id})
    return customer_id


HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = {
    model.AskToSignIn: ask_to_sign_in,
    model.MailKeys: mail_keys,
    model.EnterCode: enter_code,
    model.ClaimWithCode: claim_with_code,
    model.FollowMailedLink: follow_mailed_link,
    model.FollowPortalLink: follow_portal_link,
    model.MakePortalLink: make_portal_link,
    model.EndPortalSession: end_session,
    model.RequestErasure: request_erasure,
    model.PurgeSignIns: purge_sign_ins,
}
