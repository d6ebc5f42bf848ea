"""Policies: the recipes for licenses."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from keywright.core.fields import Id, Parse, about, copy_as, list_changes
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import jobs, lists, schemas
from keywright.http.v3.answers import accepted, created, etag_of, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Body
from keywright.http.v3.route import Route
from keywright.jobs import model
from keywright.jobs.model import ApplyPolicy
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import parse_term_name
from keywright.provisioning.policies import model as policy_model

_KEY_PATH = "key/"


class ApplyBody(Body):
    """The terms to apply, and how."""

    terms: Annotated[
        list[Annotated[str, Parse(parse_term_name)]],
        Meta(min_length=1, max_length=len(Terms.__struct_fields__)),
        about("The terms of the policy to apply.", ["grace_days"]),
    ]
    overwrite: Annotated[bool, about("Whether to change terms that were set by hand, too.")] = False
    dry_run: Annotated[bool, about("Whether to change nothing and report what would change.")] = False


class TermsExample(Struct):
    """A license whose terms would change."""

    license_id: Annotated[Id, about("The license's ID.", 17)]
    before: Annotated[dict[str, Any], about("The terms now.", {"grace_days": 0})]
    after: Annotated[dict[str, Any], about("The terms afterwards.", {"grace_days": 14})]


class Applied(Struct):
    """The job that applies the terms or, with `dry_run`, a preview of it."""

    job: Annotated[jobs.Job | UnsetType, about("The job.")] = UNSET
    licenses: Annotated[int | UnsetType, about("How many licenses the policy has.", 123)] = UNSET
    changed: Annotated[int | UnsetType, about("How many licenses would change.", 120)] = UNSET
    lowered: Annotated[int | UnsetType, about("How many licenses would get a lower limit.", 2)] = UNSET
    over_limit: Annotated[
        int | UnsetType, about("How many licenses would have more places or leases taken than allowed.", 0)
    ] = UNSET
    examples: Annotated[list[TermsExample] | UnsetType, about("Some of the licenses that would change.")] = (
        UNSET
    )


def show(policy: policy_model.Policy) -> schemas.Policy:
    """The policy as v3 shows it."""
    return copy_as(schemas.Policy, policy, key=copy_as(schemas.KeyFormat, policy))


def _etag(policy: policy_model.Policy) -> bytes:
    return etag_of(show(policy))


def _write(policy: policy_model.Policy) -> Answer:
    return ok(show(policy), etag=_etag(policy))


async def create_policy(call: Call, body: policy_model.NewPolicy) -> Answer:
    """Create a policy.

    Only `name` is required: by default, keys have six chunks of five characters, and licenses have the
    default terms. With an API key for one product, the policy is for that product.
    """
    given = list_changes(body)
    command = policy_model.CreatePolicy(
        context=call.context,
        only_product_id=call.only_product_id,
        key_path=_KEY_PATH,
        **given | _parts_of_key(list_changes(given.pop("key"))),
    )

    def write(policy: policy_model.Policy) -> Answer:
        return created(show(policy), f"{call.root}/policies/{policy.id}", etag=_etag(policy))

    return await call.change(command, write)


async def list_policies(call: Call, query: policy_model.PolicyQuery) -> Answer:
    """List policies.

    Newest first.
    """
    asked = policy_model.FindPolicies(
        paging=lists.read_paging(call),
        product_id=query.product_id,
        is_archived=query.is_archived,
        created_after=query.created_after,
        created_before=query.created_before,
        only_product_id=call.only_product_id,
    )
    return await call.ask(asked, lambda page: lists.answer_items(call, page, show))


async def get_policy(call: Call) -> Answer:
    """Get a policy.

    Returns the policy with all its terms.
    """
    query = policy_model.GetPolicy(**call.named("policy_id"))
    return await call.ask(query, _write)


async def update_policy(call: Call, body: policy_model.PolicyFields) -> Answer:
    """Change a policy.

    Members that are not sent keep their values, also inside `key` and `terms`; null resets a term to its
    default. Existing licenses keep their terms; use `apply` to change them. An archived policy creates no
    more licenses.
    """
    changes = list_changes(body)
    key = changes.pop("key", None)
    command = policy_model.UpdatePolicy(
        context=call.context,
        **call.named("policy_id"),
        terms=changes.pop("terms", {}),
        is_archived=changes.pop("is_archived", None),
        changes=changes | ({} if key is None else _parts_of_key(list_changes(key))),
        key_path=_KEY_PATH,
        precondition=call.precondition(_etag),
    )
    return await call.change(command, _write)


async def delete_policy(call: Call) -> Answer:
    """Delete a policy.

    Only possible if no license names the policy; archive other policies instead.
    """
    command = policy_model.DeletePolicy(
        context=call.context, **call.named("policy_id"), is_unused=True, precondition=call.precondition(_etag)
    )
    return await call.change(command, no_content)


async def apply_policy(call: Call, body: ApplyBody) -> Answer:
    """Apply terms to existing licenses.

    Starts a job that gives the policy's current values of the named terms to all licenses that were made from
    it. With `dry_run`, only counts the licenses that would change. An existing `expires_at` does not change;
    `valid_for_days` sets one for a license that has none if the policy counts from creation. Limits are
    multiplied by the license's `quantity`. Terms that were set by hand (`kept_terms`) keep their values
    unless `overwrite` is true. Devices and leases beyond a lowered limit keep their places.
    """
    fields: dict[str, Any] = {
        **call.named("policy_id"),
        "names": tuple(dict.fromkeys(body.terms)),
        "overwrite": body.overwrite,
    }
    if body.dry_run:
        return await call.ask(policy_model.PreviewTerms(**fields), lambda found: ok(_show_preview(found)))

    def write(job: model.Job) -> Answer:
        return accepted(Applied(job=jobs.show(job)), f"{call.root}/jobs/{job.id}")

    return await call.change(ApplyPolicy(context=call.context, **fields), write)


def _show_preview(found: policy_model.TermsPreview) -> Applied:
    examples = [TermsExample(*one) for one in found.examples]
    return copy_as(Applied, found, job=UNSET, examples=examples)


def _parts_of_key(parts: dict[str, Any]) -> dict[str, Any]:
    """The parts of a key format, with None for an empty text."""
    return {name: None if value == "" else value for name, value in parts.items()}


_EXAMPLE = {
    "name": "Yearly",
    "product_id": 17,
    "terms": {"max_activations": 3, "valid_for_days": 365, "grace_days": 14},
}
_ONE = "/policies/{policy_id}"

ROUTES = (
    Route(
        "POST", "/policies", Right.WRITE, create_policy, gives=schemas.Policy, status=201, example=_EXAMPLE
    ),
    Route("GET", "/policies", Right.READ, list_policies, gives=schemas.Page[schemas.Policy]),
    Route("GET", _ONE, Right.READ, get_policy, gives=schemas.Policy),
    Route(
        "PATCH",
        _ONE,
        Right.WRITE,
        update_policy,
        gives=schemas.Policy,
        refusals=("changed_meanwhile",),
        example={"terms": {"grace_days": 30}},
    ),
    Route(
        "DELETE", _ONE, Right.WRITE, delete_policy, status=204, refusals=("still_in_use", "changed_meanwhile")
    ),
    Route(
        "POST",
        f"{_ONE}/apply",
        Right.WRITE,
        apply_policy,
        gives=Applied,
        status=202,
        also=(200,),
        example={"terms": ["grace_days"], "dry_run": True},
    ),
)
