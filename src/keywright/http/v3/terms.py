"""Terms, as policies and licenses show them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from keywright.core.fields import about
from keywright.licensing.terms import model

#: The body's member: a JSON merge patch of terms, which ``merge_terms`` checks.
TermsPatch = Annotated[
    dict[str, Any],
    about("Those of the terms that differ; null is the default.", {"max_activations": 3, "grace_days": 7}),
]


class Allowance(Struct):
    """So many within any `per_days` times 24 hours."""

    count: Annotated[int, about("How many.", 3)]
    per_days: Annotated[int, about("The days.", 30)]


class Meter(Struct):
    """The limit of something that is counted."""

    limit: Annotated[int, about("How much in each period.", 1000)]
    per: Annotated[
        Literal["day", "month", "year", "license_month", "license_year", "license"],
        about("The period: of the calendar in UTC, or from the license's creation on.", "month"),
    ]
    overage: Annotated[Literal["refuse", "allow"], about("What becomes of use beyond the limit.", "refuse")]


class Terms(Struct):
    """The terms of a license."""

    max_activations: Annotated[int | None, about("Places at a time; null is no limit.", 3)]
    valid_for_days: Annotated[int | None, about("The life in days; null is no end.", 365)]
    starts: Annotated[
        Literal["creation", "first_activation"], about("Where the days are counted from.", "creation")
    ]
    grace_days: Annotated[int, about("Days after the expiry in which it is still valid.", 7)]
    after_expiry: Annotated[
        Literal["refuse", "allow", "older_versions"],
        about(
            "What an expired license still allows: nothing, everything, builds before the expiry.", "refuse"
        ),
    ]
    device: Annotated[
        Literal["optional", "required"], about("Whether a fingerprint is needed to activate.", "optional")
    ]
    max_leases: Annotated[int | None, about("Leases at the same moment; null offers none.", None)]
    lease_seconds: Annotated[int, about("The longest life of a lease.", 600)]
    offline_days: Annotated[int, about("The longest life of a signed answer; 0 cannot be kept.", 14)]
    next_check_seconds: Annotated[int, about("When a program should ask again.", 86400)]
    portal_removals: Annotated[
        Allowance | None,
        about("How often customers may free a device themselves; null is as often as they like.", None),
    ]
    new_devices: Annotated[
        Allowance | None, about("How many devices never seen before may be activated; null is any.", None)
    ]
    entitlements: Annotated[list[str], about("The codes of features.", ["export", "pro"])]
    meters: Annotated[
        dict[str, Meter],
        about("What is counted, by name.", {"pages": {"limit": 1000, "per": "month", "overage": "refuse"}}),
    ]
    trial: Annotated[bool, about("Whether trials can be made.", False)]
    claimable: Annotated[
        bool, about("Whether the portal gives it to a customer who has its key, while it has none.", False)
    ]
    transferable: Annotated[
        Literal["no", "once", "always"], about("How often a customer may hand it on.", "once")
    ]
    transfer_after_days: Annotated[
        int, about("Days after it was made or handed on before it can be handed on.", 30)
    ]
    when_full: Annotated[
        Literal["refuse", "replace_unseen"],
        about("What a new device on a full license meets.", "refuse"),
    ]
    unseen_days: Annotated[
        int | None, about("`replace_unseen` takes the place of a device unseen for so long.", None)
    ]
    devices_visible: Annotated[
        bool, about("Whether programs show the devices of a full license, and remove one.", False)
    ]


def show_terms(terms: model.Terms) -> Terms:
    """The terms with every member."""
    return msgspec.convert(terms, Terms, from_attributes=True)
