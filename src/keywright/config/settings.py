"""The settings: their names, defaults, and allowed values."""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, SecretStr

from keywright.config import values
from keywright.config.groups import (
    CompanySettings,
    LimitSettings,
    MailSettings,
    PageSettings,
    WebhookSettings,
    in_pages,
)
from keywright.core.parsing import IpAddresses

PREFIX = "KEYWRIGHT_"
MIN_SECRET_LENGTH = 32
_DATABASE_NAME = "keywright.db"


class Settings(MailSettings, WebhookSettings, CompanySettings, PageSettings, LimitSettings):
    """The settings of an installation. ``read_settings`` reads them; the class itself reads nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)
    data_dir: Annotated[Path, BeforeValidator(values.parse_path)] = Field(
        default=Path("keywright-data"),
        description=(
            "The folder of the secret and, unless database_url names another, of the database. A relative "
            "path starts in the current directory."
        ),
        json_schema_extra={"allowed": "the path of a directory"},
    )
    database_url: Annotated[str | None, BeforeValidator(values.parse_url)] = Field(
        default=None,
        description=(
            f"The database. Default: the SQLite file {_DATABASE_NAME} in data_dir. A PostgreSQL URL is "
            "passed to libpq as it is, also with several hosts; over a network, it should have "
            "sslmode=verify-full."
        ),
        json_schema_extra={
            "allowed": "a URL such as sqlite:////absolute/path.db or postgresql://user:password@host/database"
        },
    )
    read_database_url: Annotated[str | None, BeforeValidator(values.parse_url)] = Field(
        default=None,
        description=(
            "Replicas of a PostgreSQL database. They answer questions for as long as they have every "
            "change; changes go to database_url."
        ),
        json_schema_extra={"allowed": "a URL such as postgresql://user:password@replica1,replica2/database"},
    )
    read_lag_limit: values.Whole = Field(
        default=1000,
        description="How many milliseconds a replica may be behind; one further behind is left out a while.",
    )
    workers: values.Whole = Field(
        default=1,
        description="The number of server processes; more than one needs PostgreSQL.",
        ge=1,
        le=256,
    )
    host: Annotated[str, BeforeValidator(values.trim)] = Field(
        default="127.0.0.1",
        description="The address to listen on; 0.0.0.0 is every IPv4 address of this machine.",
        json_schema_extra={"allowed": "an IP address or a host name"},
        min_length=1,
    )
    port: values.Whole = Field(
        default=8000, description="The port to listen on; 0 is any free one.", le=65535
    )
    public_url: Annotated[str | None, BeforeValidator(values.parse_web_address)] = Field(
        default=None,
        description=(
            "The address at which programs and browsers reach this server, such as that of the proxy in "
            "front of it. It begins the links and command lines that Keywright prints or shows. Default: the "
            "address that the server listens on, or that the browser asked for."
        ),
        json_schema_extra=in_pages(
            "Public address", "an address such as https://licenses.example.com, without a path"
        ),
    )
    metrics_address: Annotated[str | None, BeforeValidator(values.parse_address)] = Field(
        default=None,
        description=(
            "An address of its own, a private one, for the metrics that Prometheus reads at /metrics. With "
            "several workers, each has a port: this one and those after it. Default: there are no metrics."
        ),
        json_schema_extra={"allowed": "a host and a port such as 127.0.0.1:9100 or [::1]:9100"},
    )
    drain_seconds: values.Whole = Field(
        default=0,
        description=(
            "How long the server keeps serving after SIGTERM while /readyz answers 503, so that proxies send "
            "their calls to other instances; 0 where there is only one."
        ),
        le=60,
    )
    api_root: values.UrlPath = Field(
        default="wp-json",
        description="The first part of the path of every v2 call: /wp-json/lmfwc/v2/licenses.",
        json_schema_extra={"allowed": "a path of letters, digits, '-', '.', '_' and '~', such as wp-json"},
    )
    namespace: values.UrlPath = Field(
        default="lmfwc",
        description="The part of the path of every v2 call between api_root and v2.",
        json_schema_extra={"allowed": "a path of letters, digits, '-', '.', '_' and '~', such as lmfwc"},
    )
    v2_validate: Literal["report", "refuse"] = Field(
        default="report",
        description=(
            "The answer of v2's validate about a license that is expired, inactive or disabled: report, as "
            "the plugin does, where the status is in the record; or refuse, what activate answers, which "
            "stops shipped programs that look at `success` alone."
        ),
    )
    v3_root: values.UrlPath = Field(
        default="v3",
        description="The first part of the path of every call of the v3 interface.",
        json_schema_extra={"allowed": "a path of letters, digits, '-', '.', '_' and '~', such as v3"},
    )
    signature_alg: Literal["EdDSA", "Ed25519"] = Field(
        default="EdDSA",
        description=(
            "The name of the algorithm in signed answers: EdDSA, which most libraries know, or Ed25519, its "
            "name in RFC 9864. Keys and signatures are the same."
        ),
    )
    require_api_key: bool = Field(
        default=False,
        description=(
            "Whether activating, deactivating and validating need an API key, too; if not, the license key "
            "is enough."
        ),
    )
    trusted_proxies: Annotated[tuple[values.Network, ...], BeforeValidator(values.parse_networks)] = Field(
        default=(),
        description=(
            "The proxies whose X-Forwarded-For header is believed: addresses or ranges, comma-separated."
        ),
        json_schema_extra={"allowed": "addresses or ranges such as 10.0.0.1, 10.1.0.0/16"},
    )
    allowed_origins: Annotated[tuple[str, ...], BeforeValidator(values.parse_origins)] = Field(
        default=(),
        description=(
            "The web sites whose programs may make management calls from a browser, comma-separated."
        ),
        json_schema_extra={"allowed": "origins such as https://shop.example, without a path"},
    )
    secret: Annotated[SecretStr | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description=(
            "The secret that seals license keys. Default: the file named secret in data_dir, made at the "
            "first start. A database can be read only with the secret that it was made with."
        ),
        json_schema_extra={"allowed": f"a text of at least {MIN_SECRET_LENGTH} characters"},
        min_length=MIN_SECRET_LENGTH,
    )
    previous_secret: Annotated[SecretStr | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description=(
            "The previous secret, while the secret is rotated. Default: the file named secret.previous in "
            "data_dir, if there is one."
        ),
        json_schema_extra={"allowed": f"a text of at least {MIN_SECRET_LENGTH} characters"},
        min_length=MIN_SECRET_LENGTH,
    )
    queue_limit: values.Whole = Field(
        default=4096,
        description=(
            "The highest number of changes, and of questions, that may wait at once; further ones get 503."
        ),
        ge=1,
    )
    answer_within_seconds: values.Whole = Field(
        default=10,
        description="How long a call may wait to be decided; then it gets 503, and nothing was changed.",
        ge=1,
        le=60,
    )
    body_limit: values.Whole = Field(
        default=1_048_576,
        description="The largest body of a request in bytes; 64 KiB without an API key that reads or writes.",
        ge=1024,
    )
    kept_records: values.Whole = Field(
        default=100,
        description=(
            "The number of given-up activations that a license keeps: at least this many, or twice its "
            "limit where that is more, and all of the last 24 hours, but never more than 10000. The oldest "
            "go first."
        ),
        ge=1,
        le=10_000,
    )
    keep_deleted_days: values.Whole = Field(
        default=30,
        description=(
            "For how many days deleted licenses can be restored; 0 keeps nothing of them. They are gone "
            "for every interface at once; what is kept is sealed."
        ),
        json_schema_extra=in_pages("Days that deleted licenses are kept"),
        le=36_500,
    )
    keep_events_days: values.Whole = Field(
        default=400,
        description=(
            "For how many days events are kept; 0 is for ever. Of a license's calls without a secret API "
            "key, at most 1000 a day and 20000 in all are kept."
        ),
        json_schema_extra=in_pages("Days that events are kept"),
        le=36_500,
    )
    keep_shop_events_days: values.Whole = Field(
        default=90,
        description=(
            "For how many days the events of shops are kept, sealed; an event that waits, for its turn or "
            "for a decision, is kept until it is handled."
        ),
        json_schema_extra=in_pages("Days that events of shops are kept"),
        ge=1,
        le=36_500,
    )
    keep_usage_days: values.Whole = Field(
        default=800,
        description=(
            "For how many days the usage of periods that are closed is kept, also that of deleted licenses."
        ),
        json_schema_extra=in_pages("Days that closed usage is kept"),
        ge=1,
        le=36_500,
    )
    listed_records: values.Whole = Field(
        default=1000,
        description=(
            "The highest number of a license's activations in an answer, active ones first; and about 1 MiB "
            "of them. In lists of licenses: 100 of each."
        ),
        ge=1,
        le=10_000,
    )
    files_dir: Annotated[Path | None, BeforeValidator(values.parse_optional_path)] = Field(
        default=None,
        description=(
            "The folder of the files of releases; all servers share it. Default: the folder files in "
            "data_dir."
        ),
        json_schema_extra={"allowed": "the path of a directory"},
    )
    max_file_bytes: values.Whole = Field(
        default=4 * 1024**3, description="The largest file of a release, in bytes.", ge=1024, le=2**50
    )
    files_accel_path: Annotated[str | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description=(
            "The internal location of nginx that serves files_dir: nginx sends the bytes of downloads, which "
            "Keywright has allowed (X-Accel-Redirect). Default: Keywright sends them."
        ),
        json_schema_extra={"allowed": "a path such as /keywright-files"},
        pattern=r"^/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-]$",
    )
    relay_url: Annotated[str | None, BeforeValidator(values.parse_relay_url)] = Field(
        default=None,
        description=(
            "The shop with License Manager for WooCommerce from which you are moving: when a program "
            "activates, validates or deactivates a license that is unknown here, the shop is asked for it, "
            "and it is imported. Default: no shop is asked."
        ),
        json_schema_extra={"allowed": "an address such as https://shop.example.com"},
    )
    relay_consumer_key: Annotated[SecretStr | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description="The consumer key of an API key of that shop that may read.",
        json_schema_extra={"allowed": "a text"},
        min_length=1,
    )
    relay_consumer_secret: Annotated[SecretStr | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description=(
            "Its consumer secret. It is never shown or logged, but it stands unsealed where you write it: "
            "protect that file or environment as you protect the secret."
        ),
        json_schema_extra={"allowed": "a text"},
        min_length=1,
    )
    ip_addresses: Annotated[IpAddresses, BeforeValidator(values.lower)] = Field(
        default="full",
        description=(
            "How much of an IP address is kept with activations, events and sessions: all of it (full), its "
            "network (short: /24 of IPv4, /48 of IPv6), or nothing (none). Limits use whole addresses, in "
            "memory only."
        ),
    )
    keep_addresses_days: values.Whole = Field(
        default=90,
        description=(
            "After how many days the IP address and user agent of a given-up activation, and the address of "
            "an event, are deleted; 0 is never."
        ),
        json_schema_extra=in_pages("Days that IP addresses are kept"),
        le=36_500,
    )
    backup_daily_at: Annotated[str | None, BeforeValidator(values.parse_time_of_day)] = Field(
        default=None,
        description=(
            "The time of day, in UTC, at which the server makes a backup in the folder backups in data_dir. "
            "Default: it makes none by itself."
        ),
        json_schema_extra=in_pages("Daily backup at", "a time such as 03:30"),
    )
    backup_keep: values.Whole = Field(
        default=14,
        description="The number of daily backups that are kept; older ones are deleted.",
        json_schema_extra=in_pages("Backups that are kept"),
        ge=1,
        le=1000,
    )
    backup_command: Annotated[str | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description=(
            "A command for the shell that runs after each backup into a file, whose path is in the variable "
            "BACKUP_FILE: to copy it elsewhere. A backup whose command fails has failed."
        ),
        json_schema_extra={"allowed": "a command"},
        min_length=1,
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(values.lower)] = Field(
        default="info", description="The lowest level that is logged."
    )
    log_calls: Annotated[Literal["off", "errors and slow", "all"], BeforeValidator(values.to_words)] = Field(
        default="errors and slow",
        description=(
            "The calls that have a line in the log: none (off), all, or those that end with 5xx, take longer "
            "than a second, or are refused although a secret API key makes them (errors and slow)."
        ),
    )
    log_format: Annotated[Literal["auto", "console", "json"], BeforeValidator(values.lower)] = Field(
        default="auto",
        description="console for people, json for machines; auto is console on a terminal, else json.",
    )
    _sources: dict[str, str] = PrivateAttr(default_factory=dict)
    #: The settings of the pages, as last applied.
    _stored: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def database_url_in_force(self) -> str:
        """The URL of the database: the setting, or else that of the file in the data directory."""
        file = self.data_dir.absolute() / _DATABASE_NAME
        return self.database_url or f"sqlite:///{quote(str(file))}"

    @property
    def admin_host_and_port(self) -> tuple[str, int] | None:
        """The administration pages' own address; None if they are off or have none."""
        return values.split_address(self.admin_address) if self.admin and self.admin_address else None

    @property
    def metrics_host_and_ports(self) -> tuple[str, range] | None:
        """The host of the metrics, and a port for each worker; None if they are off."""
        if self.metrics_address is None:
            return None
        host, port = values.split_address(self.metrics_address)
        return host, range(port, port + self.workers)

    @property
    def files_folder(self) -> Path:
        """The folder of the files of releases."""
        return self.files_dir or self.data_dir / "files"

    @property
    def secret_file(self) -> Path:
        """The file with the secret, used when the setting is missing."""
        return self.data_dir / "secret"

    @property
    def previous_secret_file(self) -> Path:
        """The file with the previous secret during a rotation, used when the setting is missing."""
        return self.data_dir / "secret.previous"

    def source_of(self, name: str) -> str:
        """Return the source of a value: ``default``, a file's name, ``KEYWRIGHT_PORT``, ``--port``."""
        return self._sources.get(name, "default")
