"""Policies: recipes for licenses, with example keys and terms.

Every user may view them. Users who may change licenses may generate licenses; only administrators may change
policies, because a weak policy makes keys that can be guessed.
"""

from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace
from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import InvalidParameters, PolicyArchived, PolicyTooWeak, Refusal
from keywright.core.nouns import list_members
from keywright.http.admin import terms_form
from keywright.http.admin.name_suggestions import number_parser, suggest, suggest_names, write_number
from keywright.http.admin.undo import explain_undo, fields_of, read_past, to_undo, undo_form
from keywright.http.pages import formats
from keywright.http.pages.error_messages import explain, message_for
from keywright.http.pages.formats import N_, _, ngettext
from keywright.http.pages.forms import Inputs, parse_number, parse_positive, require_id
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import Section, page
from keywright.http.pages.render import url
from keywright.http.pages.request import PageRequest
from keywright.http.terms_in_words import describe_terms
from keywright.identity.model import Right
from keywright.jobs import orders
from keywright.jobs.orders import MAX_GENERATED, Generate
from keywright.licensing.licenses import keys
from keywright.licensing.licenses.model import Status, parse_status
from keywright.licensing.terms.model import Terms
from keywright.provisioning.policies import handlers as generating
from keywright.provisioning.policies import model as policy_model
from keywright.provisioning.policies import rules
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import names_of

_EXAMPLES = 5
_MEMBERS = {one.name: one for one in list_members(policy_model.NewKeyFormat)}
#: Keys with at least this entropy, in bits, are called very good.
_VERY_GOOD_BITS = 128.0
#: The values of a new policy: keys of 150 bits.
_DEFAULTS: dict[str, Any] = {
    "name": "",
    "charset": keys.UNAMBIGUOUS,
    "chunks": 6,
    "chunk_length": 5,
    "separator": "-",
    "prefix": None,
    "suffix": None,
    "product_id": None,
}
#: The fields that must be valid before sample keys are shown.
_KEY_FORMAT = frozenset(_DEFAULTS) - {"name", "product_id"}
#: Sets of characters that the form suggests.
CHARSETS = {
    keys.UNAMBIGUOUS: N_("letters and digits that do not look alike"),
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789": N_("all capital letters and digits"),
    "0123456789ABCDEF": N_("hexadecimal digits"),
    "0123456789": N_("digits"),
}


class Strength(NamedTuple):
    """The strength of keys against guessing: entropy in bits, a word, and the color in which it is shown."""

    bits: float
    word: str
    tone: str


class Sample(NamedTuple):
    """Example keys of a policy."""

    keys: tuple[str, ...]
    strength: Strength


class Policies(Section):
    """The policies, and licenses made with them."""

    label = N_("Policies")
    path = "/policies"
    group = N_("Licensing")
    icon = "dice"
    right = Right.LOOK

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """All policies, each with an example key."""
        policies = request.ask(policy_store.list_policies)
        product_ids = {one.product_id for one in policies if one.product_id is not None}
        return request.render(
            "policies/list.html",
            policies=[(one, make_sample(one, amount=1)) for one in policies],
            names={"product": request.ask(lambda tx: names_of(tx, NameKind.PRODUCT, product_ids))},
        )

    @page("/new", methods=("GET", "POST"), right=Right.ADMINISTER)
    def create(self, request: PageRequest) -> Response:
        """Create a policy."""
        form = _Form.read(request, None)
        if not form.can_save:
            return form.render(request, None)
        command = policy_model.CreatePolicy(
            context=request.context,
            terms=terms_form.terms_patch(Terms(), form.terms),
            is_weak_allowed=form.is_weak_allowed,
            **form.values,
        )
        redirect = Redirect("/policies", _("The policy %(name)s was created.", name=command.name))
        return change_once(request, command, lambda _policy: redirect)

    @page("/{id:number}/edit", methods=("GET", "POST"), right=Right.ADMINISTER)
    def edit(self, request: PageRequest) -> Response:
        """Change a policy; its licenses do not change."""
        policy = _get(request)
        form = _Form.read(request, policy)
        if not form.can_save:
            return form.render(request, policy)
        changes = {name: value for name, value in form.values.items() if value != getattr(policy, name)}
        terms = terms_form.terms_patch(policy.terms, form.terms)
        if not changes and not terms:
            return request.redirect("/policies", _("The policy %(name)s was not changed.", name=policy.name))
        change = policy_model.UpdatePolicy(
            context=request.context,
            policy_id=policy.id,
            changes=changes,
            terms=terms,
            is_weak_allowed=form.is_weak_allowed,
        )
        request.change(change)
        after = fields_of(replace(policy, **form.values, terms=form.terms))
        undo = undo_form(request, f"/policies/{policy.id}", fields_of(policy), after)
        message = _("The policy %(name)s was changed.", name=form.values["name"])
        return request.redirect("/policies", message, undo)

    @page("/preview", methods=("POST",), right=Right.ADMINISTER)
    def preview(self, request: PageRequest) -> Response:
        """Example keys for the values in the form; requested by admin.js."""
        return request.render("policies/preview.html", sample=_Form.read(request, None).sample)

    @page("/{id:number}/delete", methods=("GET", "POST"), right=Right.ADMINISTER)
    def delete(self, request: PageRequest) -> Response:
        """Delete a policy."""
        policy = _get(request)
        undo = undo_form(request, f"/policies/{policy.id}", fields_of(policy), None)
        if request.is_post:
            request.change(policy_model.DeletePolicy(context=request.context, policy_id=policy.id))
            return request.redirect(
                "/policies", _("The policy %(name)s was deleted.", name=policy.name), undo
            )
        return request.confirm(
            _("Delete the policy %(name)s?", name=policy.name),
            [
                _("Licenses made from this policy stay valid."),
                _("Jobs that still use this policy will fail."),
                _("To stop the policy from making licenses, archive it instead."),
                explain_undo(undo),
            ],
            button=_("Delete"),
            back="/policies",
        )

    @page("/{id:number}/undo", methods=("POST",), right=Right.ADMINISTER)
    def undo(self, request: PageRequest) -> Response:
        """Undo a change of a policy, or restore a policy that was just deleted."""
        number = require_id(request.path_params["id"])
        try:
            past = read_past(request, f"/policies/{number}")
            request.change(to_undo(request, number, past))
        except Refusal as refusal:
            return request.redirect("/policies", message_for(refusal).sentence, is_error=True)
        return request.redirect("/policies", _("Undone: the policy is as before."))

    @page("/{id:number}/archive", methods=("POST",), right=Right.ADMINISTER)
    def archive(self, request: PageRequest) -> Response:
        """Archive a policy, so that it makes no more licenses."""
        return _set_archived(request, is_archived=True)

    @page("/{id:number}/unarchive", methods=("POST",), right=Right.ADMINISTER)
    def unarchive(self, request: PageRequest) -> Response:
        """Let an archived policy make licenses again."""
        return _set_archived(request, is_archived=False)

    @page("/{id:number}/generate", methods=("GET", "POST"), right=Right.CHANGE)
    def generate(self, request: PageRequest) -> Response:
        """Start a job that makes licenses."""
        policy, inputs = _get(request), Inputs(request.form)
        if policy.archived_at is not None:
            raise PolicyArchived(policy.id)
        if request.is_post:
            order = _read_order(request, inputs, policy)
            if not inputs.errors:
                message = ngettext(
                    "%(num)s license is being made.", "%(num)s licenses are being made.", order.amount
                )
                command = orders.start_command(order, context=request.context)
                return change_once(request, command, lambda job: Redirect(f"/jobs/{job.id}", message))
        return request.render(
            "policies/generate.html",
            policy=policy,
            sample=make_sample(policy, amount=1),
            errors=inputs.errors,
            statuses=[(one.name.lower(), _(one.name.lower()).capitalize()) for one in Status],
            max_amount=MAX_GENERATED,
            terms=describe_terms(policy.terms, formats),
            suggestions=request.ask(suggest_names),
        )


def _set_archived(request: PageRequest, *, is_archived: bool) -> Response:
    policy = _get(request)
    # The strength of its keys does not change, so it needs no confirmation.
    change = policy_model.UpdatePolicy(
        context=request.context, policy_id=policy.id, is_archived=is_archived, is_weak_allowed=True
    )
    request.change(change)
    before = fields_of(policy)
    undo = undo_form(request, f"/policies/{policy.id}", before, before | {"is_archived": is_archived})
    if is_archived:
        message = _("The policy %(name)s was archived: it makes no more licenses.", name=policy.name)
    else:
        message = _("The policy %(name)s is in use again.", name=policy.name)
    return request.redirect("/policies", message, undo)


def make_sample(policy: policy_model.Policy, *, amount: int) -> Sample:
    """Example keys of a policy, and their strength."""
    keys = tuple(rules.generate_key(policy) for _one in range(amount))
    return Sample(keys, measure_strength(policy))


def measure_strength(policy: policy_model.Policy) -> Strength:
    """The strength of a policy's keys against guessing."""
    bits = rules.entropy_bits(policy.charset, policy.chunks, policy.chunk_length)
    if bits < rules.MIN_ENTROPY_BITS:
        return Strength(bits, N_("weak"), "bad")
    return Strength(bits, N_("good") if bits < _VERY_GOOD_BITS else N_("very good"), "good")


def _get(request: PageRequest) -> policy_model.Policy:
    """The policy in the address. Raises ``UnknownPolicy``."""
    number = require_id(request.path_params["id"])
    return request.ask(lambda tx: generating.get_policy(tx, number))


class _Form(NamedTuple):
    """The form of a policy, as submitted or with its initial values."""

    inputs: Inputs
    #: The fields of ``Policy``.
    values: dict[str, Any]
    terms: Terms
    sample: Sample | None
    can_save: bool

    @classmethod
    def read(cls, request: PageRequest, policy: policy_model.Policy | None) -> "_Form":
        """Read the submitted form, or else the values of the policy; None means a new one."""
        inputs = Inputs(request.form)
        if request.is_post:
            values = _read_values(request, inputs)
            kept = () if policy is None else policy.terms.entitlements
            features = request.ask(lambda tx: terms_form.list_features(tx, values["product_id"], kept))
            terms = terms_form.read_terms(inputs, request.form, features)
        elif policy is None:
            values, terms = _begin(request)
        else:
            values, terms = {name: getattr(policy, name) for name in _DEFAULTS}, policy.terms
        sample = _try_recipe(inputs, values, request.now)
        return cls(inputs, values, terms, sample, _can_save(request, inputs, sample))

    @property
    def is_weak_allowed(self) -> bool:
        """Whether the user allows keys that could be guessed."""
        return self.inputs.is_checked("is_weak_allowed")

    def render(self, request: PageRequest, policy: policy_model.Policy | None) -> Response:
        """The page with the form."""
        values: dict[str, Any] = self.values | terms_form.write_terms(self.terms)
        number, names = self.values["product_id"], request.ask(lambda tx: suggest(tx, NameKind.PRODUCT))
        if request.is_post:
            values = {name: request.form.raw(name) for name in self.values} | terms_form.texts_from(
                request.form
            )
        elif not names:
            values["product_id"] = request.ask(lambda tx: write_number(tx, NameKind.PRODUCT, number))
        if number is not None and names:
            names, values["product_id"] = {number: str(number), **names}, number
        changed = terms_form.find_changed(values, self.inputs.errors)
        changed |= {name for name, usual in _DEFAULTS.items() if str(values[name]) != str(usual)}
        kept = () if policy is None else policy.terms.entitlements
        return request.render(
            "policies/edit.html",
            policy=policy,
            values=values,
            is_weak_allowed=self.is_weak_allowed,
            errors=self.inputs.errors,
            sample=self.sample,
            charsets=CHARSETS,
            choices=terms_form.translate_choices(),
            changed=changed,
            features=request.ask(lambda tx: terms_form.list_features(tx, number, kept)),
            product=names.get(number) if number is not None else None,
            products=[("", _("no product")), *names.items()] if names else None,
            beginnings=_list_beginnings(request) if policy is None and not request.is_post else (),
        )


def _begin(request: PageRequest) -> tuple[dict[str, Any], Terms]:
    """The initial values and terms of a new policy. The query may name a product and a starting point."""
    label, _text, terms = _beginning(request)
    return _DEFAULTS | {
        "name": _(label),
        "product_id": parse_number(request.query.get("product_id", "")),
    }, terms


def _beginning(request: PageRequest) -> tuple[str, str, Terms]:
    return terms_form.BEGINNINGS.get(
        request.query.get("begin", ""), terms_form.BEGINNINGS[terms_form.DEFAULT_BEGINNING]
    )


def _list_beginnings(request: PageRequest) -> list[tuple[str, str, str, bool]]:
    """The starting points to choose from: label, description, address, and whether it is chosen."""
    product, chosen = parse_number(request.query.get("product_id", "")), _beginning(request)
    return [
        (_(one[0]), _(one[1]), url("/policies/new", begin=name, product_id=product), one == chosen)
        for name, one in terms_form.BEGINNINGS.items()
    ]


def _read_values(request: PageRequest, inputs: Inputs) -> dict[str, Any]:
    """The values in the form, by field of ``Policy``."""
    return {
        "name": inputs.require("name", parsing.parse_name, ""),
        "charset": inputs.require("charset", _MEMBERS["charset"].read, "", is_trimmed=False),
        "chunks": inputs.require("chunks", parse_positive, 0),
        "chunk_length": inputs.require("chunk_length", parse_positive, 0),
        **{
            name: inputs.read(name, _MEMBERS[name].read, is_trimmed=False)
            for name in ("separator", "prefix", "suffix")
        },
        "product_id": inputs.read("product_id", number_parser(request, NameKind.PRODUCT)),
    }


def _try_recipe(inputs: Inputs, values: dict[str, Any], now: datetime) -> Sample | None:
    """Example keys for these values, however weak; None if they are invalid, with errors in ``inputs``."""
    if inputs.errors.keys() & _KEY_FORMAT:
        return None
    recipe = policy_model.Policy(
        **values, id=0, created_at=now, created_by=None, updated_at=now, updated_by=None
    )
    try:
        generating.require_sound(recipe, is_weak_allowed=True)
    except InvalidParameters as error:
        inputs.errors |= {name: explain(reason, "The") for name, reason in error.reasons.items()}
        return None
    return make_sample(recipe, amount=_EXAMPLES)


def _can_save(request: PageRequest, inputs: Inputs, sample: Sample | None) -> bool:
    """Whether to save the form. Adds an error if keys are weak and this was not confirmed."""
    if not request.is_post:
        return False
    if "preview" in request.form:
        inputs.errors.pop("name", None)
        return False
    is_weak = sample is not None and sample.strength.bits < rules.MIN_ENTROPY_BITS
    if sample is not None and is_weak and not inputs.is_checked("is_weak_allowed"):
        inputs.errors["is_weak_allowed"] = message_for(PolicyTooWeak(sample.strength.bits)).sentence
    return not inputs.errors


def _read_order(request: PageRequest, inputs: Inputs, policy: policy_model.Policy) -> Generate:
    claimable = inputs.is_checked("claimable")
    return Generate(
        policy_id=policy.id,
        amount=inputs.require("amount", lambda text: parse_positive(text.replace(",", ""), MAX_GENERATED), 1),
        status=inputs.require("status", parse_status, Status.ACTIVE),
        order_id=inputs.read("order_id", parsing.parse_integer),
        product_id=inputs.read("product_id", number_parser(request, NameKind.PRODUCT)),
        customer_id=inputs.read("customer_id", number_parser(request, NameKind.CUSTOMER)),
        claimable=None if claimable == policy.terms.claimable else claimable,
    )
