"""``keywright policy …``, and ``keywright generator …`` with the names of v2"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import typer

from keywright.cli import options, output
from keywright.cli.installation import Installation
from keywright.cli.terms import TermsGiven, with_terms
from keywright.core import parsing
from keywright.core.nouns import list_members
from keywright.http.terms_in_words import describe_terms
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses.keys import MAX_KEY_LENGTH, UNAMBIGUOUS
from keywright.licensing.licenses.model import Status
from keywright.provisioning.policies.model import (
    CreatePolicy,
    DeletePolicy,
    GenerateLicenses,
    GetPolicy,
    ListPolicies,
    NewKeyFormat,
    Policy,
    UpdatePolicy,
)
from keywright.provisioning.policies.rules import terms_from_first_activation

app = typer.Typer(no_args_is_help=True)
#: The old name; its JSON is that of the v2 interface.
generator_app = typer.Typer(no_args_is_help=True)

_MAX_AMOUNT = 10_000

Id = Annotated[int, typer.Argument(metavar="ID", parser=parsing.parse_integer, help="The policy's ID.")]


_MEMBERS = {one.name: one for one in list_members(NewKeyFormat)}


def _part(name: str) -> Any:
    """Return the option for a part of the key format; an empty text means none."""
    member = _MEMBERS[name]

    def read(text: str) -> Any:
        # Keys are trimmed on input: a key with a space at its end would never be found.
        if name in ("prefix", "suffix") and text != text.strip():
            raise ValueError("must not begin or end with a space")
        return member.read(text) or None

    return typer.Option(metavar="TEXT", parser=read, help=member.description)


_Name = Annotated[str, typer.Option(metavar="NAME", parser=parsing.parse_name, help="The policy's name.")]
_Charset = Annotated[str, _part("charset")]
_Chunks = Annotated[int, typer.Option(metavar="N", min=1, max=MAX_KEY_LENGTH, help="The number of groups.")]
_ChunkLength = Annotated[
    int, typer.Option(metavar="N", min=1, max=MAX_KEY_LENGTH, help="The number of characters in a group.")
]
_Separator = Annotated[str | None, _part("separator")]
_Prefix = Annotated[str | None, _part("prefix")]
_Suffix = Annotated[str | None, _part("suffix")]
_Force = Annotated[
    bool, typer.Option("--force", help="Allow keys that could be guessed (under 64 random bits).")
]
_NewName = Annotated[
    str | None, typer.Option(metavar="NAME", parser=parsing.parse_name, help="The policy's name.")
]
_NewProduct = Annotated[
    options.Change | None,
    typer.Option(
        "--product-id",
        metavar="ID",
        parser=options.changing(parsing.parse_integer),
        help="The product that the policy's licenses are for, or none.",
    ),
]
_OldMax = Annotated[
    int | None,
    typer.Option(
        "--max",
        metavar="N",
        parser=parsing.parse_limit,
        help="The number of places of each license. Default: no limit.",
    ),
]
_OldExpiresIn = Annotated[
    int | None,
    typer.Option(
        metavar="DAYS",
        parser=parsing.parse_days,
        help="How many days each license is valid from its first activation.",
    ),
]


@options.command(
    app,
    "keywright policy create --name Standard --max-activations 3",
    "keywright policy create --name Yearly --valid-for-days 365 --grace-days 14 --entitlement pro",
    "keywright policy create --name Trial --prefix TRIAL- --expires-in 30 --device required --trial",
)
@options.with_installation_made
@with_terms
def create(
    here: Installation,
    *,
    name: _Name,
    charset: _Charset = UNAMBIGUOUS,
    chunks: _Chunks = 6,
    chunk_length: _ChunkLength = 5,
    separator: _Separator = "-",
    prefix: _Prefix = None,
    suffix: _Suffix = None,
    product_id: options.ProductId = None,
    is_weak_allowed: _Force = False,
    as_json: options.AsJson = False,
    terms: TermsGiven,
) -> None:
    """Make a policy: a recipe for licenses.

    It defines the format of their keys and the terms that they get. By default, keys have six groups and 150
    random bits: RT7KA-2M3WX-…
    """
    recipe = _Recipe(name, charset, chunks, chunk_length, separator, prefix, suffix, product_id)
    with terms.naming_options():
        policy = _create(here, recipe, terms.patch, is_weak_allowed=is_weak_allowed)
    _print_made(policy, "policy", output.policy_json, as_json=as_json)


@options.command(
    generator_app,
    "keywright generator create --name Standard --max 3",
    "keywright generator create --name Trial --prefix TRIAL- --expires-in 30",
    name="create",
)
@options.with_installation_made
def create_generator(
    here: Installation,
    *,
    name: _Name,
    charset: _Charset = UNAMBIGUOUS,
    chunks: _Chunks = 6,
    chunk_length: _ChunkLength = 5,
    separator: _Separator = "-",
    prefix: _Prefix = None,
    suffix: _Suffix = None,
    times_activated_max: _OldMax = None,
    expires_in: _OldExpiresIn = None,
    is_weak_allowed: _Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a policy with the terms that v2 supports; `keywright policy create` supports all terms."""
    recipe = _Recipe(name, charset, chunks, chunk_length, separator, prefix, suffix, None)
    terms = terms_from_first_activation(times_activated_max, expires_in)
    policy = _create(here, recipe, terms, is_weak_allowed=is_weak_allowed)
    _print_made(policy, "generator", output.generator_json, as_json=as_json)


@options.command(app, "keywright policy list", name="list")
@options.with_installation
def list_policies(here: Installation, as_json: options.AsJson = False) -> None:
    """List the policies, oldest first."""
    _print_list(here, output.policy_json, as_json=as_json)


@options.command(generator_app, "keywright generator list --json", name="list")
@options.with_installation
def list_generators(here: Installation, as_json: options.AsJson = False) -> None:
    """List the policies, oldest first."""
    _print_list(here, output.generator_json, as_json=as_json)


@options.command(app, "keywright policy show 1", "keywright policy show 1 --json > policy.json")
@options.with_installation
def show(here: Installation, policy_id: Id, as_json: options.AsJson = False) -> None:
    """Show a policy: the format of its keys, and the terms that its licenses get."""
    policy: Policy = here.ask(GetPolicy(policy_id=policy_id))
    if as_json:
        output.print_json(output.policy_json(policy))
        return
    output.print_heading(f"Policy {policy.id}")
    output.print_fields(
        [
            ("name", policy.name),
            ("product", policy.product_id),
            ("keys", _shape(policy)),
            ("characters", policy.charset),
            ("archived at", output.format_time(policy.archived_at)),
            ("created at", output.format_time(policy.created_at)),
            ("updated at", output.format_time(policy.updated_at)),
        ]
    )
    output.print_heading("Terms")
    for part in describe_terms(policy.terms):
        output.print_line(f"  {output.printable(part)}")


@options.command(
    app,
    "keywright policy update 1 --max-activations 5",
    "keywright policy update 1 --grace-days none --meter exports=100/month",
)
@options.with_installation
@with_terms
def update(
    here: Installation,
    policy_id: Id,
    *,
    name: _NewName = None,
    product_id: _NewProduct = None,
    as_json: options.AsJson = False,
    terms: TermsGiven,
) -> None:
    """Change a policy: only what the options name is changed.

    Licenses that it made stay as they are. The word none resets a term to its default: --max-activations
    none removes the limit.
    """
    changes: dict[str, Any] = {} if name is None else {"name": name}
    if product_id is not None:
        changes["product_id"] = product_id.value
    if not changes and not terms.patch:
        raise options.WrongUsage("Nothing to change: name at least one option, such as --max-activations")
    change = UpdatePolicy(
        # The key format does not change, so its strength is not checked again.
        context=here.context,
        policy_id=policy_id,
        changes=changes,
        terms=terms.patch,
        is_weak_allowed=True,
    )
    with terms.naming_options():
        policy: Policy = here.change(change)
    if as_json:
        output.print_json(output.policy_json(policy))
        return
    output.print_line(f"Policy {policy.id} updated. Existing licenses stay as they are.")


@options.command(app, "keywright policy archive 1")
@options.with_installation
def archive(here: Installation, policy_id: Id, as_json: options.AsJson = False) -> None:
    """Archive a policy: it makes no more licenses; existing ones stay."""
    _set_archived(here, policy_id, is_archived=True, as_json=as_json)


@options.command(app, "keywright policy unarchive 1")
@options.with_installation
def unarchive(here: Installation, policy_id: Id, as_json: options.AsJson = False) -> None:
    """Let an archived policy make licenses again."""
    _set_archived(here, policy_id, is_archived=False, as_json=as_json)


@options.command(
    app,
    "keywright policy generate 1 --amount 100 > keys.txt",
    "keywright policy generate 1 --amount 5 --status sold --order-id 1017 --json",
)
@options.command(generator_app, "keywright generator generate 1 --amount 100 > keys.txt")
@options.with_installation
def generate(
    here: Installation,
    policy_id: Id,
    *,
    amount: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=_MAX_AMOUNT, help="The number of licenses, at most 10,000."),
    ],
    status: options.NewStatus = Status.ACTIVE,
    product_id: options.ProductId = None,
    order_id: options.OrderId = None,
    customer_id: options.CustomerId = None,
    claimable: Annotated[
        bool | None,
        typer.Option(
            "--claimable/--not-claimable",
            help="Whether customers may add a license in the portal with its key. Default: as the policy "
            "states.",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make licenses with a policy, all or none, and print their keys, one per line."""
    records: tuple[LicenseRecord, ...] = here.change(
        GenerateLicenses(
            context=here.context,
            policy_id=policy_id,
            amount=amount,
            status=status,
            order_id=order_id,
            product_id=product_id,
            customer_id=customer_id,
            claimable=claimable,
        )
    )
    if as_json:
        output.print_json_array(output.license_json(one.license) for one in records)
        return
    for one in records:
        print(one.license.key)


@options.command(app, "keywright policy delete 1")
@options.command(generator_app, "keywright generator delete 1")
@options.with_installation
def delete(here: Installation, policy_id: Id) -> None:
    """Delete a policy; the licenses that it made stay."""
    here.change(DeletePolicy(context=here.context, policy_id=policy_id))
    output.print_line(f"Policy {policy_id} deleted. Its licenses stay.")


class _Recipe(NamedTuple):
    name: str
    charset: str
    chunks: int
    chunk_length: int
    separator: str | None
    prefix: str | None
    suffix: str | None
    product_id: int | None


def _create(
    here: Installation, recipe: _Recipe, terms: Mapping[str, Any], *, is_weak_allowed: bool
) -> Policy:
    new = CreatePolicy(context=here.context, terms=terms, is_weak_allowed=is_weak_allowed, **recipe._asdict())
    policy: Policy = here.change(new)
    return policy


def _set_archived(here: Installation, policy_id: int, *, is_archived: bool, as_json: bool) -> None:
    # The key format does not change, so its strength is not checked again.
    change = UpdatePolicy(
        context=here.context, policy_id=policy_id, is_archived=is_archived, is_weak_allowed=True
    )
    policy: Policy = here.change(change)
    if as_json:
        output.print_json(output.policy_json(policy))
        return
    output.print_line(f"Policy {policy_id} is {'archived' if is_archived else 'in use again'}.")


def _print_made(
    policy: Policy, noun: str, to_json: Callable[[Policy], output.Json], *, as_json: bool
) -> None:
    if as_json:
        output.print_json(to_json(policy))
        return
    output.print_line(f"Policy {policy.id} created. To make ten licenses with it:")
    output.print_line(f"  keywright {noun} generate {policy.id} --amount 10")


def _print_list(here: Installation, to_json: Callable[[Policy], output.Json], *, as_json: bool) -> None:
    policies: tuple[Policy, ...] = here.ask(ListPolicies())
    if as_json:
        output.print_json_array(map(to_json, policies))
        return
    columns = ("id", "name", "product", "keys", "terms", "archived at")
    output.print_table(columns, [_row(one) for one in policies])


def _row(one: Policy) -> tuple[object, ...]:
    terms = ", ".join(describe_terms(one.terms))
    return (one.id, one.name, one.product_id, _shape(one), terms, output.format_time(one.archived_at))


def _shape(one: Policy) -> str:
    chunk = "X" * one.chunk_length
    return f"{one.prefix or ''}{(one.separator or '').join([chunk] * one.chunks)}{one.suffix or ''}"
