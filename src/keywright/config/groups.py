"""The settings of limits, mail, the administration pages and webhooks."""

from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, BeforeValidator, Field, SecretStr

from keywright.config import values
from keywright.db.urls import is_local


def in_pages(label: str, allowed: str | None = None) -> dict[str, Any]:
    """Return the ``json_schema_extra`` of a setting that administrators may change in the pages: its label
    there. ``allowed`` completes the sentence "it must be …"; for numbers and choices, the type does.
    """
    return {"label": label} | ({} if allowed is None else {"allowed": allowed})


class LimitSettings(BaseModel):
    """The limits on connections and calls."""

    connections_limit: values.Whole = Field(
        default=8192,
        description=(
            "The highest number of open connections of each server process, within the system's limits; "
            "further ones get 503."
        ),
        ge=1,
    )
    connections_per_address: values.Whole = Field(
        default=256,
        description=(
            "The highest number of open connections from one address or IPv6 /64; 0 is no limit. This "
            "machine and trusted_proxies are exempt."
        ),
    )
    unknown_key_limit: values.Whole = Field(
        default=600,
        description=(
            "How many unknown license keys an address may send in a minute, counted by each server process; "
            "0 is no limit."
        ),
    )
    bad_credentials_limit: values.Whole = Field(
        default=120,
        description=(
            "How many wrong API credentials an address may send in a minute, counted by each server "
            "process; 0 is no limit."
        ),
    )
    bad_request_limit: values.Whole = Field(
        default=120,
        description=(
            "How many malformed requests (400) an address may send in a minute without an API key that may "
            "read or write, counted by each server process; 0 is no limit."
        ),
    )
    license_change_limit: values.Whole = Field(
        default=120,
        description=(
            "How many activations and reactivations of a license may succeed in a minute after the first "
            "1,000, counted by each server process; 0 is no limit. Calls with a read_write API key do not "
            "count, and deactivating is never refused."
        ),
    )
    address_change_limit: values.Whole = Field(
        default=600,
        description=(
            "How many activations and reactivations from one address (or IPv6 /64 network) may succeed in "
            "a minute after the first 5,000; not for calls through a proxy that trusted_proxies does not "
            "name."
        ),
    )
    trial_limit: values.Whole = Field(
        default=10,
        description=(
            "How many trials may be started in an hour from one address (or IPv6 /64 network), counted by "
            "each server process; 0 is no limit. Calls with a read_write API key do not count."
        ),
    )


#: The languages of the built-in templates.
MailLanguage = Literal["en", "de", "fr", "es", "pt-BR", "ja"]
_PORTS = {"smtp": 587, "smtps": 465}


class SmtpServer(NamedTuple):
    """An SMTP server. ``is_encrypted``: TLS from the first byte (smtps); ``needs_tls``: STARTTLS is required
    before any mail.
    """

    host: str
    port: int
    is_encrypted: bool
    needs_tls: bool
    user: str | None
    password: str | None
    ca_file: Path | None


class MailSettings(BaseModel):
    """The settings of mail."""

    smtp_url: Annotated[SecretStr | None, BeforeValidator(values.parse_smtp_url)] = Field(
        default=None,
        description=(
            "The SMTP server that sends mails: smtp:// (STARTTLS, port 587) or smtps:// (TLS from the "
            "start, port 465), with percent-encoded user and password. Its certificate is verified. "
            "Default: mails wait, and are not sent."
        ),
        json_schema_extra=in_pages(
            "Mail server", "an address such as smtps://user:password@mail.example.com"
        ),
    )
    smtp_tls: Annotated[Literal["auto", "required", "none"], BeforeValidator(values.lower)] = Field(
        default="auto",
        description=(
            "Whether an smtp:// server must offer STARTTLS: auto requires it, except of a server on this "
            "machine. With none, mails and the password cross the network in clear text."
        ),
        json_schema_extra=in_pages("STARTTLS"),
    )
    smtp_ca_file: Annotated[Path | None, BeforeValidator(values.parse_optional_path)] = Field(
        default=None,
        description=(
            "A file with the CA certificates (PEM) that the SMTP server's certificate is verified with, "
            "instead of the system's."
        ),
        json_schema_extra={"allowed": "the path of a file"},
    )
    mail_from: Annotated[str | None, BeforeValidator(values.parse_mail_address)] = Field(
        default=None,
        description=(
            "The sender of every mail; mails are signed with its name. Required with a mail server. Your "
            "domain should allow the SMTP server to send for it (SPF, DKIM)."
        ),
        json_schema_extra=in_pages("Sender", "an address such as Example Software <licenses@example.com>"),
    )
    mail_language: MailLanguage = Field(
        default="en",
        description="The language of mails to customers whose language is not known.",
        json_schema_extra=in_pages("Language of mails"),
    )
    keep_mails_days: values.Whole = Field(
        default=30,
        description="For how many days sent mails are kept; a mail that waits longer is given up.",
        json_schema_extra=in_pages("Days that mails are kept"),
        ge=1,
        le=3650,
    )
    keep_notices_days: values.Whole = Field(
        default=3650,
        description="For how many days the records of who received a notice are kept.",
        json_schema_extra=in_pages("Days that records of notices are kept"),
        ge=1,
        le=36_500,
    )

    @property
    def smtp_server(self) -> SmtpServer | None:
        """The server that sends mails; None if there is none."""
        if self.smtp_url is None:
            return None
        url = urlsplit(self.smtp_url.get_secret_value())
        host = url.hostname or ""
        return SmtpServer(
            host,
            url.port or _PORTS[url.scheme],
            url.scheme == "smtps",
            self.smtp_tls == "required" or (self.smtp_tls == "auto" and not is_local(host)),
            None if url.username is None else unquote(url.username),
            None if url.password is None else unquote(url.password),
            self.smtp_ca_file,
        )


# Each ``allowed`` completes the sentence "it must be …"; for numbers and choices, the type does.
class PageSettings(BaseModel):
    """The settings of the pages."""

    admin: bool = Field(
        default=True,
        description="Whether to serve the administration pages; if not, /admin does not exist.",
    )
    admin_address: Annotated[str | None, BeforeValidator(values.parse_address)] = Field(
        default=None,
        description=(
            "A separate, for example private, address for the administration pages. They are served only "
            "there: at every other address, /admin does not exist."
        ),
        json_schema_extra={"allowed": "a host and a port such as 127.0.0.1:8001 or [::1]:8001"},
    )
    portal: bool = Field(
        default=True,
        description=(
            "Whether to serve the customer portal; if not, /portal does not exist. Customers sign in with "
            "codes that are mailed to them, which needs a mail server; with a license key alone, they see "
            "that license."
        ),
        json_schema_extra=in_pages("Customer portal"),
    )
    require_second_factor: Annotated[
        Literal["none", "administrators", "all"], BeforeValidator(values.lower)
    ] = Field(
        default="none",
        description=(
            "Which users of the pages must have a second factor. A user without one must set it up when "
            "signing in. Every user may have one."
        ),
        json_schema_extra=in_pages("Second factor is required of"),
    )
    session_hours: int = Field(
        default=10,
        ge=1,
        le=168,
        description="How many hours after signing in a session of the pages ends, even if it is in use.",
        json_schema_extra=in_pages("Hours of a session"),
    )
    session_idle_minutes: int = Field(
        default=120,
        ge=0,
        le=10_080,
        description=(
            "After how many minutes without use a session of the pages ends. 0: it ends only after its hours."
        ),
        json_schema_extra=in_pages("Minutes until an unused session ends"),
    )
    time_zone: Annotated[str, BeforeValidator(values.parse_time_zone)] = Field(
        default="UTC",
        description=(
            "The time zone in which the pages count days for browsers that do not report theirs, such as "
            "those without JavaScript."
        ),
        json_schema_extra=in_pages("Time zone", "the name of a time zone such as Europe/Berlin"),
    )
    customer_link: Annotated[str | None, BeforeValidator(values.parse_link_template)] = Field(
        default=None,
        description=(
            "The page of a customer in your shop, to which the pages link; {id} is the customer's ID. "
            "Default: no link."
        ),
        json_schema_extra=in_pages(
            "Customers in your shop", "an address such as https://shop.example.com/customers/{id}"
        ),
    )
    security_contact: Annotated[str | None, BeforeValidator(values.trim)] = Field(
        default=None,
        pattern=r"^(https://|mailto:)[\x21-\x7e]{1,250}$",
        description=(
            "The contact for reports of security flaws, for /.well-known/security.txt (RFC 9116). "
            "Default: no such file."
        ),
        json_schema_extra=in_pages("Reports of security flaws", "an address with mailto: or https://"),
    )
    getting_started: bool = Field(
        default=True,
        description="Whether the overview shows administrators the first steps until all are done.",
        json_schema_extra=in_pages("Getting started"),
    )


class Provider(NamedTuple):
    """The company's OpenID provider. ``roles``: names, highest first, each with its values of the claim."""

    issuer: str
    client_id: str
    client_secret: str | None
    scopes: str
    roles_claim: str
    roles: tuple[tuple[str, tuple[str, ...]], ...]


_VALUES = "values of the claim, comma-separated, such as keywright-admins"


class CompanySettings(BaseModel):
    """The settings of single sign-on with the company's accounts."""

    oidc_issuer: Annotated[str | None, BeforeValidator(values.parse_issuer)] = Field(
        default=None,
        description=(
            "The issuer URL of the OpenID provider whose accounts can sign in to the pages, exactly as "
            "the provider writes it. Its configuration is read from there. Default: none."
        ),
        json_schema_extra=in_pages("Provider", "an https address such as https://login.example.com/realm"),
    )
    oidc_client_id: Annotated[str | None, BeforeValidator(values.trim)] = Field(
        default=None,
        min_length=1,
        max_length=255,
        description="Keywright's client ID at the provider. Required with a provider.",
        json_schema_extra=in_pages("Client ID", "a text"),
    )
    oidc_client_secret: Annotated[SecretStr | None, BeforeValidator(values.trim)] = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="The client secret at the provider. Default: Keywright is a public client, with PKCE "
        "alone.",
        json_schema_extra=in_pages("Client secret", "a text"),
    )
    oidc_scopes: Annotated[str, BeforeValidator(values.trim)] = Field(
        default="openid profile email",
        pattern=r"^openid( [\x21\x23-\x5b\x5d-\x7e]+)*$",
        max_length=500,
        description="The scopes that Keywright requests. Some providers need another scope for the groups.",
        json_schema_extra=in_pages("Scopes", "openid and further names, separated by spaces"),
    )
    oidc_roles_claim: Annotated[str, BeforeValidator(values.trim)] = Field(
        default="groups",
        min_length=1,
        max_length=200,
        description="The claim that determines the role; a.b is the member b of the claim a.",
        json_schema_extra=in_pages("Claim of the roles", "the name of a claim such as groups"),
    )
    oidc_administrators: Annotated[tuple[str, ...], BeforeValidator(values.parse_names)] = Field(
        default=(),
        description="The values that give the role administrator, comma-separated.",
        json_schema_extra=in_pages("Administrators", _VALUES),
    )
    oidc_support: Annotated[tuple[str, ...], BeforeValidator(values.parse_names)] = Field(
        default=(),
        description="The values that give the role support, comma-separated.",
        json_schema_extra=in_pages("Support", _VALUES),
    )
    oidc_readers: Annotated[tuple[str, ...], BeforeValidator(values.parse_names)] = Field(
        default=(),
        description="The values that give the role reader, comma-separated. Without any value: no access.",
        json_schema_extra=in_pages("Readers", _VALUES),
    )
    oidc_check_minutes: values.Whole = Field(
        default=60,
        ge=5,
        le=1440,
        description=(
            "How often, in minutes, a user who signed in through the provider must sign in again; no "
            "password is needed while the user is signed in there. A user who has left the group then "
            "loses access."
        ),
        json_schema_extra=in_pages("Minutes between checks"),
    )

    @property
    def provider(self) -> Provider | None:
        """The provider; None if users do not sign in with one."""
        if self.oidc_issuer is None or self.oidc_client_id is None:
            return None
        secret = self.oidc_client_secret
        return Provider(
            self.oidc_issuer,
            self.oidc_client_id,
            None if secret is None else secret.get_secret_value(),
            self.oidc_scopes,
            self.oidc_roles_claim,
            (
                ("administrator", self.oidc_administrators),
                ("support", self.oidc_support),
                ("reader", self.oidc_readers),
            ),
        )


# Each ``allowed`` completes the sentence "it must be …"; for numbers and choices, the type does.
class WebhookSettings(BaseModel):
    """The settings of webhooks and events."""

    webhook_networks: Annotated[tuple[values.Network, ...], BeforeValidator(values.parse_networks)] = Field(
        default=(),
        description=(
            "The private networks to which webhooks may be sent, comma-separated. All other addresses of "
            "this machine, of private networks and of cloud metadata are refused, whatever name resolves "
            "to them. Default: none; a receiver on this machine needs 127.0.0.0/8, ::1."
        ),
        json_schema_extra={"allowed": "addresses or ranges such as 10.0.0.1, 10.1.0.0/16"},
    )
    expiry_notice_days: Annotated[tuple[int, ...], BeforeValidator(values.parse_days)] = Field(
        default=(7, 1),
        description=(
            "How many days before a license expires an event license.expiring is recorded, comma-separated. "
            "Empty: never."
        ),
        json_schema_extra=in_pages(
            "Days before an expiry", "at most five numbers of days from 1 to 365, such as 30, 7, 1"
        ),
    )
    expiry_mails: bool = Field(
        default=False,
        description=(
            "Whether customers with a known address get a mail on those days, and when their license has "
            "expired."
        ),
        json_schema_extra=in_pages("Mail customers about it"),
    )
