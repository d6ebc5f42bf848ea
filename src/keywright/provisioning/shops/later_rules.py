"""Derive the effect on a license of later purchases, which renew or upgrade it. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import expiry_after, terms_of
from keywright.licensing.terms.rules import Written, write_by_rule
from keywright.provisioning.shops.model import Again, Does
from keywright.provisioning.shops.rules import to_moment
from keywright.provisioning.shops.sold_model import LaterPurchase, LicenseBefore


class Target(NamedTuple):
    """The result of a license's purchases: its expiry, and the last upgrade."""

    expires_at: datetime | None
    upgrade: LaterPurchase | None = None


class Changed(NamedTuple):
    """The changes of a license, and the terms that a rule writes. ``is_refused``: a change would overwrite
    what was set by hand.
    """

    changes: dict[str, Any]
    written: Written | None = None
    is_refused: bool = False


def keep_before(license: License) -> LicenseBefore:
    """Return what to store of a license, so that a refund can restore it."""
    terms = msgspec.to_builtins(terms_of(license))
    return LicenseBefore(expires_at=license.expires_at, policy_id=license.policy_id, terms=terms)


def derive(before: LicenseBefore, paid: Iterable[tuple[int, LaterPurchase]]) -> Target:
    """Derive the result of these purchases of a license, given in any order, each with the time of its
    payment.

    A renewal extends from the later of expiry and payment. An upgrade never makes the expiry earlier, except
    that of a trial, which it replaces.
    """
    expires_at, upgrade, is_trial = before.expires_at, None, bool(before.terms.get("trial"))
    for at, one in sorted(paid, key=lambda pair: (pair[0], pair[1].order, pair[1].line)):
        begin = to_moment(at)
        if one.does is Does.UPGRADE:
            until = None if one.days is None else expiry_after(begin, one.days)
            is_later = expires_at is not None and until is not None and until > expires_at
            expires_at = until if is_trial or until is None or is_later else expires_at
            upgrade, is_trial = one, False
        elif expires_at is not None:
            expires_at = expiry_after(max(expires_at, begin), (one.days or 0) * one.quantity)
    return Target(expires_at, upgrade)


def decide(license: License, was: Target, now: Target, terms: Mapping[str, Any], again: Again) -> Changed:
    """Decide the changes that give a license what the purchases require; ``terms`` are those of the last
    upgrade, or those before the first. If a person has set the expiry, purchased time is added to it.
    """
    is_forced = again is Again.OVERWRITE
    changes, is_refused = _decide_expiry(license, was.expires_at, now.expires_at, is_forced=is_forced)
    if was.upgrade == now.upgrade and (again is Again.NO or now.upgrade is None):
        return Changed(changes, None, is_refused)
    ids = [terms["policy_id"] if one.upgrade is None else one.upgrade.policy_id for one in (was, now)]
    if license.policy_id not in ids and not is_forced:
        return Changed({}, None, is_refused=True)
    written = write_by_rule(terms_of(license), license.rule_terms, terms["terms"], is_forced=is_forced)
    return Changed(changes | {"policy_id": ids[1]}, written, is_refused or bool(written.kept))


def _decide_expiry(
    license: License, was: datetime | None, now: datetime | None, *, is_forced: bool
) -> tuple[dict[str, Any], bool]:
    has = license.expires_at
    if now == (has if is_forced else was):
        return {}, False
    if has == was or is_forced or now is None:
        return {"expires_at": now}, False
    if was is None or now < was:
        return {}, True
    return ({} if has is None else {"expires_at": has + (now - was)}), False
