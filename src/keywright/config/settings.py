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
            "The folder of the secret and, unless database_url is set, of the database. A relative path "
            "starts in the current directory."
        ),
        json_schema_extra={"allowed": "the path of a directory"},
    )
    database_url: Annotated[str | None, BeforeValidator(values.parse_url)] = Field(
        default=None,
        description=(
            f"The database. Default: the SQLite file {_DATABASE_NAME} in data_dir. A PostgreSQL URL is "
            "passed to libpq unchanged, and may name several hosts; over a network, it should have "
            "sslmode=verify-full."
        ),
        json_schema_extra={
            "allowed": "a URL such as sqlite:////absolute/path.db or postgresql://user:password@host/database"
        },
    )
    read_database_url: Annotated[str | None, BeforeValidator(values.parse_url)] = Field(
        default=None,
        description=(
            "Replicas of a PostgreSQL database. They answer queries while they have every change; changes "
            "go to database_url."
        ),
        json_schema_extra={"allowed": "a URL such as postgresql://user:password@replica1,replica2/database"},
    )
    read_lag_limit: values.Whole = Field(
        default=1000,
        description="How many milliseconds a replica may be behind; one that is further behind is not "
        "used for a while.",
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
        default=8000, description="The port to listen on; 0 is any free port.", le=65535
    )
    public_url: Annotated[str | None, BeforeValidator(values.parse_web_address)] = Field(
        default=None,
        description=(
            "The address at which programs and browsers reach this server, such as that of the proxy in "
            "front of it. Links and command lines that Keywright prints or shows start with it. Default: "
            "the address that the server listens on, or that the browser requested."
        ),
        json_schema_extra=in_pages(
            "Public address", "an address such as https://licenses.example.com, without a path"
        ),
    )
    metrics_address: Annotated[str | None, BeforeValidator(values.parse_address)] = Field(
        default=None,
        description=(
            "A separate, private address for the metrics that Prometheus reads at /metrics. Each worker "
            "has its own port: this one and the next ones. Default: no metrics."
        ),
        json_schema_extra={"allowed": "a host and a port such as 127.0.0.1:9100 or [::1]:9100"},
    )
    drain_seconds: values.Whole = Field(
        default=0,
        description=(
            "How long the server keeps serving after SIGTERM while /readyz answers 503, so that proxies "
            "send calls to other instances; 0 if there is only one."
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
            "How v2's validate answers for an expired, inactive or disabled license: report returns the "
            "record, which contains the status, as the plugin does; refuse returns the error that "
            "activate returns, which stops shipped programs that check only `success`."
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
            "Whether activating, deactivating and validating also need an API key; if not, the license "
            "key is enough."
        ),
    )
    trusted_proxies: Annotated[tuple[values.Network, ...], BeforeValidator(values.parse_networks)] = Field(
        default=(),
        description=(
            "The proxies whose X-Forwarded-For header is trusted: addresses or ranges, comma-separated."
        ),
        json_schema_extra={"allowed": "addresses or ranges such as 10.0.0.1, 10.1.0.0/16"},
    )
    allowed_origins: Annotated[tuple[str, ...], BeforeValidator(values.parse_origins)] = Field(
        default=(),
        description=("The web origins that may make management calls from a browser, comma-separated."),
        json_schema_extra={"allowed": "origins such as https://shop.example, without a path"},
    )
    secret: Annotated[SecretStr | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description=(
            "The secret that encrypts license keys. Default: the file named secret in data_dir, created "
            "at the first start. A database can be read only with its own secret."
        ),
        json_schema_extra={"allowed": f"a text of at least {MIN_SECRET_LENGTH} characters"},
        min_length=MIN_SECRET_LENGTH,
    )
    previous_secret: Annotated[SecretStr | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description=(
            "The previous secret, during a rotation. Default: the file named secret.previous in data_dir, "
            "if it exists."
        ),
        json_schema_extra={"allowed": f"a text of at least {MIN_SECRET_LENGTH} characters"},
        min_length=MIN_SECRET_LENGTH,
    )
    queue_limit: values.Whole = Field(
        default=4096,
        description=(
            "The highest number of changes, and of queries, that may wait at once; further ones get 503."
        ),
        ge=1,
    )
    answer_within_seconds: values.Whole = Field(
        default=10,
        description="How long a call may wait; after that, it gets 503, and nothing is changed.",
        ge=1,
        le=60,
    )
    body_limit: values.Whole = Field(
        default=1_048_576,
        description="The largest request body, in bytes; 64 KiB without an API key that may read or write.",
        ge=1024,
    )
    kept_records: values.Whole = Field(
        default=100,
        description=(
            "The number of deactivated activations that a license keeps: at least this many, or twice its "
            "limit if that is more, and all of the last 24 hours, but never more than 10000. The oldest "
            "are deleted first."
        ),
        ge=1,
        le=10_000,
    )
    keep_deleted_days: values.Whole = Field(
        default=30,
        description=(
            "For how many days deleted licenses can be restored; 0 keeps nothing. They disappear from "
            "every interface at once; the kept data is encrypted."
        ),
        json_schema_extra=in_pages("Days that deleted licenses are kept"),
        le=36_500,
    )
    keep_events_days: values.Whole = Field(
        default=400,
        description=(
            "For how many days events are kept; 0 is forever. For each license, at most 1000 events a day "
            "and 20000 in all are kept of calls without a secret API key."
        ),
        json_schema_extra=in_pages("Days that events are kept"),
        le=36_500,
    )
    keep_shop_events_days: values.Whole = Field(
        default=90,
        description=(
            "For how many days events from shops are kept, encrypted; an event that waits for its turn or "
            "for a decision is kept until it is handled."
        ),
        json_schema_extra=in_pages("Days that events of shops are kept"),
        ge=1,
        le=36_500,
    )
    keep_usage_days: values.Whole = Field(
        default=800,
        description=(
            "For how many days the usage of closed periods is kept, including that of deleted licenses."
        ),
        json_schema_extra=in_pages("Days that closed usage is kept"),
        ge=1,
        le=36_500,
    )
    listed_records: values.Whole = Field(
        default=1000,
        description=(
            "The highest number of a license's activations in an answer, active ones first, up to about 1 "
            "MiB. In lists of licenses: 100 for each license."
        ),
        ge=1,
        le=10_000,
    )
    files_dir: Annotated[Path | None, BeforeValidator(values.parse_optional_path)] = Field(
        default=None,
        description=(
            "The folder for the files of releases; all servers must share it. Default: the folder files "
            "in data_dir."
        ),
        json_schema_extra={"allowed": "the path of a directory"},
    )
    max_file_bytes: values.Whole = Field(
        default=4 * 1024**3, description="The largest release file, in bytes.", ge=1024, le=2**50
    )
    files_accel_path: Annotated[str | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description=(
            "The internal location of nginx that serves files_dir: nginx sends the downloads that "
            "Keywright has allowed (X-Accel-Redirect). Default: Keywright sends them."
        ),
        json_schema_extra={"allowed": "a path such as /keywright-files"},
        pattern=r"^/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-]$",
    )
    relay_url: Annotated[str | None, BeforeValidator(values.parse_relay_url)] = Field(
        default=None,
        description=(
            "The shop with License Manager for WooCommerce from which you are moving. When a program "
            "activates, validates or deactivates a license that is unknown here, Keywright asks the shop "
            "for it and imports it. Default: no shop is asked."
        ),
        json_schema_extra={"allowed": "an address such as https://shop.example.com"},
    )
    relay_consumer_key: Annotated[SecretStr | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description="The consumer key of an API key of that shop with read permission.",
        json_schema_extra={"allowed": "a text"},
        min_length=1,
    )
    relay_consumer_secret: Annotated[SecretStr | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description=(
            "The consumer secret of that API key. It is never shown or logged, but it is unencrypted "
            "where you set it: protect that file or environment as you protect the secret."
        ),
        json_schema_extra={"allowed": "a text"},
        min_length=1,
    )
    ip_addresses: Annotated[IpAddresses, BeforeValidator(values.lower)] = Field(
        default="full",
        description=(
            "How much of an IP address is stored with activations, events and sessions: all of it (full), "
            "its network (short: /24 of IPv4, /48 of IPv6), or nothing (none). Limits use whole "
            "addresses, in memory only."
        ),
    )
    keep_addresses_days: values.Whole = Field(
        default=90,
        description=(
            "After how many days the IP address and user agent of a deactivated activation, and the IP "
            "address of an event, are deleted; 0 is never."
        ),
        json_schema_extra=in_pages("Days that IP addresses are kept"),
        le=36_500,
    )
    backup_daily_at: Annotated[str | None, BeforeValidator(values.parse_time_of_day)] = Field(
        default=None,
        description=(
            "The time of day, in UTC, at which the server makes a backup in the folder backups in "
            "data_dir. Default: no daily backup."
        ),
        json_schema_extra=in_pages("Daily backup at", "a time such as 03:30"),
    )
    backup_keep: values.Whole = Field(
        default=14,
        description="The number of daily backups to keep; older ones are deleted.",
        json_schema_extra=in_pages("Backups that are kept"),
        ge=1,
        le=1000,
    )
    backup_command: Annotated[str | None, BeforeValidator(values.trim)] = Field(
        default=None,
        description=(
            "A shell command that runs after each backup to a file, for example to copy it elsewhere; its "
            "path is in the variable BACKUP_FILE. If the command fails, so does the backup."
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
            "Which calls are logged: none (off), all, or only those that end with 5xx, take longer than a "
            "second, or are refused despite a secret API key (errors and slow)."
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
