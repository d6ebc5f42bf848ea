"""Products, and the versions of their programs that are in use."""

from datetime import date
from typing import Annotated

from msgspec import Meta, Struct

from keywright.core.fields import about
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3.answers import ok
from keywright.http.v3.call import Call
from keywright.http.v3.crud import Texts, crud_routes
from keywright.http.v3.fields import Query
from keywright.http.v3.route import Route
from keywright.provisioning.products import PRODUCT
from keywright.search.statistics import MAX_VERSION_DAYS, ListVersions, VersionsInUse

_TEXTS = Texts(
    create="Licenses and policies may refer to the ID of a product that does not exist yet: send that `id` "
    "to create the product.",
    list="Newest first. An API key for only one product sees only that product.",
    update="Omitted members keep their values. The code of a product that has licenses cannot be changed, "
    "because programs may use it.",
    delete="Only a product without licenses and policies can be deleted.",
)


class VersionsQuery(Query):
    """The period to report on."""

    days: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_VERSION_DAYS)],
        about("How many days before the last count to report.", 30),
    ] = 30


class Version(Struct):
    """The number of active devices with a version on a platform."""

    app_version: Annotated[str | None, about("The program's version; `*` means all others.", "4.2.0")]
    platform: Annotated[str | None, about("The devices' operating system.", "macOS 26")]
    devices: Annotated[int, about("How many devices were seen within 30 days.", 12)]
    seen_1_day: Annotated[int, about("How many of these were seen within a day.", 7)]
    seen_7_days: Annotated[int, about("How many of these were seen within 7 days.", 10)]


class VersionOfDay(Struct):
    """The number of active devices with a version on a day."""

    day: Annotated[date, about("The day, in UTC.", "2026-11-27")]
    app_version: Annotated[str | None, about("The program's version; `*` means all others.", "4.2.0")]
    devices: Annotated[
        int, about("How many devices were seen within the 30 days up to the end of the day.", 12)
    ]


class Versions(Struct):
    """The versions of a product that are in use."""

    counted_on: Annotated[date | None, about("The day (UTC) of the last count.", "2026-11-27")]
    devices: Annotated[int, about("All active devices of the product.", 12)]
    versions: Annotated[list[Version], about("The versions by platform, the most used first.")]
    days: Annotated[list[VersionOfDay], about("The versions by day, the oldest day first.")]


async def list_product_versions(call: Call, query: VersionsQuery) -> Answer:
    """List the versions in use.

    Counts active devices, which are those seen within 30 days, by the `app_version` and `platform` that
    programs send. The counts are updated once a day. Devices that send only a fingerprint have no version.
    """
    asked = ListVersions(**call.named("product_id"), now=call.now, days=query.days)
    return await call.ask(asked, lambda found: ok(show_versions(found)))


def show_versions(found: VersionsInUse) -> Versions:
    """The versions as v3 shows them."""
    versions = [
        Version(one.app_version or None, one.platform or None, one.devices, one.seen_1_day, one.seen_7_days)
        for one in found.versions
    ]
    days = [VersionOfDay(one.day, one.app_version or None, one.devices) for one in found.days]
    return Versions(found.counted_on, found.devices, versions, days)


ROUTES = (
    *crud_routes(
        PRODUCT,
        _TEXTS,
        example={
            "name": "Paint",
            "code": "paint",
            "url": "https://example.com/paint",
            "features": [{"code": "layers", "name": "Layers"}],
        },
        change={"name": "Paint Pro"},
        refusals={
            "POST": ("already_exists",),
            "PATCH": ("already_exists", "still_in_use", "changed_meanwhile"),
            "DELETE": ("still_in_use", "changed_meanwhile"),
        },
    ),
    Route(
        "GET",
        "/products/{product_id}/versions",
        Right.READ,
        list_product_versions,
        gives=Versions,
        refusals=("not_found",),
        example={"days": "30"},
    ),
)
