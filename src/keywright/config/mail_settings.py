"""The settings of mail."""

from pathlib import Path
from typing import Annotated, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings

from keywright.config.values import Whole, lower, parse_mail_address, parse_optional_path, parse_smtp_url
from keywright.db.urls import is_local

#: The languages of the built-in templates.
MailLanguage = Literal["en", "de", "fr", "es", "pt-BR", "ja"]
_PORTS = {"smtp": 587, "smtps": 465}


class SmtpServer(NamedTuple):
    """An SMTP server. ``is_encrypted`` from the first byte (smtps); ``needs_tls``: nothing goes to it before
    STARTTLS.
    """

    host: str
    port: int
    is_encrypted: bool
    needs_tls: bool
    user: str | None
    password: str | None
    ca_file: Path | None


class MailSettings(BaseSettings):
    """The settings that only mail needs."""

    smtp_url: Annotated[SecretStr | None, BeforeValidator(parse_smtp_url)] = Field(
        default=None,
        description=(
            "The SMTP server that sends mails: smtp:// (STARTTLS, port 587) or smtps:// (TLS from the start, "
            "port 465), with percent-encoded user and password. Its certificate is verified. Default: mails "
            "wait, and none is sent."
        ),
        json_schema_extra={"allowed": "an address such as smtps://user:password@mail.example.com"},
    )
    smtp_tls: Annotated[Literal["auto", "required", "none"], BeforeValidator(lower)] = Field(
        default="auto",
        description=(
            "Whether an smtp:// server must offer STARTTLS: auto is required, but none for a server on this "
            "machine. With none, mails and the password cross the network in clear text."
        ),
    )
    smtp_ca_file: Annotated[Path | None, BeforeValidator(parse_optional_path)] = Field(
        default=None,
        description=(
            "A file with the certificates (PEM) that vouch for the SMTP server, instead of the system's."
        ),
        json_schema_extra={"allowed": "the path of a file"},
    )
    mail_from: Annotated[str | None, BeforeValidator(parse_mail_address)] = Field(
        default=None,
        description=(
            "The sender of every mail; its name is how mails sign themselves. smtp_url needs it. Your domain "
            "should allow the SMTP server to send for it (SPF, DKIM)."
        ),
        json_schema_extra={"allowed": "an address such as Example Software <licenses@example.com>"},
    )
    mail_language: MailLanguage = Field(
        default="en", description="The language of mails to customers of whom none is known."
    )
    keep_mails_days: Whole = Field(
        default=30,
        description="For how many days the outbox keeps what was sent; a mail that waits longer is given up.",
        ge=1,
        le=3650,
    )

    @property
    def smtp_server(self) -> SmtpServer | None:
        """The server that sends mails."""
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
