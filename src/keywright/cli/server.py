"""``keywright serve``, ``init``, ``config`` and ``version``."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from keywright import __version__
from keywright.cli import output
from keywright.cli.helptext import sentence
from keywright.cli.installation import InstallationOptions, describe_database, show_warnings
from keywright.cli.options import AsJson, DemoKind, command, with_options
from keywright.core.errors import ConfigurationError, KeywrightError, SetupOver, Unavailable

if TYPE_CHECKING:
    from keywright.config import Settings

log = logging.getLogger(__name__)

_NEW_API_KEY = "apikey create --name shop --permissions read_write"


def add_to(app: typer.Typer) -> None:
    """Add these commands to the program."""
    command(
        app,
        "keywright serve",
        "keywright serve --demo --data-dir /tmp/keywright",
        "keywright serve --host 0.0.0.0 --port 80",
        cls=_Serve,
    )(with_options(serve))
    command(app)(with_options(init))
    command(app, "keywright copy 'postgresql://keywright@db.example/keywright?sslmode=verify-full'")(
        with_options(copy)
    )
    command(app, "keywright config", "KEYWRIGHT_PORT=9000 keywright config --json")(with_options(config))
    command(app)(version)


_Host = Annotated[
    str | None, typer.Option(metavar="HOST", help="The address to listen on; the setting host.")
]
_Port = Annotated[
    int | None,
    typer.Option(metavar="PORT", min=0, max=65535, help="The port to listen on; the setting port."),
]
_Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=256,
        help="The number of server processes, on PostgreSQL; the setting workers.",
    ),
]
_Demo = Annotated[
    DemoKind | None,
    typer.Option(
        "--demo",
        metavar="[=one]",
        help="Fill an empty database with sample data (with =one, a single license), and print calls to try.",
    ),
]


class _Serve(TyperCommand):
    """The command ``serve``, where ``--demo`` alone means ``--demo=full``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, ["--demo=full" if one == "--demo" else one for one in args])


def serve(
    options: InstallationOptions,
    *,
    host: _Host = None,
    port: _Port = None,
    workers: _Workers = None,
    demo: _Demo = None,
) -> None:
    """Start the server; Ctrl-C or SIGTERM stops it after it has answered all accepted calls.

    It makes the data directory, the secret and the database if they are missing. After an update, it migrates
    the database; it first saves a copy of an SQLite file. Logs go to standard error.
    """
    from keywright.config import logs
    from keywright.config.installation import open_installation
    from keywright.config.sources import risks
    from keywright.http.app import APPLICATION
    from keywright.http.server.run import serve as serve_until_stopped
    from keywright.http.server.run import serve_with_workers

    settings = options.read_settings(host=host, port=port, workers=workers)
    logs.configure(
        level=settings.log_level, is_json=logs.uses_json(settings, is_terminal=sys.stderr.isatty())
    )
    report_ready = partial(print_ready, settings, options.command_line, demo)
    with _failing_in_the_log(settings):
        with closing(open_installation(settings)) as storage:
            for risk in risks(settings):
                log.warning("%s", risk)
            if settings.workers == 1:
                serve_until_stopped(settings, storage, APPLICATION, when_ready=report_ready)
            elif storage.is_local:
                raise ConfigurationError(
                    f"{settings.workers} workers (from {settings.source_of('workers')}) need PostgreSQL: "
                    "an SQLite database has one server process. Set database_url to a postgresql:// URL, "
                    "or use one worker."
                )
        if settings.workers > 1:
            open_storage = partial(open_installation, settings)
            serve_with_workers(settings, open_storage, APPLICATION, when_ready=report_ready)
    _report(settings, "Keywright has stopped.")


@contextmanager
def _failing_in_the_log(settings: "Settings") -> Iterator[None]:
    """If the log is JSON, log the error that ends the program."""
    try:
        yield
    except (KeywrightError, OSError) as problem:
        if settings.log_format != "json":
            raise
        log.critical("%s", sentence(problem))
        raise typer.Exit(1) from problem


def _report(settings: "Settings", text: str, **fields: object) -> None:
    """Print a line; if the log is JSON, log it instead, whatever the log level."""
    if settings.log_format == "json":
        log.setLevel(logging.INFO)
        log.info(text, extra=fields)
    else:
        output.print_line(text)


def init(options: InstallationOptions) -> None:
    """Create the data directory, the secret and the database, and list what was created.

    What exists is not changed, except that an older database is upgraded: `keywright doctor --before-upgrade`
    shows how. `keywright serve` does the same when it starts.
    """
    from keywright.config.installation import has_database, load_secret, make_data_dir, open_installation

    show_warnings()
    settings = options.read_settings()
    make_data_dir(settings)
    states = {True: "already existed", False: "created"}
    has_secret, was_made = settings.secret_file.exists(), states[has_database(settings)]
    load_secret(settings)
    open_installation(settings).close()
    secret = f"{settings.secret_file.absolute()}  {states[has_secret]}"
    if settings.secret is not None:
        secret = f"given by {settings.source_of('secret')}"
    output.print_fields(
        [
            ("data directory", settings.data_dir.absolute()),
            ("secret", secret),
            ("database", f"{describe_database(settings)}  {was_made}"),
        ]
    )
    output.print_line("\nKeep a copy of the secret in a safe place: the database cannot be read without it.")
    output.print_line(f"Start the server:  {options.command_line('serve')}")


def copy(
    options: InstallationOptions,
    to: Annotated[
        str, typer.Argument(metavar="URL", help="The target database, which must be empty: postgresql://…")
    ],
) -> None:
    """Copy everything into another database, such as from SQLite to PostgreSQL.

    Licenses with their IDs, activations, leases and usage, products, policies, customers, events, API keys,
    users, signing keys, connections to shops, webhooks and mails are copied, all or nothing. The other
    database uses the same secret. Sessions are not copied: users of the pages and customers in the portal
    must sign in again.

    Stop the server first: later changes are not in the copy.
    """
    from keywright.config.installation import has_database, load_key_ring, open_installation
    from keywright.db import open_storage, without_password
    from keywright.maintenance.copy import copy as copy_database

    settings = options.read_settings()
    if not has_database(settings):
        raise ConfigurationError(f"there is nothing to copy in {describe_database(settings)}.")
    copied: list[tuple[str, object]] = []

    def progress(table: str, rows: int) -> None:
        copied.append((table.replace("_", " "), f"{rows:,}"))

    with (
        closing(open_installation(settings)) as source,
        closing(open_storage(to, load_key_ring(settings))) as target,
    ):
        copy_database(source, target, progress)
    output.print_fields(copied)
    output.print_line(f"\nCopied everything to {without_password(to)}.")
    output.print_line(
        "From now on, start the server with that URL as database_url, and with the same secret."
    )


def config(options: InstallationOptions, *, as_json: AsJson = False) -> None:
    """Show every setting in force and its source; secrets are masked.

    If a setting has several values, the last of these takes precedence: the default, the value that an
    administrator has set in the pages, keywright.toml, the environment variable (KEYWRIGHT_ and the name in
    capitals), the option.
    """
    from keywright.config.installation import apply_stored
    from keywright.config.sources import list_settings

    read = options.read_settings()
    with suppress(KeywrightError):
        # Without the database, or its secret, the other sources are shown.
        apply_stored(read)
    settings = list_settings(read)
    if as_json:
        output.print_json({one.name: {"value": one.value, "source": one.source} for one in settings})
        return
    rows = [(one.name, _in_words(one.value), one.source) for one in settings]
    output.print_table(("setting", "value", "from"), rows)


def version() -> None:
    """Show the version."""
    output.print_line(f"keywright {__version__}")


def print_ready(
    settings: "Settings",
    line: Callable[[str], str],
    demo_kind: DemoKind | None,
    base_url: str,
    admin_url: str,
) -> None:
    """Print the addresses, the location of the data, and the next commands; ``line`` completes a command."""
    from keywright.cli.demo import (
        prepare,
        print_calls,
        print_device_calls,
        print_management_call,
        print_sale,
    )
    from keywright.db import without_password

    # Only after the server listens: the credentials that are made here are shown once.
    demo = prepare(settings, demo_kind) if demo_kind else None
    token = _setup_token(settings) if settings.admin else None
    api_url = f"{base_url}/{settings.api_root}/{settings.namespace}/v2"
    heading = f"Keywright {__version__} is ready at {base_url}"
    fields = [
        ("interface", f"{base_url}/{settings.v3_root}"),
        ("reference", f"{base_url}/openapi/v3"),
        ("v2", api_url),
        ("API reference", f"{base_url}/openapi/v2"),
        ("pages", f"{admin_url}/admin" if settings.admin else "none (admin = false)"),
        *_portal_line(settings, base_url),
        ("data directory", settings.data_dir.absolute()),
        ("database", without_password(settings.database_url_in_force)),
        *([("server processes", settings.workers)] if settings.workers > 1 else []),
    ]
    if settings.log_format == "json":
        setup = {} if token is None else {"setup_link": output.setup_link(admin_url, token)}
        shown = {} if demo is None else {"license_key": demo.license_key, "api_key": demo.credentials}
        _report(
            settings, heading, **{name.replace(" ", "_"): value for name, value in fields}, **setup, **shown
        )
        return
    output.print_heading(heading)
    output.print_fields(fields)
    if token is not None:
        output.print_setup_link(admin_url, token)
    credentials = (demo and demo.credentials) or "CONSUMER_KEY:CONSUMER_SECRET"
    curl = f"curl -sS -u '{credentials}'" if settings.require_api_key else "curl -sS"
    if demo is None:
        _print_next_steps(api_url, line, curl)
    else:
        print_calls(demo, api_url, curl)
        print_device_calls(demo, f"{base_url}/{settings.v3_root}", curl)
        print_sale(demo, base_url)
        print_management_call(demo, api_url, line(_NEW_API_KEY))
    output.print_line("\nCtrl-C stops the server.\n")


def _portal_line(settings: "Settings", base_url: str) -> list[tuple[str, str]]:
    """Return the address of the portal, with a note if customers cannot sign in because no mail is sent."""
    if not settings.portal:
        return []
    if settings.smtp_server is not None:
        return [("portal", f"{base_url}/portal")]
    return [("portal", f"{base_url}/portal/license (by license key; codes by mail need smtp_url)")]


def _print_next_steps(api_url: str, line: Callable[[str], str], curl: str) -> None:
    output.print_heading("What to type next, in another terminal")
    for what, typed in (
        ("An API key, for your shop:", line(_NEW_API_KEY)),
        ("A license with three places:", line("license create --max 3")),
        ("Activate it:", f"{curl} '{api_url}/licenses/activate/LICENSE-KEY'; echo"),
        ("Validate it:", f"{curl} '{api_url}/licenses/validate/LICENSE-KEY'; echo"),
    ):
        output.print_line(f"\n{what}\n  {typed}")


def _setup_token(settings: "Settings") -> str | None:
    """Return the token in the link for the first administrator; None if there are users."""
    from keywright.config.installation import open_installation
    from keywright.db import run_read
    from keywright.identity import sessions

    now = datetime.now(UTC)
    # The server does not share its own storage.
    with suppress(SetupOver, Unavailable), closing(open_installation(settings)) as storage:
        return run_read(storage, lambda tx: sessions.setup_token(tx, now))
    return None


def _in_words(value: str | int | bool | list[str] | None) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(value) or None
    return None if value is None else str(value)
