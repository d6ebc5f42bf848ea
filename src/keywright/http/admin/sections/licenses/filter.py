"""The filter of licenses, and the views of the list that users have saved.

Text from the search box is encrypted in addresses: a label, or the IP address of a customer's computer, must
not appear in the history of a browser or the log of a proxy.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import InvalidStatus, TooManyViews
from keywright.db.transaction import ReadTransaction
from keywright.http.admin.name_suggestions import read_number
from keywright.http.admin.periods import Chip, build_chips
from keywright.http.admin.texts import seal_text, unseal_text
from keywright.http.pages.error_messages import explain, message_for
from keywright.http.pages.formats import _, ngettext
from keywright.http.pages.page import page
from keywright.http.pages.render import BASE, url
from keywright.http.pages.request import PageRequest
from keywright.identity.model import DeleteView, Right, SaveView
from keywright.identity.store import list_views
from keywright.licensing.licenses.model import License, Status, parse_status
from keywright.licensing.notes import parse_tag
from keywright.provisioning import store
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.products import NameKind
from keywright.search.filters import Order, Search
from keywright.search.query_parser import Interpretation

#: The names of the filter's fields in addresses and forms, in the order of the chips.
NAMES = (
    "found",
    "status",
    "product",
    "customer",
    "order",
    "expiring",
    "places",
    "seen",
    "by",
    "tag",
    "policy",
    "job",
    "made",
    "ended",
    "sort",
)
#: The choices for "expires within", in days.
EXPIRY_DAYS = (7, 30, 90, 365)
#: The prefix of a user's ID in the field ``by``.
USER = "user:"
#: The choice for expired licenses.
EXPIRED = "expired"
#: The choice for "not seen", and the maximum, in days.
UNSEEN_DAYS, _MAX_UNSEEN_DAYS = 90, 36_500
#: The conditions that use the index on the creation time of licenses.
_ABOUT_CREATION = frozenset({"unseen_for_days", "created"})
#: Names by ID, for products, customers and policies.
Names = Mapping[str, Mapping[int, str]]

_SEALED_FOR = b"what was searched for in the pages"


class SearchText(msgspec.Struct, frozen=True, array_like=True):
    """Text from the search box: a token, an IP address, or the beginning of a label."""

    kind: str
    term: str
    is_prefix: bool

    @property
    def text(self) -> str:
        """The text in lower case."""
        return self.term[1:]

    @property
    def words(self) -> str:
        """The kind of text, in words."""
        words = {"token": _("Token"), "address": _("IP address")}
        return words.get(self.kind, _("Label begins with"))


class Filter(msgspec.Struct, frozen=True):
    """A filter: its search, the texts of its fields by name, and messages about invalid texts."""

    search: Search
    texts: Mapping[str, str]
    errors: Mapping[str, str]
    search_text: SearchText | None = None

    @property
    def is_narrowing(self) -> bool:
        """Whether it excludes any licenses."""
        return any(name != "sort" for name in self.texts)

    @property
    def uses_search_terms(self) -> bool:
        """Whether it depends on search terms, which are some seconds behind."""
        return self.search_text is not None or self.search.is_full or self.search.is_unused

    def address(self, **other: str | None) -> str:
        """The address of the list with this filter, except for the fields in ``other``."""
        return url("/licenses", **{**self.texts, **other})

    @property
    def path(self) -> str:
        """The path of the list with this filter, without the prefix of the pages, for redirects."""
        return path_of(self.texts)

    def chips(self, names: Names) -> list[Chip]:
        """The conditions, in words; ``names`` are from ``find_names``."""
        shown = [one for one in NAMES if one in self.texts and one not in self.errors and one != "sort"]
        return build_chips("/licenses", self.texts, [(one, *_describe(self, one, names)) for one in shown])


def path_of(texts: Mapping[str, str]) -> str:
    """The path of the list with these texts in its filter, without the prefix of the pages."""
    return url("/licenses", **texts).removeprefix(BASE)


def read(tx: ReadTransaction, fields: Mapping[str, str]) -> Filter:
    """The filter in a query or a form."""
    texts = {name: fields[name] for name in NAMES if fields.get(name, "")}
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, text in texts.items():
        try:
            values |= _PARSERS[name](tx, text)
        except InvalidStatus:
            errors[name] = _("There is no such status.")
        except ValueError as reason:
            errors[name] = explain(reason)
    search_text = values.pop("search_text", None)
    if "order" not in values and values.keys() & _ABOUT_CREATION:
        # The order of their index; for all but imported licenses, it equals the default order.
        values["order"] = Order.LATEST
    return Filter(Search(**values), texts, errors, search_text)


def find_names(tx: ReadTransaction, licenses: Iterable[License], search: Search | None = None) -> Names:
    """The names of the products and customers of these licenses and of the search, and of its policy."""
    shown: list[License | Search] = [*licenses, *([] if search is None else [search])]
    products = {one.product_id for one in shown if one.product_id is not None}
    customers = {one.customer_id for one in shown if one.customer_id is not None}
    policy = None if search is None else policy_store.find_policy(tx, search.policy_id or 0)
    return {
        "policy": {} if policy is None else {policy.id: policy.name},
        "product": store.names_of(tx, NameKind.PRODUCT, products),
        "customer": store.names_of(tx, NameKind.CUSTOMER, customers),
    }


def seal_meaning(tx: ReadTransaction, meaning: Interpretation) -> str:
    """Encrypt the text of a search for an address."""
    text = SearchText(meaning.kind, meaning.search.term or "", meaning.search.is_prefix)
    return seal_text(tx, text, _SEALED_FOR)


def _unseal(tx: ReadTransaction, text: str) -> dict[str, Any]:
    try:
        found = unseal_text(tx, text, SearchText, _SEALED_FOR)
    except ValueError:
        raise ValueError("is not valid here; search again") from None
    return {"search_text": found, "term": found.term, "is_prefix": found.is_prefix}


def _read_places(_tx: ReadTransaction, text: str) -> dict[str, Any]:
    if text not in ("full", "unused"):
        raise ValueError("must be full or unused")
    return {f"is_{text}": True}


def _read_policy(tx: ReadTransaction, text: str) -> int | None:
    """The ID of a policy, given by ID or name. Raises ``ValueError``."""
    if text.isascii() and text.isdigit():
        return parsing.parse_integer(text)
    numbers = [one.id for one in policy_store.list_policies(tx) if one.name.casefold() == text.casefold()]
    if len(numbers) != 1:
        raise ValueError("is neither the ID nor the name of a policy")
    return numbers[0]


def _read_days(text: str) -> tuple[datetime, datetime]:
    """The times just before and after a day (UTC), or a range of days: ``2026-11-01..2026-11-30``."""
    first, _dots, last = text.partition("..")
    try:
        since, until = (
            datetime.strptime(one, "%Y-%m-%d").replace(tzinfo=UTC) for one in (first, last or first)
        )
        return since - timedelta(seconds=1), until + timedelta(days=1)
    except (ValueError, OverflowError):
        raise ValueError("must be a day, such as 2026-11-30") from None


def _read_order_name(text: str) -> dict[str, Any]:
    """The condition for the ID of an order, which is a number or a text."""
    if text.isascii() and text.isdigit():
        return {"order_id": parsing.parse_integer(text)}
    return {"order_ref": text}


def _read_order(_tx: ReadTransaction, text: str) -> dict[str, Any]:
    if text not in list(Order):
        raise ValueError(f"must be one of {', '.join(Order)}")
    return {"order": Order(text)}


def _read_maker(text: str) -> dict[str, Any]:
    """The condition for an API key, given by ID, or a user: ``user:7``."""
    name = "made_by_user" if text.startswith(USER) else "made_by"
    return {name: parsing.parse_integer(text.removeprefix(USER))}


def _read_expiring(text: str) -> dict[str, Any]:
    if text == EXPIRED:
        return {"is_expired": True}
    return {"expiring_within_days": parsing.parse_integer(text, parsing.MAX_COUNT)}


_PARSERS: dict[str, Callable[[ReadTransaction, str], dict[str, Any]]] = {
    "found": _unseal,
    "status": lambda _tx, text: {"status": parse_status(text)},
    "product": lambda tx, text: {"product_id": read_number(tx, NameKind.PRODUCT, text)},
    "customer": lambda tx, text: {"customer_id": read_number(tx, NameKind.CUSTOMER, text)},
    "order": lambda _tx, text: _read_order_name(text),
    "expiring": lambda _tx, text: _read_expiring(text),
    "seen": lambda _tx, text: {"unseen_for_days": parsing.parse_integer(text, _MAX_UNSEEN_DAYS)},
    "tag": lambda _tx, text: {"tag": parse_tag(text)},
    "by": lambda _tx, text: _read_maker(text),
    "places": _read_places,
    "policy": lambda tx, text: {"policy_id": _read_policy(tx, text)},
    "job": lambda _tx, text: {"job_id": parsing.parse_integer(text)},
    "made": lambda _tx, text: {"created": _read_days(text)},
    "ended": lambda _tx, text: {"expires": _read_days(text)},
    "sort": _read_order,
}


def _describe(filter_: Filter, name: str, names: Names) -> tuple[str, str]:
    search, text = filter_.search, filter_.search_text
    describe: dict[str, Callable[[], tuple[str, str]]] = {
        "found": lambda: ("", "") if text is None else (text.words, text.text),
        "status": lambda: (_("Status"), _(Status(search.status or 0).name.lower())),
        "product": lambda: (_("Product"), _name(search.product_id, names["product"])),
        "customer": lambda: (_("Customer"), _name(search.customer_id, names["customer"])),
        "order": lambda: (_("Order"), search.order_ref or str(search.order_id)),
        "expiring": lambda: _describe_expiring(search),
        "seen": lambda: (_("Not seen for"), _days(search.unseen_for_days)),
        "tag": lambda: (_("Tag"), search.tag or ""),
        "by": lambda: (_("Made by"), _describe_maker(search)),
        "policy": lambda: (_("Policy"), _name(search.policy_id, names["policy"])),
        "job": lambda: (_("Made or changed by job"), str(search.job_id)),
        "made": lambda: (_("Made on"), filter_.texts["made"].replace("..", " – ")),
        "ended": lambda: (_("Expired on"), filter_.texts["ended"].replace("..", " – ")),
        "places": lambda: (_("Places"), _("none is free") if search.is_full else _("never activated")),
    }
    return describe[name]()


def _describe_maker(search: Search) -> str:
    if search.made_by_user is not None:
        return _("user %(number)s", number=search.made_by_user)
    return _("API key %(number)s", number=search.made_by)


def _describe_expiring(search: Search) -> tuple[str, str]:
    if search.is_expired:
        return _("Expires"), _("expired")
    return _("Expires within"), _days(search.expiring_within_days)


def _days(number: int | None) -> str:
    return ngettext("%(num)s day", "%(num)s days", number or 0)


def _name(number: int | None, names: Mapping[int, str]) -> str:
    name = None if number is None else names.get(number)
    return str(number) if name is None else f"{name} ({number})"


#: The longest filter of a view, in characters.
_MAX_QUERY = 2_000


class Views:
    """Pages that save and delete views."""

    @page("/views", methods=("POST",), right=Right.LOOK)
    def save_view(self, request: PageRequest) -> Response:
        """Save the filter in the form under a name."""
        texts = {one: request.form[one] for one in NAMES if request.form.get(one, "")}
        query, back = urlencode(texts), path_of(texts)
        try:
            name = parsing.parse_name(request.form.get("name", ""))
            if len(query) > _MAX_QUERY:
                raise ValueError(f"must have at most {_MAX_QUERY:,} characters")
        except ValueError:
            return request.redirect(back, _("A view needs a name of 1 to 200 characters."), is_error=True)
        command = SaveView(context=request.context, user_id=request.user.id, name=name, query=query)
        try:
            request.change(command)
        except TooManyViews as refusal:
            return request.redirect(back, message_for(refusal).sentence, is_error=True)
        return request.redirect(back, _("The view %(name)s was saved.", name=name))

    @page("/views/delete", methods=("POST",), right=Right.LOOK)
    def delete_view(self, request: PageRequest) -> Response:
        """Delete a view."""
        name = request.form.get("name", "")
        request.change(DeleteView(context=request.context, user_id=request.user.id, name=name))
        return request.redirect("/licenses", _("The view %(name)s was deleted.", name=name))


def list_view_links(request: PageRequest) -> list[tuple[str, str]]:
    """The names of the user's views, and the address of the list for each."""
    views = request.ask(lambda tx: list_views(tx, request.user.id))
    return [(one.name, url("/licenses", **dict(parse_qsl(one.query)))) for one in views]
