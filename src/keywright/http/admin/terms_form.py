"""Terms in a form: the texts that its fields show, and the terms that they say."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from keywright.core import parsing
from keywright.core.errors import InvalidTerms
from keywright.core.nouns import list_members
from keywright.http.pages.error_messages import explain
from keywright.http.pages.forms import Form
from keywright.http.pages.inputs import Inputs, parse_positive
from keywright.http.pages.languages import N_, _
from keywright.licensing.terms.model import (
    AfterExpiry,
    Allowance,
    DeviceRule,
    Starts,
    Terms,
    Transferable,
    WhenFull,
    parse_allowance,
    parse_meter,
    write_allowance,
    write_meter,
)
from keywright.licensing.terms.rules import merge_terms

#: The choices of the form's lists.
CHOICES: Mapping[str, list[tuple[str, str]]] = {
    "starts": [(Starts.CREATION, N_("creation")), (Starts.FIRST_ACTIVATION, N_("first activation"))],
    "after_expiry": [
        (AfterExpiry.REFUSE, N_("refused")),
        (AfterExpiry.ALLOW, N_("still valid")),
        (AfterExpiry.OLDER_VERSIONS, N_("valid for versions from before")),
    ],
    "device": [(DeviceRule.OPTIONAL, N_("optional")), (DeviceRule.REQUIRED, N_("required"))],
    "transferable": [
        (Transferable.NO, N_("no")),
        (Transferable.ONCE, N_("once")),
        (Transferable.ALWAYS, N_("always")),
    ],
    "when_full": [(WhenFull.REFUSE, N_("refuse")), (WhenFull.REPLACE_UNSEEN, N_("replace unseen"))],
}
_SEPARATORS = re.compile(r"[\s,;]+")
#: The field of a number of devices, the checkbox beside it, and the text for no limit.
_DEVICES, UNLIMITED = "max_activations", "unlimited"
_MEMBERS = [one for one in list_members(Terms) if one.name != _DEVICES]
_NUMBERS, _CHECKS, _ALLOWANCES = (
    [one.name for one in _MEMBERS if one.kind is kind] for kind in (int, bool, Allowance)
)
#: Where 0 stands for none, as in other forms.
_ZERO_IS_NONE = [one.name for one in _MEMBERS if one.kind is int and one.is_nullable]


def write_terms(terms: Terms) -> dict[str, Any]:
    """The text of each field, by the names of the terms."""
    values = {name: getattr(terms, name) for name in (*_NUMBERS, *CHOICES, *_CHECKS)}
    values[_DEVICES] = UNLIMITED if terms.max_activations is None else str(terms.max_activations)
    values |= {name: write_allowance(getattr(terms, name)) for name in _ALLOWANCES}
    values["entitlements"] = " ".join(terms.entitlements)
    values["meters"] = "\n".join(write_meter(name, one) for name, one in terms.meters.items())
    return values


def translate_choices() -> dict[str, list[tuple[str, str]]]:
    """The choices of the form's lists, in the reader's language."""
    return {name: [(value, _(text)) for value, text in choices] for name, choices in CHOICES.items()}


def read_terms(inputs: Inputs) -> Terms:
    """The terms that a form says; empty fields are defaults. What is wrong is in the errors, by field."""
    patch: dict[str, Any] = {name: inputs.read(name, parsing.parse_integer) for name in _NUMBERS}
    patch |= {name: patch[name] or None for name in _ZERO_IS_NONE}
    patch[_DEVICES] = _read_devices(inputs)
    patch |= {name: inputs.read(name, parse_allowance) for name in _ALLOWANCES}
    patch |= {name: inputs.read(name, str) for name in CHOICES}
    patch["entitlements"] = inputs.read("entitlements", _parse_words)
    patch["meters"] = inputs.read("meters", _parse_meters)
    patch |= {name: inputs.is_checked(name) for name in _CHECKS}
    if patch["valid_for_days"] is None:
        patch["starts"] = None
    try:
        return merge_terms(Terms(), patch)
    except InvalidTerms as problem:
        for one in problem.errors:
            _, _, name, *inner = one.pointer.split("/")
            subject = " ".join(inner) if name == "meters" else "It"
            inputs.errors.setdefault(name, explain(one.detail, subject))
        return Terms()


def texts_from(form: Form) -> dict[str, Any]:
    """The texts in a form that was sent, as ``write_terms`` writes them."""
    texts = {name: form.raw(name) for name in write_terms(Terms())}
    return texts | ({_DEVICES: UNLIMITED} if UNLIMITED in form else {})


def _read_devices(inputs: Inputs) -> int | None:
    if inputs.is_checked(UNLIMITED):
        return None
    limit = inputs.read(_DEVICES, parse_positive)
    if limit is None:
        inputs.errors.setdefault(_DEVICES, _("Type how many devices, or choose no limit."))
    return limit


def terms_patch(before: Terms, after: Terms) -> dict[str, Any]:
    """The JSON merge patch that makes the terms before those after."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    patch = {name: value for name, value in new.items() if value != old[name]}
    if "meters" in patch:
        patch["meters"] = dict.fromkeys(old["meters"]) | new["meters"]
    return patch


def _parse_words(text: str) -> list[str]:
    return [one for one in _SEPARATORS.split(text) if one]


def _parse_meters(text: str) -> dict[str, Any]:
    meters: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, meter = parse_meter(line)
        if name in meters:
            raise ValueError(f"must have each meter once; {name} is there twice")
        meters[name] = meter
    return meters
