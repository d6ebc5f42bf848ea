"""The terms of one license: all of them in one form, which can take those of a policy."""

from starlette.responses import Response

from keywright.http.admin.sections.licenses.forms import get_license, undo_path
from keywright.http.admin.terms_form import (
    find_changed,
    list_features,
    read_terms,
    terms_patch,
    texts_from,
    translate_choices,
    write_terms,
)
from keywright.http.pages.inputs import Inputs, parse_number
from keywright.http.pages.languages import _
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.licensing.licenses.model import UpdateLicense
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.terms.rules import set_by_hand
from keywright.provisioning.licenses import MoveLicense
from keywright.provisioning.policies import store as policy_store


class LicenseTerms:
    """The page that changes the terms of a license."""

    @page("/{id:number}/terms", methods=("GET", "POST"), right=Right.CHANGE)
    def change_terms(self, request: PageRequest) -> Response:
        """Change the terms; ``policy`` in the address fills the form with those of a policy."""
        license, inputs = get_license(request), Inputs(request.form)
        before = terms = terms_of(license)
        policies = request.ask(policy_store.list_policies)
        number = parse_number(request.query.get("policy", ""))
        policy = next((one for one in policies if one.id == number), None)
        if policy is not None:
            terms = policy.terms
        moved = parse_number(request.form.get("policy", ""))
        if request.is_post and moved is not None:
            overwrite = inputs.is_checked("overwrite")
            request.change(
                MoveLicense(context=request.context, license=license.id, policy_id=moved, overwrite=overwrite)
            )
            back = f"/licenses/{license.id}"
            return request.redirect(back, _("The policy is changed."), undo_path(request, license.id))
        kept = {*before.entitlements, *(() if policy is None else policy.terms.entitlements)}
        features = request.ask(lambda tx: list_features(tx, license.product_id, sorted(kept)))
        if request.is_post:
            terms = read_terms(inputs, request.form, features)
            back = f"/licenses/{license.id}"
            if not inputs.errors:
                patch = terms_patch(before, terms)
                if not patch:
                    return request.redirect(back, _("Nothing was changed."))
                request.change(UpdateLicense(context=request.context, license=license.id, terms=patch))
                return request.redirect(back, _("The terms are changed."), undo_path(request, license.id))
        values = write_terms(terms)
        if inputs.errors:
            values = texts_from(request.form)
        return request.render(
            "licenses/terms.html",
            license=license,
            policies=policies,
            policy=policy,
            values=values,
            changed=find_changed(values, inputs.errors),
            features=features,
            choices=translate_choices(),
            kept=sorted(set_by_hand(license.rule_terms)),
            errors=inputs.errors,
        )
