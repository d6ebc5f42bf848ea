"""The settings that say how much of the server one caller may take."""

from pydantic import Field
from pydantic_settings import BaseSettings

from keywright.config.values import Whole


class LimitSettings(BaseSettings):
    """The limits on connections and calls."""

    connections_limit: Whole = Field(
        default=8192,
        description=(
            "The highest number of open connections of each server process, as far as the system allows it; "
            "further ones get 503."
        ),
        ge=1,
    )
    connections_per_address: Whole = Field(
        default=256,
        description=(
            "The highest number of these from one address or IPv6 /64; 0 is no limit. This machine and "
            "trusted_proxies have no such limit."
        ),
    )
    unknown_key_limit: Whole = Field(
        default=600,
        description=(
            "How many unknown license keys an address may send in a minute, counted by each server process; "
            "0 is no limit."
        ),
    )
    bad_credentials_limit: Whole = Field(
        default=120,
        description=(
            "How many wrong API credentials an address may send in a minute, counted by each server "
            "process; 0 is no limit."
        ),
    )
    bad_request_limit: Whole = Field(
        default=120,
        description=(
            "How many malformed requests (400) an address may send in a minute without an API key that may "
            "read or write, counted by each server process; 0 is no limit."
        ),
    )
    license_change_limit: Whole = Field(
        default=120,
        description=(
            "How many activations and reactivations of a license may succeed in a minute after the first "
            "1,000, counted by each server process; 0 is no limit. Those with a read_write API key do not "
            "count, and giving up a place is never refused."
        ),
    )
    address_change_limit: Whole = Field(
        default=600,
        description=(
            "The same from one address (or IPv6 /64 network) after the first 5,000; not for calls through a "
            "proxy that trusted_proxies does not name."
        ),
    )
    trial_limit: Whole = Field(
        default=10,
        description=(
            "How many trials may be started in an hour from one address (or IPv6 /64 network), counted by "
            "each server process; 0 is no limit. Those with a read_write API key do not count."
        ),
    )
