"""Describe the outcome of an event: what changed, or the fact that explains why nothing changed. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from keywright.licensing.licenses.model import License, Status
from keywright.provisioning.shops import model
from keywright.provisioning.shops.line_rules import Key, Line, Resolve
from keywright.provisioning.shops.rules import Known, is_proration, payment_ref, subscription_of
from keywright.provisioning.shops.sold_model import Payment, Snapshots
from keywright.provisioning.shops.unit_rules import Held

#: Descriptions of changes, each with the number of licenses that it applies to.
Notes = Mapping[str, int]
_TERMS = {"quantity": "quantity", "policy_id": "policy", "times_activated_max": "devices"}
_LONGER = "until"
_STATUSES = {Status.ACTIVE: "active", Status.INACTIVE: "suspended", Status.DISABLED: "disabled"}


class Outcome(NamedTuple):
    """The outcome of an event, which is checked again at ``look_at``."""

    state: model.EventState
    reason: model.Reason | None = None
    detail: str | None = None
    customer_id: int | None = None
    look_at: datetime | None = None


def note_changes(license: License, changes: Mapping[str, Any], *, is_over: bool) -> list[str]:
    """Describe the changes of a license, in a few words each."""
    if is_over:
        return ["ended"]
    notes = []
    if "status" in changes:
        notes.append(_STATUSES[changes["status"]])
    if "expires_at" in changes:
        notes.append(_note_expiry(license.expires_at, changes["expires_at"]))
    pairs = ((_TERMS[name], getattr(license, name), changes[name]) for name in _TERMS if name in changes)
    notes += [f"{words} {before} → {after}" for words, before, after in pairs]
    return notes or ["other terms"]


def _note_expiry(before: datetime | None, after: datetime | None) -> str:
    if after is None:
        return "without an end"
    return f"{_LONGER if before is None or after > before else 'ends'} {after:%Y-%m-%d %H:%M:%S}"


def describe(notes: Notes) -> str:
    """Return the notes as text: ``2 licenses: made; 1 license: until 2027-01-01 00:00:00``."""
    return "; ".join(f"{n} license{'' if n == 1 else 's'}: {word}" for word, n in notes.items())


def is_other(notes: Notes) -> bool:
    """Whether the buyer's licenses have changed, without new keys."""
    changed = any(one.startswith((*_TERMS.values(), "ended", "other")) for one in notes)
    return changed and not {"made", _STATUSES[Status.ACTIVE]} & {*notes}


def is_longer(notes: Notes) -> bool:
    """Whether a license has a later end."""
    return any(one.startswith(_LONGER) for one in notes)


def add_notes(notes: Notes, more: Collection[str]) -> Notes:
    """Add the notes about one more license."""
    return dict(Counter(notes) + Counter(more))


# --- nothing has changed --------------------------------------------------------------------------


def find_fact(
    change: model.Sale | model.Renewal | model.StateChange | model.Lines, at: int, known: Known, note: str
) -> Outcome:
    """Find the fact that explains why an event changed nothing."""
    ref = payment_ref(change) or ""
    payment = known.payments.get(ref, Payment(order=ref))
    newest = _newest(change, payment, known)
    subscription = subscription_of(known)
    if note:
        return _done(model.Reason.NOT_FOLLOWED, note)
    if is_proration(payment) and not isinstance(change, model.Lines):
        return _done(model.Reason.NO_PERIOD_PAID, payment.order)
    if newest > at:
        return _done(model.Reason.OLDER, str(newest))
    if isinstance(change, model.Sale) and known.subscription is not None and known.subscription.snapshots:
        return _done(model.Reason.LISTED_BY_SUBSCRIPTION, known.subscription.ref)
    if subscription is not None and subscription.state is model.SaleState.GRACE:
        return _done(model.Reason.IN_GRACE, subscription.ref)
    return _done(model.Reason.ALREADY_SO, getattr(change, "order", None) or change.subscription)


def _done(reason: model.Reason, detail: str | None) -> Outcome:
    return Outcome(model.EventState.DONE, reason, detail)


def _newest(
    change: model.Sale | model.Renewal | model.StateChange | model.Lines, payment: Payment, known: Known
) -> int:
    """Return the time of the newest report about the object of the event."""
    subscription = known.subscription
    match change:
        case model.Lines():
            snapshots = {} if subscription is None else subscription.snapshots
            return _last(snapshots.get(change.part, ()))
        case model.Sale():
            return _last(payment.snapshots)
        case model.StateChange() if change.order is not None:
            return int(getattr(payment, f"{change.fact.value}_at"))
        case model.StateChange():
            found = subscription_of(known)
            return 0 if found is None else found.state_at
    return 0


def _last(snapshots: Snapshots) -> int:
    return snapshots[-1].at if snapshots else 0


# --- paid and held --------------------------------------------------------------------------------


def compare_paid(paid: Collection[model.SaleLine], lines: Collection[Line], resolve: Resolve) -> str | None:
    """Return ``paid for 10, holds 3`` if what was paid for is not what the subscription has; None if it is,
    or if it is not known what was paid for.
    """
    wanted, held = Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
    for one in paid:
        made = resolve(one)
        if made is not None and made.policies:
            wanted[tuple(policy.id for policy in made.policies)] += one.quantity
    for line in lines:
        if line.made.policies and line.gone_at is None and not line.is_once:
            held[tuple(policy.id for policy in line.made.policies)] += line.line.quantity
    if not wanted or wanted == held:
        return None
    return f"paid for {wanted.total()}, holds {held.total()}"


def compare_held(
    paid: Collection[model.SaleLine], held: Held, once: Collection[Key], resolve: Resolve
) -> str | None:
    """Return ``paid for 10, holds 3`` if the licenses are not those of these lines. Licenses of lines that
    were paid ``once`` are not compared; one that a person deleted or ended counts as held.
    """
    wanted, holds = Counter[int | None](), Counter[int | None]()
    for one in paid:
        made = resolve(one)
        if made is None:
            return None
        wanted.update({policy.id: one.quantity for policy in made.policies})
    single = {(one.order, one.line) for one in held.lines if (one.listed_in, one.listed_as) in once}
    for sold in (one.sold for one in held.units):
        if not sold.is_over and (sold.order, sold.line) not in single:
            holds[sold.policy_id] += sold.quantity
    return None if wanted == holds else f"paid for {wanted.total()}, holds {holds.total()}"
