"""Jobs in words: what each does, for which licenses, and its messages."""

import re
from collections.abc import Callable, Mapping

from keywright.db import ReadTransaction
from keywright.http.pages.error_messages import explain
from keywright.http.pages.formats import N_, _, ngettext, write_moment, write_number
from keywright.jobs import orders
from keywright.jobs.model import Job
from keywright.jobs.orders import (
    Apply,
    Change,
    Export,
    Generate,
    Import,
    MakeFiles,
    Notify,
    Order,
    TakeBack,
    What,
)
from keywright.licensing.licenses.model import Status
from keywright.provisioning.importers.model import Verdict
from keywright.provisioning.importers.run import ODDITIES, VERDICTS
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import names_of
from keywright.search.filters import Search

#: Why a license is not changed: the reasons of ``jobs.orders.reason_of``, and those that jobs add.
REASONS = (
    N_("the history does not contain the previous state"),
    N_("it is already valid for longer"),
    N_("the limit would be too large"),
    N_("another license now has its key"),
    N_("too few places are free"),
    N_("it has no expiry that could be extended"),
    N_("it has no limit"),
    N_("no place is taken"),
    N_("it is already like that"),
    N_("another license now has its order line"),
    N_("it no longer exists"),
    N_("it no longer matches"),
    N_("no device is activated"),
    N_("it is disabled"),
    N_("it has expired"),
    N_("it is inactive"),
    N_("its terms do not allow license files"),
)
#: Why a job failed or was stopped.
SENTENCES = (
    N_("The policy has been deleted."),
    N_("The policy cannot make that many new keys: almost all possible keys exist already."),
    N_("The API key that started the job was revoked."),
    N_("The user who started the job no longer exists."),
    N_("The notice is no longer published."),
    N_("The job came from a restored backup."),
)

#: The reasons that name fields.
_CHANGED_SINCE = re.compile(r"it has been changed since \((.+)\)")
_SET_BY_HAND = re.compile(r"it was set by hand \((.+)\)")
_WRONG_VALUE = re.compile(r"(\w+) ((?:must|is) .+)")


def translate_message(line: str) -> str:
    """Translate a line of a job's messages; an unknown line is returned unchanged."""
    if line in SENTENCES:
        return _(line)
    for pattern, translate in _PATTERNS:
        if (found := pattern.fullmatch(line)) is not None:
            return translate(*found.groups())
    return line


def translate_reason(reason: str) -> str:
    """Translate the reason why a license is not changed; an unknown one is returned unchanged."""
    if reason in REASONS:
        return _(reason)
    if (found := _CHANGED_SINCE.fullmatch(reason)) is not None:
        return _("it has been changed since (%(fields)s)", fields=found[1])
    if (found := _SET_BY_HAND.fullmatch(reason)) is not None:
        return _("it was set by hand (%(fields)s)", fields=found[1])
    return reason


def explain_line(reason: str) -> str:
    """Translate why a line of a table cannot be used: the column and its error."""
    found = _WRONG_VALUE.fullmatch(reason)
    return reason if found is None else f"{found[1]}: {explain(found[2])}"


def _of_license(number: str, reason: str) -> str:
    return _("License %(number)s: %(reason)s.", number=number, reason=translate_reason(reason))


def _of_line(number: str, reason: str) -> str:
    return _("Line %(number)s: %(reason)s", number=number, reason=explain_line(reason))


#: Message lines that contain values, and their translations.
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[..., str]], ...] = (
    (re.compile(r"License (\d+): (.+)\."), _of_license),
    (
        re.compile(r"Customer (\d+): no e-mail address\."),
        lambda number: _("Customer %(number)s: no e-mail address.", number=number),
    ),
    (
        re.compile(r"Files: (\d+)\. Mails: (\d+)\. .+: (\d+)\. .+: (\d+)\."),
        lambda files, mails, unowned, unreachable: _(
            "Files: %(files)s. Mails: %(mails)s. Licenses without a customer: %(unowned)s. Customers without "
            "an e-mail address: %(unreachable)s.",
            files=files,
            mails=mails,
            unowned=unowned,
            unreachable=unreachable,
        ),
    ),
    (re.compile(r"Line (\d+): (.+)\."), _of_line),
    (re.compile(r"(.+) was disabled\."), lambda name: _("%(name)s was disabled.", name=name)),
    (
        re.compile(r"(.+) may no longer change licenses\."),
        lambda name: _("%(name)s may no longer change licenses.", name=name),
    ),
)


#: The states of jobs, which pages show through ``_(one.value)``.
_STATES = (
    *(N_("waiting"), N_("running"), N_("done")),
    *(N_("failed"), N_("canceled"), N_("stopped")),
)


def title_of(tx: ReadTransaction, job: Job) -> str:
    """The job's order in words."""
    order = orders.order_of(job)
    match order:
        case Generate():
            policy = policy_store.find_policy(tx, order.policy_id)
            return ngettext(
                "Make %(num)s license with %(policy)s",
                "Make %(num)s licenses with %(policy)s",
                order.amount,
                policy=_policy(order.policy_id) if policy is None else policy.name,
            )
        case Change():
            return _describe_change(order)
        case Export():
            return _("Export to a file")
        case Import():
            return _("Import %(name)s", name=order.file_name)
        case _:
            return _describe_other(order)


def _describe_other(order: TakeBack | Notify | Apply | MakeFiles) -> str:
    if isinstance(order, TakeBack):
        return _("Take back job %(number)s", number=order.job_id)
    if isinstance(order, Notify):
        return _("Notify the customers whom notice %(number)s affects", number=order.notice_id)
    if isinstance(order, MakeFiles):
        return _("Make license files, and mail them") if order.is_mailed else _("Make license files")
    terms = ", ".join(order.terms)
    return _("Apply terms of policy %(number)s: %(terms)s", number=order.policy_id, terms=terms)


def _describe_change(order: Change) -> str:
    amount = order.amount or 0
    if order.what is What.EXTEND:
        return _describe_extension(order, amount)
    if order.what is What.SET_LIMIT:
        return _describe_limit(amount)
    if order.what is What.RAISE_LIMIT:
        return ngettext("Allow %(num)s more place", "Allow %(num)s more places", amount)
    if order.what is What.SET_STATUS:
        return _("Set the status to %(status)s", status=_(Status(amount).name.lower()))
    words = {
        What.DEACTIVATE_ALL: _("Free all places"),
        What.DISABLE: _("Disable"),
        What.ENABLE: _("Enable"),
        What.DELETE: _("Delete"),
    }
    return words[order.what]


def _describe_extension(order: Change, amount: int) -> str:
    if order.zone is None and order.is_from_now:
        return ngettext("Extend by %(num)s day from now", "Extend by %(num)s days from now", amount)
    if order.zone is None:
        return ngettext("Extend by %(num)s day", "Extend by %(num)s days", amount)
    if order.is_from_now:
        return ngettext("Extend by %(num)s month from now", "Extend by %(num)s months from now", amount)
    return ngettext("Extend by %(num)s month", "Extend by %(num)s months", amount)


def _describe_limit(places: int) -> str:
    if not places:
        return _("Remove the limit")
    return ngettext("Set the limit to %(num)s place", "Set the limit to %(num)s places", places)


def scope_of(tx: ReadTransaction, order: Order) -> str:
    """The licenses that an order concerns, in words; "" for none."""
    if isinstance(order, Generate):
        words = _describe_numbers(tx, order)
        return _("For: %(what)s", what=", ".join(words)) if words else ""
    if isinstance(order, Import | TakeBack):
        return ""
    if order.license_ids is not None:
        amount = len(set(order.license_ids))
        return ngettext("%(num)s selected license", "%(num)s selected licenses", amount)
    words = [] if order.search is None else _describe_search(tx, order.search)
    return _("Licenses: %(which)s", which=", ".join(words)) if words else _("All licenses")


def _describe_search(tx: ReadTransaction, search: Search) -> list[str]:
    words = [] if search.status is None else [_(Status(search.status).name.lower())]
    words += _describe_numbers(tx, search)
    if (days := search.expiring_within_days) is not None:
        words.append(ngettext("expiring within %(num)s day", "expiring within %(num)s days", days))
    words += _describe_times(search)
    if search.policy_id is not None:
        words.append(_policy(search.policy_id))
    if search.tag is not None:
        words.append(_("tag %(name)s", name=search.tag))
    if search.external_id is not None:
        words.append(_("external ID %(name)s", name=search.external_id))
    if search.made_by is not None:
        words.append(_("made by API key %(number)s", number=search.made_by))
    if search.made_by_user is not None:
        words.append(_("made by user %(number)s", number=search.made_by_user))
    if search.job_id is not None:
        words.append(_("made or changed by job %(number)s", number=search.job_id))
    words += [_("full")] * search.is_full + [_("never activated")] * search.is_unused
    words += [_("found by a search")] * (search.term is not None or search.license_id is not None)
    return words


def _describe_times(search: Search) -> list[str]:
    words = [_("expired")] * search.is_expired
    after, before = search.expires or (None, None)
    if after is not None:
        words.append(_("expiring after %(time)s", time=write_moment(after)))
    if before is not None:
        words.append(_("expiring before %(time)s", time=write_moment(before)))
    after, before = search.created or (None, None)
    if after is not None:
        words.append(_("created after %(time)s", time=write_moment(after)))
    if before is not None:
        words.append(_("created before %(time)s", time=write_moment(before)))
    after, _before = search.updated or (None, None)
    if after is not None:
        words.append(_("changed after %(time)s", time=write_moment(after)))
    if (days := search.unseen_for_days) is not None:
        words.append(ngettext("not seen for %(num)s day", "not seen for %(num)s days", days))
    return words


def _describe_numbers(tx: ReadTransaction, source: Search | Generate) -> list[str]:
    words = []
    if (number := source.product_id) is not None:
        words.append(_("product %(name)s", name=_name(tx, NameKind.PRODUCT, number)))
    if (number := source.customer_id) is not None:
        words.append(_("customer %(name)s", name=_name(tx, NameKind.CUSTOMER, number)))
    if source.order_id is not None:
        words.append(_("order %(number)s", number=source.order_id))
    if isinstance(source, Search) and source.order_ref is not None:
        words.append(_("order %(number)s", number=source.order_ref))
    return words


def _name(tx: ReadTransaction, kind: NameKind, number: int) -> str:
    name = names_of(tx, kind, [number]).get(number)
    return str(number) if name is None else f"{name} ({number})"


def _policy(number: int) -> str:
    return _("policy %(number)s", number=number)


def describe_outcomes(outcomes: Mapping[str, int]) -> list[str]:
    """The progress of an import: a sentence for each kind of record, and for each oddity."""
    licenses = [f"{write_number(outcomes[one])} {_(VERDICTS[one])}" for one in Verdict if outcomes.get(one)]
    customers, activations = (
        [
            f"{write_number(outcomes[f'{kind}.{one}'])} {_(VERDICTS[one])}"
            for one in Verdict
            if outcomes.get(f"{kind}.{one}")
        ]
        for kind in ("customer", "activation")
    )
    odd = [
        f"{_(what)}: {write_number(outcomes[f'odd.{code}'])} ({_(done)})."
        for code, (what, done) in ODDITIES.items()
        if outcomes.get(f"odd.{code}")
    ]
    listed = [_("Licenses: %(what)s.", what=", ".join(licenses))] if licenses else []
    listed += [_("Customers: %(what)s.", what=", ".join(customers))] if customers else []
    listed += [_("Activations: %(what)s.", what=", ".join(activations))] if activations else []
    return listed + odd
