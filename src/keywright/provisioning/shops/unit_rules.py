"""Plan the licenses of each line: which there should be, and what to change and to make. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from keywright.core.errors import InvalidTerms
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.rules import END_OF_TIME, expiry_of_new, terms_of
from keywright.licensing.terms import rules as terms_rules
from keywright.licensing.terms.model import Starts, Terms
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.shops import rules
from keywright.provisioning.shops.line_rules import Line, Made, Resolve
from keywright.provisioning.shops.model import Again, MappedProduct, OnCancel, SaleLine
from keywright.provisioning.shops.sold_model import SoldLicense, SoldLine


class Unit(NamedTuple):
    """A sold license, None if it is deleted; the policy that the shop last gave it, and its own, which a
    person may have chosen.
    """

    sold: SoldLicense
    license: License | None
    policy: Policy | None
    own: Policy | None

    @property
    def is_dead(self) -> bool:
        """Whether a person deleted or ended the license: it still counts as held."""
        if self.license is None:
            return True
        return self.license.status == Status.DISABLED != self.sold.status

    @property
    def place(self) -> tuple[bool, bool, int]:
        """The sort key by which licenses stay if there are too many: live, with devices, low number first."""
        has_devices = self.license is not None and self.license.times_activated > 0
        return self.is_dead, not has_devices, self.sold.number


class Held(NamedTuple):
    """The sold lines, and their licenses."""

    lines: Collection[SoldLine]
    units: Collection[Unit]

    def of_line(self, line: SoldLine) -> list[Unit]:
        """The licenses of a line."""
        key = (line.order, line.line)
        return [one for one in self.units if (one.sold.order, one.sold.line) == key]


class Aim(NamedTuple):
    """The desired state of a license; without a policy, its terms stay."""

    wanted: rules.Wanted
    policy: Policy | None = None
    quantity: int = 1
    is_over: bool = False


class NewUnits(NamedTuple):
    """Licenses to make, numbered from ``first``."""

    line: SoldLine
    item: int
    first: int
    amount: int
    aim: Aim


class Plan(NamedTuple):
    """The lines to store, the desired state of each license, and the licenses to make."""

    lines: list[SoldLine]
    aims: list[tuple[Unit, Aim]]
    new: list[NewUnits]


class Decided(NamedTuple):
    """The changes of a license, the terms that a rule writes, and the shop's latest report of it.
    ``is_refused``: a change would overwrite what was done by hand; ``is_kept``: the license keeps a later
    expiry that was set by hand.
    """

    changes: Mapping[str, Any]
    sold: SoldLicense
    written: terms_rules.Written | None = None
    is_refused: bool = False
    is_kept: bool = False


# --- lines ----------------------------------------------------------------------------------------


def build_resolver(
    mapping: Collection[MappedProduct],
    held: Held,
    find_policy: Callable[[int], Policy | None],
    *,
    is_sold_now: bool = False,
) -> Resolve:
    """Build the function that returns what a line makes. A sold line makes what it made before, as long as
    its price stays the same; any other line follows the mapping, and so does one that made nothing, if
    ``is_sold_now``. The result is None for a quantity below one, for policies that cannot be used, and for
    limits that no license can have.
    """
    lines = [one for one in held.lines if one.is_known and (one.policy_ids or not is_sold_now)]
    fixed = {one.refs[:1]: (one.policy_ids, one.rule) for one in lines}

    @cache
    def resolve(line: SaleLine) -> Made | None:
        mapped = rules.find_mapped(mapping, line)
        by_mapping = None if mapped is None else (mapped.policy_ids, mapped.quantity)
        known = fixed.get(line.refs[:1])
        found = known or by_mapping
        policies = () if found is None else tuple(map(find_policy, found[0]))
        usable = [one for one in policies if one and (known or one.archived_at is None)]
        if found is None or len(usable) < len(policies) or line.quantity < 1:
            return None
        made = Made(tuple(usable), found[1])
        try:
            for one in usable:
                terms_rules.multiply_terms(one.terms, made.copies(line.quantity)[1])
        except InvalidTerms:
            return None
        return made

    return resolve


def plan(known: rules.Known, lines: Sequence[Line], held: Held, on_cancel: OnCancel, now: datetime) -> Plan:
    """Plan what gives these lines the licenses that they should have. Lines that the subscription lists
    before its sale was received make no licenses.
    """
    found, matched = Plan([], [], []), _match(lines, held)
    sales = sorted((one for one in known.payments.values() if one.snapshots), key=rules.place_of)
    order = next(iter((*(one.order for one in held.lines), *(one.order for one in sales), None)))
    for i, line in enumerate(lines):
        sold, want = matched.get(i), _wanted_of(known, line, on_cancel)
        is_needed = line.gone_at is None or (want.expiry(None) or END_OF_TIME) > now
        order_ref = line.key[0] or order
        if sold is None and (order_ref is None or not is_needed):
            continue
        if sold is not None and not sold.is_known:
            line = line._replace(made=_made_before(line.made, held.of_line(sold)))  # noqa: PLW2901
        kept = _line_to_keep(line, sold, order_ref or "", held)
        if kept != sold:
            found.lines.append(kept)
        _plan_line(found, line, kept, held, want, is_needed=is_needed)
    rest = [one for one in held.lines if one not in matched.values()]
    for sold in rest:
        # A known line that is not listed any more was replaced by another.
        is_over = sold.is_known and bool(lines)
        want = rules.Wanted(Status.DISABLED) if is_over else rules.wanted(known, on_cancel)
        found.aims.extend((unit, Aim(want, is_over=is_over)) for unit in held.of_line(sold))
    return found


def _match(lines: Sequence[Line], held: Held) -> dict[int, SoldLine]:
    """Find the sold line for each line, by index: by its number, else its price, another ref, its product."""
    matched: dict[int, SoldLine] = {}
    free = list(held.lines)

    def match(is_it: Callable[[Line, SoldLine], bool], *, is_gone: bool | None) -> None:
        for i, line in enumerate(lines):
            if i in matched or is_gone not in (None, line.gone_at is not None):
                continue
            sold = next((one for one in free if is_it(line, one)), None)
            if sold is not None:
                matched[i] = sold
                free.remove(sold)

    match(lambda line, sold: line.key == (sold.listed_in, sold.listed_as), is_gone=None)
    match(lambda line, sold: line.sold_as == (sold.listed_in, sold.listed_as), is_gone=None)
    for is_gone in (False, True):
        match(lambda line, sold: line.line.refs[:1] == sold.refs[:1] != (), is_gone=is_gone)
        match(lambda line, sold: bool({*line.line.refs} & {*sold.refs}), is_gone=is_gone)
    match(lambda line, sold: bool(_products_of(sold, held) & line.made.products), is_gone=False)
    return matched


def _products_of(sold: SoldLine, held: Held) -> set[int | None]:
    return {unit.policy.product_id for unit in held.of_line(sold) if unit.policy is not None}


def _wanted_of(known: rules.Known, line: Line, on_cancel: OnCancel) -> rules.Wanted:
    if line.is_once:
        want = rules.wanted_once(known, line.key[0])
        end = None if line.gone_at is None else rules.to_moment(line.gone_at)
        return want._replace(ended_at=end, has_grace=end is None and want.has_grace)
    return (
        rules.wanted(known, on_cancel)
        if line.gone_at is None
        else rules.wanted_gone(known, line.gone_at, on_cancel)
    )


def _line_to_keep(line: Line, sold: SoldLine | None, order: str, held: Held) -> SoldLine:
    """Return the line to store."""
    fields: dict[str, Any] = {
        "listed_in": line.key[0],
        "listed_as": line.key[1],
        "refs": line.line.refs,
        "policy_ids": tuple(one.id for one in line.made.policies),
        "rule": line.made.rule,
        "is_known": True,
    }
    if sold is not None:
        return replace(sold, **fields)
    used = {one.line for one in held.lines if one.order == order}
    names = (line.key[1] if not i else f"{line.key[1]}.{i}" for i in range(len(used) + 1))
    return SoldLine(order=order, line=next(one for one in names if one not in used), **fields)


def _made_before(made: Made, units: Collection[Unit]) -> Made:
    """Return what a line makes that was sold by an older version: its licenses keep their policies."""
    policies = {one.policy.product_id: one.policy for one in units if one.policy is not None}
    return made._replace(policies=tuple(policies.get(one.product_id, one) for one in made.policies))


def _plan_line(
    found: Plan, line: Line, kept: SoldLine, held: Held, want: rules.Wanted, *, is_needed: bool
) -> None:
    count, quantity = line.made.copies(line.line.quantity)
    free = sorted(held.of_line(kept), key=lambda one: one.place)
    ids = {one.id for one in line.made.policies}
    for item, policy in enumerate(line.made.policies):
        units = [one for one in free if _may_have(one, policy, ids)]
        units.sort(key=lambda one: (one.is_dead, one.policy is not None and one.policy.id != policy.id))
        over = sorted((one for one in units if one.sold.is_over), key=lambda one: one.sold.number)
        chosen = [*(one for one in units if not one.sold.is_over), *over][:count]
        taken = {one.sold.license_id for one in chosen}
        free = [one for one in free if one.sold.license_id not in taken]
        aim = Aim(want, policy, quantity)
        found.aims.extend((one, aim) for one in chosen)
        if len(chosen) < count and is_needed:
            numbers = [one.sold.number for one in held.of_line(kept) if one.sold.item == item]
            first = max(numbers, default=-1) + 1
            found.new.append(NewUnits(kept, item, first, count - len(chosen), aim))
    found.aims.extend((one, Aim(rules.Wanted(Status.DISABLED), is_over=True)) for one in free)


def _may_have(unit: Unit, policy: Policy, ids: Collection[int]) -> bool:
    """Whether a license has this policy, or may get it: those with another policy of the line keep theirs."""
    before = unit.policy
    if before is None or before.id == policy.id:
        return True
    return before.product_id == policy.product_id and before.id not in ids


# --- licenses -------------------------------------------------------------------------------------


def terms_for(policy: Policy, quantity: int, *, has_grace: bool) -> Terms:
    """Return the terms of a license of this policy. Raises ``InvalidTerms`` for limits beyond the maximum."""
    terms = terms_rules.multiply_terms(policy.terms, quantity)
    return terms if has_grace else replace(terms, grace_days=0)


def decide(unit: Unit, license: License, aim: Aim, again: Again = Again.NO) -> Decided:
    """Decide the changes that give the license the desired state.

    A repeated report changes nothing. A field with another value than the shop gave it was changed by hand: a
    later expiry stays, and any other change is refused, unless ``again`` is to overwrite it.
    """
    sold, want, is_forced = unit.sold, aim.wanted, again is Again.OVERWRITE
    if want.status not in (sold.status, license.status) and license.status != sold.status and not is_forced:
        return Decided({}, sold, is_refused=True)
    # Keep the stored status, so that an earlier report does not revive what a person has ended.
    status = sold.status if unit.is_dead and want.status is Status.DISABLED else int(want.status)
    now_sold = replace(sold, status=status, is_over=aim.is_over)
    if want.status is Status.DISABLED:
        return Decided(_status_of(sold, license, want), now_sold)
    found = _decide_terms(unit, license, aim, again)
    of_terms = _terms_expire_at(unit, license, aim)
    now_sold = replace(found.sold, status=now_sold.status, is_over=aim.is_over, terms_expire_at=of_terms)
    found = found._replace(changes={**_status_of(sold, license, want), **found.changes}, sold=now_sold)
    wanted_at = want.expiry(of_terms)
    if wanted_at == sold.expires_at:
        return found
    expires_at = _decide_expiry(sold, license, wanted_at, is_forced=is_forced)
    if isinstance(expires_at, rules.Unset):
        return Decided({}, sold, is_refused=True)
    changes = {**found.changes, "expires_at": expires_at}
    if expires_at == license.expires_at:
        changes.pop("expires_at")
    now_sold = replace(now_sold, expires_at=wanted_at)
    return found._replace(changes=changes, sold=now_sold, is_kept=expires_at != wanted_at)


def _status_of(sold: SoldLicense, license: License, want: rules.Wanted) -> dict[str, Any]:
    is_same = want.status in (sold.status, license.status)
    return {} if is_same else {"status": int(want.status)}


def _decide_terms(unit: Unit, license: License, aim: Aim, again: Again) -> Decided:
    """Decide policy, quantity and terms. If a person has chosen another policy, its terms are used."""
    sold, policy, last, is_forced = (
        unit.sold,
        aim.policy or unit.policy,
        unit.policy,
        again is Again.OVERWRITE,
    )
    if policy is None:
        return Decided({}, sold)
    quantity = sold.quantity if aim.policy is None else aim.quantity
    now_sold = replace(sold, policy_id=policy.id, quantity=quantity, has_grace=aim.wanted.has_grace)
    is_other = last is not None and last.id != policy.id
    is_by_hand = last is not None and license.policy_id not in (last.id, policy.id)
    names = _names_to_write(sold, now_sold, license, is_other=is_other, is_again=again is not Again.NO)
    if is_by_hand and is_forced:
        names = Terms.__struct_fields__
    elif is_by_hand and is_other:
        return Decided({"quantity": quantity}, now_sold, is_refused=True)
    source = policy if is_forced or not is_by_hand or unit.own is None else unit.own
    changes = {"quantity": quantity, "policy_id": source.id if names else license.policy_id}
    changes = {name: value for name, value in changes.items() if getattr(license, name) != value}
    if not names:
        return Decided(changes, now_sold)
    terms = terms_rules.select_terms(terms_for(source, quantity, has_grace=aim.wanted.has_grace), names)
    written = terms_rules.write_by_rule(terms_of(license), license.rule_terms, terms, is_forced=is_forced)
    return Decided(changes, now_sold, written, is_refused=bool(written.kept))


def _names_to_write(
    before: SoldLicense, after: SoldLicense, license: License, *, is_other: bool, is_again: bool
) -> tuple[str, ...]:
    """Return the names of the terms that a rule writes now: all of them with another policy."""
    if is_other:
        return Terms.__struct_fields__
    names = set(terms_rules.set_by_hand(license.rule_terms)) if is_again else set()
    if after.quantity != (license.quantity if before.policy_id is None else before.quantity):
        names |= {*terms_rules.LIMITS}
    if after.has_grace != before.has_grace:
        names.add("grace_days")
    return tuple(sorted(names))


def _terms_expire_at(unit: Unit, license: License, aim: Aim) -> datetime | None:
    """Return the expiry by the terms, which the first activation may have set, or by another policy's."""
    sold, policy = unit.sold, aim.policy
    is_other = unit.policy is not None and policy is not None and unit.policy.id != policy.id
    if is_other and policy is not None and policy.terms.starts is Starts.CREATION:
        return expiry_of_new(policy.terms, license.created_at)
    is_open = sold.expires_at is None and sold.terms_expire_at is None
    return license.expires_at if is_open else sold.terms_expire_at


def _decide_expiry(
    sold: SoldLicense, license: License, want: datetime | None, *, is_forced: bool
) -> datetime | rules.Unset | None:
    """Return the expiry for the license; ``UNSET`` if that would overwrite what was done by hand."""
    # If the shop has stated none, the terms may have set one since.
    is_by_hand = sold.expires_at is not None and license.expires_at != sold.expires_at
    if not is_by_hand or is_forced:
        return want
    last, has, wants = (one or END_OF_TIME for one in (sold.expires_at, license.expires_at, want))
    if wants < last and has != wants:
        return rules.UNSET
    return license.expires_at if has >= wants else want
