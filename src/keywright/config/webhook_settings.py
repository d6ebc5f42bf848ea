"""The settings of webhooks, and of the events that come by themselves."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode

from keywright.config.values import Network, parse_days, parse_networks


# Each ``allowed`` completes the sentence "it must be …"; numbers and choices have it in their types.
class WebhookSettings(BaseSettings):
    """The settings that only webhooks and events need."""

    webhook_networks: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(parse_networks)] = Field(
        default=(),
        description=(
            "The private networks to which webhooks may be sent, comma-separated. Addresses of this machine, "
            "of private networks and of a cloud's metadata are refused, whatever name leads to them. "
            "Default: none; a receiver on this machine needs 127.0.0.0/8, ::1."
        ),
        json_schema_extra={"allowed": "addresses or ranges such as 10.0.0.1, 10.1.0.0/16"},
    )
    expiry_notice_days: Annotated[tuple[int, ...], NoDecode, BeforeValidator(parse_days)] = Field(
        default=(7, 1),
        description=(
            "How many days before a license expires there is an event license.expiring, comma-separated. "
            "Empty: there is none."
        ),
        json_schema_extra={"allowed": "at most five numbers of days from 1 to 365, such as 30, 7, 1"},
    )
    expiry_mails: bool = Field(
        default=False,
        description=(
            "Whether customers whose address is known get a mail at the same moments, and when their license "
            "has expired."
        ),
    )
