"""Search for anything from the top bar of every page."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from starlette.responses import Response

from keywright.core.crypto import mask
from keywright.core.errors import NoSuchAddress
from keywright.core.words import fold, match_for, split_words
from keywright.db.transaction import ReadTransaction
from keywright.http.admin.job_text import title_of
from keywright.http.admin.sections.licenses import filter as license_filter
from keywright.http.admin.sections.licenses.filter import Names, find_names
from keywright.http.admin.texts import license_state, seal_text, unseal_text
from keywright.http.pages.formats import N_
from keywright.http.pages.formats import gettext as _
from keywright.http.pages.page import Section, page
from keywright.http.pages.render import BASE, url
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.identity.store import list_users
from keywright.jobs import store as job_store
from keywright.jobs.model import Job, JobState
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.provisioning.policies.store import list_policies
from keywright.provisioning.products import NameKind
from keywright.provisioning.shops.store import list_connections
from keywright.search import matches, projector, query_parser
from keywright.search.matches import Matches, NameMatch, OrderMatch, Place, page_of, parse_number

#: The number of the latest jobs whose titles are searched.
_MAX_JOBS = 200


class Hit(NamedTuple):
    """A search result: the address of its page, its title, and details that distinguish it from others."""

    path: str
    title: str
    detail: str = ""


class Group(NamedTuple):
    """Hits of one kind, the position to continue after (None: no more), and a note if incomplete."""

    hits: list[Hit]
    after: Place | None = None
    note: str = ""


class Asked(NamedTuple):
    """A search: the text, the time, the most hits of a group, the position after which they begin, and a
    check of the user's rights.
    """

    typed: str
    now: datetime
    limit: int
    after: Place | None = None
    may: Callable[[Right], bool] = lambda _right: False


def _find_customers(tx: ReadTransaction, asked: Asked) -> Group:
    found = matches.find_names(tx, NameKind.CUSTOMER, asked.typed, after=asked.after, limit=asked.limit)
    return _group_of(found, [_name_hit("customer", one) for one in found.items])


def _find_products(tx: ReadTransaction, asked: Asked) -> Group:
    found = matches.find_names(tx, NameKind.PRODUCT, asked.typed, after=asked.after, limit=asked.limit)
    return _group_of(found, [_name_hit("product", one) for one in found.items])


def _name_hit(kind: str, match: NameMatch) -> Hit:
    numbered = _numbered(kind, match.id)
    title = match.name or match.other or numbered
    details = [match.other or "", numbered]
    path = url(f"/{kind}s/{match.id}") if match.is_known else url("/licenses", **{kind: match.id})
    return Hit(path, title, _join(one for one in details if one != title))


def _find_licenses(tx: ReadTransaction, asked: Asked) -> Group:
    found = matches.find_licenses_like(tx, asked.typed, after=asked.after, limit=asked.limit)
    names = find_names(tx, found.items)
    hits = [_license_hit(one, names, _(license_state(one, asked.now))) for one in found.items]
    too_many = _("Too many keys begin or end like this. Type the whole key.")
    return Group(hits, found.after, too_many if found.is_incomplete else "")


def _license_hit(license: License, names: Names, state: str) -> Hit:
    called, key = _join(_names_of(license, names)), mask(license.key)
    numbered = _("License %(number)s", number=license.id)
    return Hit(
        url(f"/licenses/{license.id}"), called or numbered, _join([key, numbered * bool(called), state])
    )


def _find_orders(tx: ReadTransaction, asked: Asked) -> Group:
    return Group([_order_hit(one) for one in matches.find_orders(tx, asked.typed)])


def _order_hit(order: OrderMatch) -> Hit:
    text = str(order.number) if order.ref is None else order.ref
    title = _("Order %(order)s", order=text)
    if order.only_license_id is not None:
        return Hit(url(f"/licenses/{order.only_license_id}"), title, _("1 license"))
    return Hit(url("/licenses", order=text), title, _("several licenses"))


def _find_devices(tx: ReadTransaction, asked: Asked) -> Group:
    found = matches.find_devices(tx, asked.typed, after=asked.after, limit=asked.limit)
    licenses = find_licenses_by_id(tx, sorted({one.license_id for one in found.items}))
    names = find_names(tx, licenses.values())
    hits = [
        _device_hit(one, licenses[one.license_id], names) for one in found.items if one.license_id in licenses
    ]
    return _group_of(found, hits)


def _device_hit(device: Activation, license: License, names: Names) -> Hit:
    title = device.label or device.fingerprint or f"{device.token[:8]}…"
    state = "" if device.deactivated_at is None else _("freed")
    details = [device.ip_address, mask(license.key), *_names_of(license, names), state]
    return Hit(url(f"/licenses/{license.id}"), title, _join(details))


def _find_jobs(tx: ReadTransaction, asked: Asked) -> Group:
    """The job with this ID, or those of the latest jobs whose titles contain the words."""
    jobs = _list_jobs(tx, asked.typed)
    titled = [(job, title_of(tx, job)) for job in jobs]
    number, is_match = parse_number(asked.typed), match_for(asked.typed)
    found = [
        (
            (-job.id,),
            Hit(url(f"/jobs/{job.id}"), title, _describe_job(job)),
        )
        for job, title in titled
        if (job.id == number or is_match(title, None))
        and (asked.after is None or (-job.id,) > tuple(asked.after))
    ]
    note = _("Only the latest jobs were searched.") if found and len(jobs) >= _MAX_JOBS else ""
    page = page_of(found[: asked.limit + 1], asked.limit)
    return Group(list(page.items), page.after, note)


def _describe_job(job: Job) -> str:
    return _join([_("Job %(number)s", number=job.id), _(job.state.value)])


def _list_jobs(tx: ReadTransaction, typed: str) -> list[Job]:
    number = parse_number(typed)
    if number is not None:
        job = job_store.find_job(tx, number)
        return [] if job is None or job.state is JobState.DRAFT else [job]
    return job_store.list_jobs(tx, before_id=None, limit=_MAX_JOBS) if split_words(typed) else []


def _find_policies(tx: ReadTransaction, asked: Asked) -> Group:
    href = "/policies/{}/edit" if asked.may(Right.ADMINISTER) else "/policies"
    return _find_named(asked, list_policies(tx), href, N_("Policy %(number)s"))


def _find_shops(tx: ReadTransaction, asked: Asked) -> Group:
    return _find_named(asked, list_connections(tx), "/connections/{}", N_("Shop %(number)s"))


def _find_users(tx: ReadTransaction, asked: Asked) -> Group:
    users = list_users(tx) if asked.may(Right.ADMINISTER) else []
    return _find_named(asked, users, "/users/{}", N_("User %(number)s"))


def _find_named(asked: Asked, every: Sequence[Any], path: str, numbered: str) -> Group:
    """Those of a few records that have this ID, or whose names contain the words."""
    number, is_match = parse_number(asked.typed), match_for(asked.typed)
    has_words = bool(split_words(asked.typed))
    after = -1 if asked.after is None else asked.after[0]
    found = [
        ((one.id,), Hit(url(path.format(one.id)), one.name, _(numbered, number=one.id)))
        for one in every
        if one.id > after and (one.id == number or (has_words and is_match(one.name, None)))
    ]
    page = page_of(found[: asked.limit + 1], asked.limit)
    return Group(list(page.items), page.after)


def _names_of(license: License, names: Names) -> list[str]:
    """The customer and product of a license, by name if they have one, else by ID."""
    numbers = (("customer", license.customer_id), ("product", license.product_id))
    return [
        names[kind].get(number) or _numbered(kind, number) for kind, number in numbers if number is not None
    ]


def _numbered(kind: str, number: int) -> str:
    if kind == "customer":
        return _("Customer %(number)s", number=number)
    return _("Product %(number)s", number=number)


def _group_of(found: Matches[NameMatch] | Matches[Activation], hits: list[Hit]) -> Group:
    slow = _("There may be more results. Type more words, or continue the search.")
    return Group(hits, found.after, slow if found.is_incomplete else "")


def _join(parts: Iterable[str]) -> str:
    return " · ".join(part for part in parts if part)


class Kind(NamedTuple):
    """A kind of hit: the title of its group, its noun before an ID, the label of the link to all hits, each
    marked by ``N_``, and the function that finds them.
    """

    title: str
    called: str
    all_words: str
    find: Callable[[ReadTransaction, Asked], Group]


#: The kinds of hits, in the order of their groups on the page.
KINDS = {
    "customers": Kind(N_("Customers"), N_("Customer"), N_("All customers that match"), _find_customers),
    "licenses": Kind(N_("Licenses"), N_("License"), N_("All licenses that match"), _find_licenses),
    "orders": Kind(N_("Orders"), N_("Order"), N_("All orders that match"), _find_orders),
    "devices": Kind(N_("Devices"), N_("Device"), N_("All devices that match"), _find_devices),
    "products": Kind(N_("Products"), N_("Product"), N_("All products that match"), _find_products),
    "policies": Kind(N_("Policies"), N_("Policy"), N_("All policies that match"), _find_policies),
    "shops": Kind(N_("Shops"), N_("Shop"), N_("All shops that match"), _find_shops),
    "users": Kind(N_("Users"), N_("User"), N_("All users that match"), _find_users),
    "jobs": Kind(N_("Jobs"), N_("Job"), N_("All jobs that match"), _find_jobs),
}


def named_kind(typed: str) -> tuple[str | None, str]:
    """The kind that a text like ``License 616`` names, in English or in the reader's language, and the text
    without it; for any other text, None and the whole text.
    """
    word, _space, rest = typed.strip().partition(" ")
    if parse_number(rest) is not None:
        for name, kind in KINDS.items():
            if fold(word) in (fold(kind.called), fold(_(kind.called))):
                return name, rest
    return None, typed


#: The number of hits of a group: on the page with all groups, and on the group's own page.
_FEW, _PAGE_SIZE = 5, 50
_MAX_LENGTH = 255
#: The interpretations of a text that refer to devices.
_DEVICE_MEANINGS = ("token", "address", "label")
_SEALED_FOR = b"what is found anywhere in the pages"


class GroupView(NamedTuple):
    """A group as a page shows it. ``more`` is the address of all its hits, or of the next page; ``licenses``
    is the address of the list of the devices' licenses.
    """

    kind: str
    label: str
    hits: list[Hit]
    more: str
    all_words: str
    note: str
    licenses: str


class Find(Section):
    """The search. Its text is sent in a form, and is encrypted in addresses: a customer's name must not
    appear in the history of a browser.
    """

    label = N_("Find")
    path = "/find"
    in_menu = False
    right = Right.LOOK

    @page("", methods=("GET", "POST"))
    def find(self, request: PageRequest) -> Response:
        """The first hits of each group; for find.js, as options of the search field. Redirects to the page of
        the only hit.
        """
        text = request.form.raw("text").strip()[:_MAX_LENGTH] if request.is_post else ""
        groups = request.ask(lambda tx: _find_groups(tx, request, text)) if text else []
        if request.is_from_script:
            return request.render("find/options.html", groups=groups)
        hits = [hit for group in groups for hit in group.hits]
        if len(hits) == 1 and not any(group.more or group.note for group in groups):
            return request.redirect(hits[0].path.removeprefix(BASE))
        lag = request.ask(projector.lag)
        return request.render("find/results.html", groups=groups, find_text=text, lag=lag)

    @page("/{kind}")
    def find_all(self, request: PageRequest) -> Response:
        """All hits of a group, page by page."""
        kind = request.path_params["kind"]
        if kind not in KINDS:
            raise NoSuchAddress
        values = request.ask(lambda tx: _find_group(tx, request, kind))
        return request.render("find/group.html", **values)


def _find_groups(tx: ReadTransaction, request: PageRequest, text: str) -> list[GroupView]:
    views = []
    named, text = named_kind(text)
    for kind in KINDS if named is None else (named,):
        group = KINDS[kind].find(tx, Asked(text, request.now, _FEW, may=request.may))
        if group.hits or group.note:
            # The page with all hits begins with those shown here.
            start = None if group.hits else group.after
            views.append(_view_of(tx, kind, group, text, start))
    return views


def _find_group(tx: ReadTransaction, request: PageRequest, kind: str) -> dict[str, Any]:
    try:
        text, after = unseal_text(
            tx, request.query.get("q", ""), tuple[str, tuple[Any, ...] | None], _SEALED_FOR
        )
    except ValueError:
        raise NoSuchAddress from None
    group = KINDS[kind].find(tx, Asked(text, request.now, _PAGE_SIZE, after, request.may))
    first = "" if after is None else _address(tx, kind, text, None)
    view = _view_of(tx, kind, group, text, group.after)
    return {"group": view, "find_text": text, "first": first, "lag": projector.lag(tx)}


def _address_of_licenses(tx: ReadTransaction, text: str) -> str:
    """The address of the list of licenses with a matching device; "" if no filter of the list can express the
    search.
    """
    meanings = [one for one in query_parser.interpret(tx, text) if one.kind in _DEVICE_MEANINGS]
    return url("/licenses", found=license_filter.seal_meaning(tx, meanings[0])) if meanings else ""


def _view_of(
    tx: ReadTransaction, kind: str, group: Group, text: str, start: tuple[Any, ...] | None
) -> GroupView:
    more = "" if group.after is None else _address(tx, kind, text, start)
    licenses = _address_of_licenses(tx, text) if kind == "devices" and group.hits else ""
    return GroupView(
        kind, _(KINDS[kind].title), group.hits, more, _(KINDS[kind].all_words), group.note, licenses
    )


def _address(tx: ReadTransaction, kind: str, text: str, after: tuple[Any, ...] | None) -> str:
    return url(f"/find/{kind}", q=seal_text(tx, (text, after), _SEALED_FOR))
