"""The event log, newest first, with filters, and as a file."""

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from keywright.db import ReadTransaction
from keywright.events.prose import PROSE
from keywright.http.admin import event_text, event_views
from keywright.http.admin.event_views import Filter, list_filtered, read_filter, to_file
from keywright.http.admin.name_suggestions import suggest_names
from keywright.http.admin.periods import PRESETS, Chip, build_chips
from keywright.http.admin.texts import FIGURES
from keywright.http.pages.formats import N_, _, write_day, write_month
from keywright.http.pages.forms import parse_number
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import ApiKey, Right, User
from keywright.identity.store import list_api_keys, list_users
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import names_of
from keywright.search.reports import date_of
from keywright.search.reports_rules import Counted

_PAGE_SIZE = 50
#: Actors that are neither users nor API keys.
_OTHER_ACTORS = [
    ("program", N_("Programs without an API key")),
    ("portal", N_("Customers with a license key")),
    ("cli:", N_("The terminal")),
    ("keywright", N_("Keywright itself")),
]
#: Visitors appear only in events that only administrators may see.
_VISITOR = ("visitor", N_("Visitors not signed in"))


class Events(Section):
    """The event log."""

    label = N_("Events")
    path = "/events"
    group = N_("Activity")
    icon = "clock"
    right = Right.LOOK

    @page("")
    def list_page(self, request: PageRequest) -> Response:
        """A page of the events that match the filter."""
        before_id = parse_number(request.query.get("before", ""))
        filter_ = request.ask(lambda tx: read_filter(tx, request))
        found = request.ask(lambda tx: list_filtered(tx, filter_, before_id, _PAGE_SIZE))
        names = request.ask(lambda tx: event_views.find_names(tx, found.events))
        is_all_shown = filter_.where.without is None
        options = _event_options(filter_.where.without)
        actors = request.ask(lambda tx: _actor_options(tx, filter_.where.actor, is_all_shown=is_all_shown))
        kinds = {value: text for _group, some in options + actors for value, text in some}
        return request.render(
            "events/list.html",
            status=422 if filter_.errors else 200,
            events=event_views.to_views(found.events, names, request.user),
            before=found.before_id,
            is_incomplete=found.is_incomplete,
            is_first="before" not in request.query,
            filter=filter_,
            query=filter_.query,
            presets=PRESETS,
            wrong=filter_.errors,
            suggestions=request.ask(suggest_names),
            event_options=options,
            actor_options=actors,
            chips=request.ask(lambda tx: _describe_filter(tx, filter_, kinds)),
        )

    @page("/export")
    def export(self, request: PageRequest) -> Response:
        """The events that match the filter, as CSV; none if the filter has errors."""
        filter_ = request.ask(lambda tx: read_filter(tx, request))
        return request.download(f"events-{request.now:%Y%m%d}.csv", to_file(request, filter_))


def _describe_filter(tx: ReadTransaction, filter_: Filter, kinds: Mapping[str, str]) -> list[Chip]:
    """The conditions of a filter, in words; ``kinds`` has the labels of the choices."""
    where, period, query = filter_.where, filter_.period, filter_.query
    owners = [(where.customer_id, NameKind.CUSTOMER), (where.product_id, NameKind.PRODUCT)]
    customer, product = (_name_owner(tx, kind, number) for number, kind in owners)
    days = " – ".join(write_day(one) if one else "…" for one in (period.first, period.last))
    conditions = [
        ("counted", _("Counted in the reports"), _describe_counted(tx, where.counted)),
        ("what", _("Event"), kinds.get(where.name or "", where.name or "")),
        ("customer", _("Customer"), customer),
        ("product", _("Product"), product),
        ("who", _("By"), kinds.get(where.actor or "", where.actor or "")),
        ("license", _("License"), str(where.license_id or "")),
        (" ".join(("period", "from", "to")), _("Period"), days if (period.first or period.last) else ""),
    ]
    return build_chips("/events", query, conditions)


def _describe_counted(tx: ReadTransaction, counted: Counted | None) -> str:
    if counted is None:
        return ""
    months = dict.fromkeys(write_month(date_of(one)) for one in (counted.months[0], counted.months[-1]))
    product = _name_owner(tx, NameKind.PRODUCT, counted.subject_id or None)
    return ", ".join(one for one in (_(FIGURES[counted.name]), " – ".join(months), product) if one)


def _name_owner(tx: ReadTransaction, kind: NameKind, number: int | None) -> str:
    return "" if number is None else names_of(tx, kind, [number]).get(number, str(number))


def _event_options(hidden: str | None) -> list[tuple[str, list[tuple[str, str]]]]:
    """The choices of events, grouped by noun: all of its events, or one kind."""
    return [
        (
            _(noun),
            [
                (_prefix(texts), _("%(noun)s: all", noun=_(noun))),
                *((name, event_text.describe_kind(name)) for name in texts),
            ],
        )
        for noun, texts in PROSE.items()
        if _prefix(texts) != hidden
    ]


def _prefix(texts: Mapping[str, str]) -> str:
    """The common prefix of the names of these events."""
    return f"{next(iter(texts)).partition('.')[0]}."


def _actor_options(
    tx: ReadTransaction, chosen: str | None, *, is_all_shown: bool
) -> list[tuple[str, list[tuple[str, str]]]]:
    """The choices of actors, including the chosen one."""
    others = [*_OTHER_ACTORS, _VISITOR] if is_all_shown else _OTHER_ACTORS
    users: Sequence[User] = list_users(tx)
    api_keys: Sequence[ApiKey] = list_api_keys(tx)
    groups = [
        (_("Users"), [(f"user:{one.id}", one.name) for one in users]),
        (_("API keys"), [(f"api_key:{one.id}", one.name) for one in api_keys]),
        (_("Others"), [(value, _(text)) for value, text in others]),
    ]
    known = {value for __, options in groups for value, __ in options}
    if chosen is not None and chosen not in known:
        groups.append((_("Another actor"), [(chosen, event_text.describe_actor(chosen))]))
    return groups
