"""The settings of the administration pages."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings

from keywright.config.values import lower, parse_address, parse_link_template, parse_time_zone


# Each ``allowed`` completes the sentence "it must be …"; numbers and choices have it in their types.
class PageSettings(BaseSettings):
    """The settings that only the pages need."""

    admin: bool = Field(
        default=True,
        description="Whether the administration pages are served; if not, /admin does not exist.",
    )
    admin_address: Annotated[str | None, BeforeValidator(parse_address)] = Field(
        default=None,
        description=(
            "An address of its own for the administration pages, a private one for example. They are served "
            "there only: at every other address, /admin does not exist."
        ),
        json_schema_extra={"allowed": "a host and a port such as 127.0.0.1:8001 or [::1]:8001"},
    )
    portal: bool = Field(
        default=True,
        description=(
            "Whether the customer's portal is served; if not, /portal does not exist. Customers sign in with "
            "codes that are mailed to them, so it needs smtp_url; with a license key alone, they see that "
            "license."
        ),
    )
    require_second_factor: Annotated[Literal["none", "administrators", "all"], BeforeValidator(lower)] = (
        Field(
            default="none",
            description=(
                "Which users of the pages must have a second factor: a user who has none must set it up "
                "after the password, before anything else. Every user may have one."
            ),
        )
    )
    session_hours: int = Field(
        default=10,
        ge=1,
        le=168,
        description="How many hours after the sign-in a session of the pages ends, also one that is used.",
    )
    time_zone: Annotated[str, BeforeValidator(parse_time_zone)] = Field(
        default="UTC",
        description=(
            "The time zone in which the pages count days for browsers that have not told theirs, such as "
            "those without JavaScript."
        ),
        json_schema_extra={"allowed": "the name of a time zone such as Europe/Berlin"},
    )
    customer_link: Annotated[str | None, BeforeValidator(parse_link_template)] = Field(
        default=None,
        description=(
            "The page of a customer in your shop, to which the pages link; {id} is the customer's number. "
            "Default: there is no link."
        ),
        json_schema_extra={"allowed": "an address such as https://shop.example.com/customers/{id}"},
    )
