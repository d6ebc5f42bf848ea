"""Convert license terms to the texts of form fields, and back."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from keywright.core import parsing
from keywright.core.errors import InvalidTerms
from keywright.core.nouns import list_members
from keywright.db import ReadTransaction
from keywright.http.pages.error_messages import explain
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import Form, Inputs, parse_positive
from keywright.licensing.terms.model import (
    AfterExpiry,
    Allowance,
    DeviceRule,
    Meter,
    Overage,
    Period,
    Starts,
    Terms,
    Transferable,
    WhenFull,
)
from keywright.licensing.terms.rules import merge_terms
from keywright.provisioning.store import PRODUCTS

#: The options of the form's lists, each with its label.
CHOICES: Mapping[str, list[tuple[str, str]]] = {
    "starts": [(Starts.CREATION, N_("creation")), (Starts.FIRST_ACTIVATION, N_("first activation"))],
    "after_expiry": [
        (AfterExpiry.REFUSE, N_("refused")),
        (AfterExpiry.ALLOW, N_("still valid")),
        (AfterExpiry.OLDER_VERSIONS, N_("valid for versions built before")),
    ],
    "device": [(DeviceRule.OPTIONAL, N_("optional")), (DeviceRule.REQUIRED, N_("required"))],
    "transferable": [
        (Transferable.NO, N_("no")),
        (Transferable.ONCE, N_("once")),
        (Transferable.ALWAYS, N_("always")),
    ],
    "when_full": [(WhenFull.REFUSE, N_("refuse")), (WhenFull.REPLACE_UNSEEN, N_("replace an unseen device"))],
    "per": [
        (Period.DAY, N_("day")),
        (Period.MONTH, N_("month")),
        (Period.YEAR, N_("year")),
        (Period.LICENSE_MONTH, N_("month of the license")),
        (Period.LICENSE_YEAR, N_("year of the license")),
        (Period.LICENSE, N_("life of the license")),
    ],
    "overage": [(Overage.REFUSE, N_("refuse")), (Overage.ALLOW, N_("allow"))],
}
_YEAR = Terms(max_activations=1, valid_for_days=365)
#: The starting points for a new policy: its name, what it is for, and its terms.
BEGINNINGS: Mapping[str, tuple[str, str, Terms]] = {
    "perpetual": (N_("Perpetual"), N_("Bought once, valid forever."), Terms(max_activations=1)),
    "yearly": (N_("Yearly"), N_("Valid for a year, then renewed."), _YEAR),
    "subscription": (
        N_("Subscription"),
        N_("The shop extends it with each payment; 14 days of grace."),
        replace(_YEAR, grace_days=14),
    ),
    "trial": (
        N_("Trial"),
        N_("14 days, once for each device."),
        Terms(max_activations=1, valid_for_days=14, trial=True, device=DeviceRule.REQUIRED),
    ),
    "floating": (
        N_("Floating"),
        N_("On any number of devices, but only 5 at the same time."),
        replace(_YEAR, max_activations=None, max_leases=5),
    ),
    "usage": (
        N_("Usage"),
        N_("1,000 calls a month; more are refused."),
        replace(_YEAR, meters={"calls": Meter(1_000, Period.MONTH)}),
    ),
}
DEFAULT_BEGINNING = "yearly"
#: The fields of a meter, which each line of a form has, and those of an allowance.
_METER, _ALLOWANCE = ("name", "limit", "per", "overage"), ("count", "per_days")
_EMPTY_METER = {"name": "", "limit": "", "per": Period.MONTH, "overage": Overage.REFUSE}
#: The field for the limit of devices, and the checkbox for no limit, whose name is also the text for none.
_DEVICES, UNLIMITED = "max_activations", "unlimited"
_MEMBERS = [one for one in list_members(Terms) if one.name != _DEVICES]
_NUMBERS, _CHECKS, _ALLOWANCES = (
    [one.name for one in _MEMBERS if one.kind is kind] for kind in (int, bool, Allowance)
)
_SELECTS = [name for name in CHOICES if name not in _METER]
_WORDS = ("channels", "uncounted_hosts")
#: The fields where 0 means none, as in other forms.
_ZERO_IS_NONE = [one.name for one in _MEMBERS if one.kind is int and one.is_nullable]


def write_terms(terms: Terms) -> dict[str, Any]:
    """The values that the form's fields show for these terms, by field name."""
    values = {name: getattr(terms, name) for name in (*_NUMBERS, *_SELECTS, *_CHECKS)}
    values[_DEVICES] = UNLIMITED if terms.max_activations is None else str(terms.max_activations)
    for name in _ALLOWANCES:
        values |= {f"{name}_{part}": getattr(getattr(terms, name), part, "") for part in _ALLOWANCE}
    values["entitlements"] = list(terms.entitlements)
    values |= {name: " ".join(getattr(terms, name)) for name in _WORDS}
    meters = [{"name": name} | msgspec.to_builtins(one) for name, one in terms.meters.items()]
    values["meters"] = [*meters, _EMPTY_METER]
    return values


def find_changed(values: Mapping[str, Any], errors: Mapping[str, str]) -> set[str]:
    """The fields with an unusual value or an error, which the form must not collapse."""
    usual = write_terms(_YEAR)
    return {name for name in usual if _text(values[name]) != _text(usual[name])} | {*errors}


def _text(value: Any) -> str:
    """The text that a form sends for a value."""
    return "" if value is None or value is False else str(value)


def list_features(
    tx: ReadTransaction, product_id: int | None, kept: Collection[str] = ()
) -> dict[str, str | None]:
    """The names of a product's features, by code; None for codes in ``kept`` that the product lacks."""
    product = None if product_id is None else PRODUCTS.find(tx, product_id)
    known = {} if product is None else {one.code: one.name for one in product.features}
    return known | {code: None for code in kept if code not in known}


def translate_choices() -> dict[str, list[tuple[str, str]]]:
    """The options of the form's lists, in the reader's language."""
    return {name: [(value, _(text)) for value, text in choices] for name, choices in CHOICES.items()}


def read_terms(inputs: Inputs, form: Form, features: Collection[str]) -> Terms:
    """Parse the terms in a form. Empty fields mean defaults; entitlements must be among ``features``. Errors
    are added to ``inputs`` by field; if terms are invalid, the default terms are returned.
    """
    patch: dict[str, Any] = {name: inputs.read(name, parsing.parse_integer) for name in _NUMBERS}
    patch |= {name: patch[name] or None for name in _ZERO_IS_NONE}
    patch[_DEVICES] = _read_devices(inputs)
    patch |= {name: _read_allowance(inputs, name) for name in _ALLOWANCES}
    patch |= {name: inputs.read(name, str) for name in _SELECTS}
    patch |= {name: inputs.read(name, str.split) for name in _WORDS}
    patch["entitlements"] = form.all("entitlements")
    unknown = [one for one in patch["entitlements"] if one not in features]
    if unknown:
        sentence = _("%(code)s is not a feature of this product.", code=unknown[0])
        inputs.errors["entitlements"] = sentence
    patch["meters"] = _read_meters(inputs, form)
    patch |= {name: inputs.is_checked(name) for name in _CHECKS}
    if patch["valid_for_days"] is None:
        patch["starts"] = None
    try:
        return merge_terms(Terms(), patch)
    except InvalidTerms as problem:
        for one in problem.errors:
            name, *inner = one.pointer.split("/")[2:]
            subject = " ".join(inner) if name == "meters" else "It"
            inputs.errors.setdefault(name, explain(one.detail, subject))
        return Terms()


def texts_from(form: Form) -> dict[str, Any]:
    """The texts in a submitted form, in the format of ``write_terms``."""
    texts: dict[str, Any] = {name: form.raw(name) for name in write_terms(Terms())}
    texts["entitlements"], texts["meters"] = form.all("entitlements"), [*_list_meters(form), _EMPTY_METER]
    return texts | ({_DEVICES: UNLIMITED} if UNLIMITED in form else {})


def _read_devices(inputs: Inputs) -> int | None:
    if inputs.is_checked(UNLIMITED):
        return None
    limit = inputs.read(_DEVICES, parse_positive)
    if limit is None:
        inputs.errors.setdefault(_DEVICES, _("Type how many devices, or choose no limit."))
    return limit


def terms_patch(before: Terms, after: Terms) -> dict[str, Any]:
    """The JSON merge patch that turns ``before`` into ``after``."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    patch = {name: value for name, value in new.items() if value != old[name]}
    if "meters" in patch:
        patch["meters"] = dict.fromkeys(old["meters"]) | new["meters"]
    return patch


def _read_allowance(inputs: Inputs, name: str) -> dict[str, int | None] | None:
    """Parse the two fields of an allowance, count and days; None if both are empty or one is invalid."""
    found = {part: inputs.read(f"{name}_{part}", parsing.parse_integer) for part in _ALLOWANCE}
    if any(f"{name}_{part}" in inputs.errors for part in _ALLOWANCE):
        return None
    if None in found.values() and found != dict.fromkeys(_ALLOWANCE):
        inputs.errors[name] = _("Type both numbers, or none.")
        return None
    return found if found["count"] is not None else None


def _list_meters(form: Form) -> list[dict[str, str]]:
    """The texts of each meter line that is not empty."""
    columns = [form.all(f"meter_{part}") for part in _METER]
    lines = [dict(zip(_METER, map(str.strip, line), strict=True)) for line in zip(*columns, strict=False)]
    return [one for one in lines if one["name"] or one["limit"]]


def _read_meters(inputs: Inputs, form: Form) -> dict[str, Any]:
    meters: dict[str, Any] = {}
    for line in _list_meters(form):
        name = line.pop("name")
        if name in meters:
            inputs.errors["meters"] = explain(f"must have each meter once; {name} appears twice")
        try:
            meters[name] = line | {"limit": parsing.parse_integer(line["limit"])}
        except ValueError as reason:
            inputs.errors["meters"] = explain(reason, f"{name}:")
    return meters
