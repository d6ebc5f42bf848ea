"""The activations of a license, as vendors see them."""

from typing import Annotated, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from keywright.core.fields import EXAMPLE_TOKEN, Id, Time, about, copy_as
from keywright.core.nouns import ListQuery
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import lists
from keywright.http.v3.answers import etag_of, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.route import Route
from keywright.http.v3.schemas import Page
from keywright.licensing.activations.model import Activation as StoredActivation
from keywright.licensing.activations.model import ReleaseActivation, ReleaseAll
from keywright.licensing.management import ActivationPage, GetActivation, ListActivations, ManagedActivation


class Activation(Struct):
    """A place on a license, held or given up by a device."""

    id: Annotated[Id, about("The activation's ID.", 90)]
    token: Annotated[str, about("The token with which programs identify it.", EXAMPLE_TOKEN)]
    fingerprint: Annotated[
        str | None, about("The device's fingerprint; null if it was activated over v2.", "5b1f0c9a4e7d")
    ]
    name: Annotated[str | None, about("The device's name.", "Anna's laptop")]
    platform: Annotated[str | None, about("The device's operating system.", "macOS 26")]
    app_version: Annotated[str | None, about("The program's version.", "4.2.0")]
    ip_address: Annotated[str, about("The IP address from which it was activated.", "192.0.2.1")]
    user_agent: Annotated[str, about("The user agent of the program that activated it.", "Photo Editor/4.2")]
    metadata: Annotated[dict[str, Any], about("Data that the program stores with the activation.", {})]
    is_active: Annotated[bool, about("Whether it is active; false once it was deactivated.", True)]
    is_counted: Annotated[
        bool, about("Whether it takes a place; false for hosts in the terms' `uncounted_hosts`.", True)
    ]
    created_at: Annotated[Time, about("When the place was first taken.")]
    last_seen_at: Annotated[Time, about("When the device last called; may lag by a few minutes.")]
    offline_until: Annotated[
        Time | None,
        about(
            "The latest time until which its signed answers and license files are valid; null if it has "
            "none.",
            None,
        ),
    ]
    deactivated_at: Annotated[Time | None, about("When it was deactivated; null while it is active.", None)]


class Released(Struct):
    """The number of places that were released."""

    released: Annotated[int, about("The number of places that were released.", 3)]


class ActivationQuery(ListQuery):
    """Filters and sort order of a list of activations."""

    is_active: Annotated[bool | None, about("Only active activations, or only deactivated ones.")] = None
    sort: Literal["-created_at", "created_at"] = "-created_at"


def show(managed: ManagedActivation) -> Activation:
    """The activation as v3 shows it to vendors."""
    one = managed.activation
    return copy_as(
        Activation,
        one,
        name=one.label,
        metadata=dict(one.meta_data or {}),
        is_active=one.deactivated_at is None,
        last_seen_at=managed.last_seen_at or one.created_at,
        offline_until=one.runs_until,
    )


async def list_activations(call: Call, query: ActivationQuery) -> Answer:
    """List the activations of a license.

    Newest first, including deactivated ones for as long as they are kept.
    """
    asked = ListActivations(
        **call.named("license_id"),
        limit=query.limit,
        after=lists.read_cursor(call, tuple[lists.Number, lists.Number]),
        is_descending=query.sort == "-created_at",
        is_active=query.is_active,
        is_counted=query.count,
    )

    def write(page: ActivationPage) -> Answer:
        return lists.answer_page(call, page.activations, _position_of, show, total=page.total)

    return await call.ask(asked, write)


async def get_activation(call: Call) -> Answer:
    """Get an activation.

    Its `ETag` does not depend on `last_seen_at` and `offline_until`.
    """

    def write(managed: ManagedActivation) -> Answer:
        return ok(show(managed), etag=_etag_of(managed.activation))

    return await call.ask(GetActivation(**call.named("license_id", "activation_id")), write)


async def release_activation(call: Call) -> Answer:
    """Release an activation.

    Gives up the place; the record remains. Releasing an activation that has already been released changes
    nothing.
    """
    command = ReleaseActivation(
        **call.about_license(),
        activation_id=call.path["activation_id"],
        activation_precondition=call.precondition(_etag_of),
    )
    return await call.change(command, no_content)


async def release_activations(call: Call) -> Answer:
    """Release all activations of a license.

    Gives up all places; the records remain. Returns the number of places that were held.
    """
    return await call.change(ReleaseAll(**call.about_license()), lambda taken: ok(Released(taken)))


def _etag_of(activation: StoredActivation) -> bytes:
    return etag_of(show(ManagedActivation(replace(activation, offline_until=None))))


def _position_of(managed: ManagedActivation) -> tuple[int, int]:
    return int(managed.activation.created_at.timestamp()), managed.activation.id


_ALL = "/licenses/{license_id}/activations"
_ONE = f"{_ALL}/{{activation_id}}"
_REFUSALS = ("not_found",)

ROUTES = (
    Route(
        "GET",
        _ALL,
        Right.READ,
        list_activations,
        gives=Page[Activation],
        refusals=("not_found",),
        example={"is_active": "true"},
    ),
    Route("GET", _ONE, Right.READ, get_activation, gives=Activation, refusals=_REFUSALS),
    Route(
        "DELETE",
        _ONE,
        Right.WRITE,
        release_activation,
        status=204,
        refusals=(*_REFUSALS, "changed_meanwhile"),
    ),
    Route(
        "POST",
        f"{_ALL}/release-all",
        Right.WRITE,
        release_activations,
        gives=Released,
        refusals=("not_found",),
    ),
)
