"""The fields of a webhook that can be set."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from keywright.core.fields import Fields, Id, Name, Parse, about
from keywright.core.nouns import Flag, Items, ListQuery
from keywright.core.standard_webhooks import parse_secret
from keywright.delivery.webhooks.addresses import MAX_URL, parse_address
from keywright.delivery.webhooks.model import Payload
from keywright.delivery.webhooks.rules import normalize_events, parse_event_type

TYPES = "Event types such as `license.activated`, `license.*` or `*`."
_PAYLOADS = (
    "`full` adds details and the license, `with_email` the customer's name and e-mail address, too; `thin` "
    "has numbers alone."
)
_EventType = Annotated[str, Meta(max_length=40), Parse(parse_event_type)]

Secret = Annotated[str, Meta(max_length=200), Parse(parse_secret)]
Url = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_URL),
    Parse(parse_address),
    about("Where deliveries are sent: https; else in `webhook_networks`.", "https://crm.example/keywright"),
]
Events = Annotated[
    list[_EventType],
    Meta(min_length=1, max_length=50),
    Parse(normalize_events),
    about(TYPES, ["license.*"]),
    Items(parse_event_type, str, "--event", "TYPE"),
]


class WebhookFields(Fields):
    """The fields of a webhook that can be set; a change is a JSON Merge Patch."""

    url: Url | UnsetType = UNSET
    events: Events | UnsetType = UNSET
    description: Annotated[Name, about("What it is for.")] | UnsetType | None = UNSET
    product_id: Annotated[Id, about("Only events about this product.")] | UnsetType | None = UNSET
    payload: Annotated[Payload, about(_PAYLOADS)] | UnsetType = UNSET
    is_enabled: (
        Annotated[
            bool,
            about("Enabled again, it goes on where it stood, with the events of 30 days."),
            Flag("--enabled/--disabled"),
        ]
        | UnsetType
    ) = UNSET


class NewWebhook(WebhookFields):
    """A webhook to create."""

    url: Url
    events: Events
    secret: Annotated[Secret, about("Without one, it gets one.")] | UnsetType | None = UNSET


class WebhookQuery(ListQuery):
    """The order of webhooks."""

    sort: Literal["created_at", "-created_at"] = "-created_at"
