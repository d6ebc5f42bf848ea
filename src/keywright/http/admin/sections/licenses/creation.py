"""Create a license by hand: with its own terms, or with those of a policy."""

from functools import partial
from typing import Any

from starlette.responses import Response

from keywright.core.command import Command
from keywright.core.errors import LicenseKeyTaken
from keywright.db import ReadTransaction
from keywright.http.admin.event_views import reader_zone
from keywright.http.admin.name_suggestions import suggest_names, write_number
from keywright.http.admin.sections.licenses import forms
from keywright.http.admin.sections.licenses.forms import list_statuses, undo_path
from keywright.http.pages import formats
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import _
from keywright.http.pages.forms import parse_number
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.http.terms_in_words import describe_terms
from keywright.identity.model import Right
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import keys
from keywright.licensing.licenses.model import OWN_FIELDS, CreateLicense, Order
from keywright.provisioning import store
from keywright.provisioning.licenses import Issued, IssueLicenses
from keywright.provisioning.policies import rules as policy_rules
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.products import NameKind


class Creation:
    """The page that creates a license."""

    @page("/new", methods=("GET", "POST"), right=Right.CHANGE)
    def create(self, request: PageRequest) -> Response:
        """Create a license; ``policy`` in the address or the form is the ID of its policy."""
        number = parse_number(request.form.get("policy", request.query.get("policy", "")))
        policies = request.ask(_list_usable)
        policy = next((one for one in policies if one.id == number), None)
        if not request.is_post:
            return _render(request, policies, policy, request.ask(partial(_first_texts, policy)), {})
        texts = forms.texts_from(request.form)
        required = ("key", "status", "times_activated_max")
        zone = reader_zone(request)
        values, errors = request.ask(lambda tx: forms.parse(tx, texts, zone, required=required))
        if not errors:
            command = _to_command(request, policy, values)
            try:
                return change_once(request, command, partial(_to_new_license, request))
            except LicenseKeyTaken as refusal:
                errors["key"] = message_for(refusal).sentence
        return _render(request, policies, policy, texts, errors)


def _list_usable(tx: ReadTransaction) -> list[Policy]:
    return [one for one in policy_store.list_policies(tx) if one.archived_at is None]


def _first_texts(policy: Policy | None, tx: ReadTransaction) -> dict[str, str]:
    """The initial texts of the form."""
    if policy is None:
        names = store.list_names(tx, NameKind.PRODUCT, after=-1, limit=2)
        # If there is only one product, it is the default.
        only = write_number(tx, NameKind.PRODUCT, next(iter(names))) if len(names) == 1 else ""
        return forms.new_texts(keys.new_license_key()) | {"product_id": only}
    terms = policy.terms
    texts = forms.new_texts(policy_rules.generate_key(policy))
    texts["times_activated_max"] = forms.write_limit(terms.max_activations)
    texts["valid_for_days"] = forms.write(terms.valid_for_days)
    texts["product_id"] = write_number(tx, NameKind.PRODUCT, policy.product_id)
    return texts


def _to_command(request: PageRequest, policy: Policy | None, values: dict[str, Any]) -> Command:
    values["fields"] = {name: values.pop(name) for name in OWN_FIELDS}
    if policy is None:
        return CreateLicense(context=request.context, **values)
    limit, days = values.pop("times_activated_max"), values.pop("valid_for_days")
    terms = {"max_activations": limit, "valid_for_days": days}
    if days is None:
        terms["starts"] = None
    order_id, expires_at = values.pop("order_id"), values.pop("expires_at")
    return IssueLicenses(
        context=request.context,
        policy_id=policy.id,
        terms=terms,
        order=Order(id=None if order_id is None else str(order_id)),
        expires_at=expires_at,
        has_expiry=expires_at is not None,
        **values,
    )


def _to_new_license(request: PageRequest, made: LicenseRecord | Issued) -> Redirect:
    id = made.licenses[0].license.id if isinstance(made, Issued) else made.license.id
    return Redirect(f"/licenses/{id}", _("The license was created."), undo_path(request, id))


def _render(
    request: PageRequest,
    policies: list[Policy],
    policy: Policy | None,
    texts: dict[str, str],
    errors: dict[str, str],
) -> Response:
    return request.render(
        "licenses/new.html",
        policies=policies,
        policy=policy,
        terms_in_words=[] if policy is None else describe_terms(policy.terms, formats),
        texts=texts,
        own=forms.list_own_fields(texts),
        errors=errors,
        zone=reader_zone(request),
        suggestions=request.ask(suggest_names),
        statuses=list_statuses(),
    )
