"""``keywright import …``"""

import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, WrongUsage, command, with_installation
from keywright.core.errors import SourceUnusable

if TYPE_CHECKING:
    from keywright.provisioning.importers.lmfwc_client import LmfwcClient
    from keywright.provisioning.importers.rows import Defaults
    from keywright.provisioning.importers.run import Report
    from keywright_converter.defuse import Secrets
    from keywright_converter.dump import Family
    from keywright_converter.mysqldump import RowSource
    from keywright_converter.source import SpooledSource

app = typer.Typer(no_args_is_help=True)

_MAX_SECRET_BYTES = 1_000
_WHERE = "The plugin's secrets are in wp-content/uploads/{}-files/ of the shop."
_MISSING = (
    "The plugin's two secrets are required: its license keys are encrypted with them. Copy defuse.txt and "
    "secret.txt from wp-content/uploads/{0}-files/ of the shop, and pass them as --defuse FILE --secret "
    "FILE; or pass the values of the constants {1}_PLUGIN_DEFUSE and {1}_PLUGIN_SECRET in wp-config.php."
)


_File = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]", help="The output of mysqldump, possibly compressed; - is standard input."
    ),
]
_Defuse = Annotated[
    str | None, typer.Option(metavar="FILE|TEXT", help="The plugin's defuse.txt, or its contents.")
]
_Secret = Annotated[
    str | None, typer.Option(metavar="FILE|TEXT", help="The plugin's secret.txt, or its contents.")
]
_Prefix = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="The prefix of the shop's tables, if the database contains several shops."
    ),
]
_Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The shop, instead of a file: https://shop.example.com."),
]
_ConsumerKey = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="The consumer key of an API key of the shop with read permission."),
]
_ConsumerSecret = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|TEXT",
        envvar="LMFWC_CONSUMER_SECRET",
        show_envvar=False,
        help="The consumer secret, or a file with it. Default: the environment variable "
        "LMFWC_CONSUMER_SECRET.",
    ),
]
_Mysql = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The shop's database, instead of a file: mysql://user@host/database. After ?, socket=FILE "
        "names a socket, and ssl_ca=FILE the CA that signed the server's certificate.",
    ),
]


def _password_option(variable: str) -> Any:
    """Return the option for the password of the database's user; the environment variable is its default."""
    text = f"The database user's password, or a file with it. Default: the environment variable {variable}."
    return typer.Option(metavar="FILE|TEXT", envvar=variable, show_envvar=False, help=text)


_IsDryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]


@command(
    app,
    "mysqldump --single-transaction --result-file=shop.sql shop",
    "keywright import lmfwc shop.sql --defuse defuse.txt --secret secret.txt --dry-run",
    "mysqldump --single-transaction shop | keywright import lmfwc - --defuse defuse.txt --secret secret.txt",
    "keywright import lmfwc --mysql mysql://user@host/shop --mysql-password FILE --defuse … --secret …",
    "keywright import lmfwc --url https://shop.example.com --consumer-key ck_… --consumer-secret FILE",
)
@with_installation
def lmfwc(
    here: Installation,
    file: _File = None,
    *,
    defuse: _Defuse = None,
    secret: _Secret = None,
    prefix: _Prefix = None,
    mysql: _Mysql = None,
    mysql_password: Annotated[str | None, _password_option("LMFWC_MYSQL_PASSWORD")] = None,
    url: _Url = None,
    consumer_key: _ConsumerKey = None,
    consumer_secret: _ConsumerSecret = None,
    is_comparison: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="With --url: print how the shop's licenses differ from those here; change nothing. "
            "Status 1: some differ.",
        ),
    ] = False,
    is_dry_run: _IsDryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import a shop's licenses from License Manager for WooCommerce.

    The source is a dump of the shop's database, with --mysql the database itself, or with --url the shop's
    v2 interface. Licenses are imported with their IDs, keys, dates, limits and activations; also generators,
    and API keys, whose consumer keys and secrets then work here. Products and customers get their names from
    the dump. Programs can keep using their tokens. Activation counts are set to the number of active
    activations.

    Everything is read and checked before anything is changed. The server may keep running. Run it again if it
    was interrupted, or to import what is new: where a license or an activation exists in both, the version
    that was changed last is kept.

    With --mysql, the database is read as it is at one moment, in a read-only transaction; this needs the
    driver PyMySQL and a user with the SELECT privilege. With --url, API keys, names and metadata are not
    available; this needs the shop's address and an API key of the shop.
    """
    if [file, mysql, url].count(None) != 2 or (is_comparison and url is None):
        raise WrongUsage(
            "Name a file, a database (--mysql URL) or a shop (--url URL); --compare needs a shop."
        )
    _require_converter()
    if url is not None:
        client = _connect(url, consumer_key, consumer_secret)
        if is_comparison:
            from keywright.cli.comparison import compare_shop

            compare_shop(here, client, as_json=as_json)
            return
        _import_web(here, client, is_dry_run=is_dry_run, as_json=as_json)
        return
    from keywright_converter.dump import LMFWC

    secrets = _load_secrets(LMFWC, defuse, secret)
    tables = _open_tables(file, mysql, mysql_password)
    _import_dump(here, tables, LMFWC, secrets, prefix=prefix, is_dry_run=is_dry_run, as_json=as_json)


@command(
    app,
    "keywright import dlm shop.sql --defuse defuse.txt --secret secret.txt --dry-run",
    "keywright import dlm --mysql mysql://user@host/shop --mysql-password FILE --defuse … --secret …",
)
@with_installation
def dlm(
    here: Installation,
    file: _File = None,
    *,
    defuse: _Defuse = None,
    secret: _Secret = None,
    prefix: _Prefix = None,
    mysql: _Mysql = None,
    mysql_password: Annotated[str | None, _password_option("DLM_MYSQL_PASSWORD")] = None,
    is_dry_run: _IsDryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import a shop's licenses from Digital License Manager.

    The source is a dump of the shop's database, or with --mysql the database itself. It works like
    `keywright import lmfwc`. Programs that were written for this plugin use a different interface from v2,
    and must be changed.
    """
    if (file is None) == (mysql is None):
        raise WrongUsage("Name a file, or a database (--mysql URL).")
    _require_converter()
    from keywright_converter.dump import DLM

    secrets = _load_secrets(DLM, defuse, secret)
    tables = _open_tables(file, mysql, mysql_password)
    _import_dump(here, tables, DLM, secrets, prefix=prefix, is_dry_run=is_dry_run, as_json=as_json)


@command(
    app,
    "keywright import edd shop.sql --dry-run",
    "keywright import edd shop.sql --compare",
    "keywright import edd --mysql mysql://user@host/shop --mysql-password FILE",
)
@with_installation
def edd(
    here: Installation,
    file: _File = None,
    *,
    prefix: _Prefix = None,
    mysql: _Mysql = None,
    mysql_password: Annotated[str | None, _password_option("EDD_MYSQL_PASSWORD")] = None,
    is_comparison: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Print how the shop's licenses differ from those here; change nothing. Status 1: some "
            "differ.",
        ),
    ] = False,
    is_dry_run: _IsDryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import a shop's licenses from EDD Software Licensing 3.6 or later.

    The source is a dump of the shop's database, or with --mysql the database itself. Licenses are imported
    with their IDs, keys, dates, limits and sites; licenses in bundles also with the ID of their parent.
    Products get their titles from the dump; customers are matched by e-mail address, or made. A site that
    does not count in the shop takes no place here.

    It can be run again, like `keywright import lmfwc`.
    """
    if (file is None) == (mysql is None):
        raise WrongUsage("Name a file, or a database (--mysql URL).")
    _require_converter()
    from keywright.provisioning.importers.run import Report
    from keywright_converter.edd import EddDump

    report = Report()
    source = EddDump(_open_tables(file, mysql, mysql_password), report, now=here.now, prefix=prefix)
    if is_comparison:
        from keywright.cli.comparison import compare_source

        compare_source(here, source, as_json=as_json)
        return
    _import(here, source, report, "Reading the rows", is_dry_run=is_dry_run, as_json=as_json)


def _require_converter() -> None:
    if find_spec("keywright_converter") is None:
        raise SourceUnusable(
            f"The converter for shops is not installed: {sys.executable} -m pip install 'keywright[import]'"
        )


def _load_secrets(family: "Family", defuse: str | None, secret: str | None) -> "Secrets":
    from keywright_converter.defuse import Secrets

    if defuse is None or secret is None:
        raise SourceUnusable(_MISSING.format(family.name, family.name.upper()))
    for given in (defuse, secret):
        if given.endswith(".txt") and not Path(given).is_file():
            raise SourceUnusable(f"{given}: no such file. {_WHERE.format(family.name)}")
    return Secrets(_read(defuse), _read(secret), family.name)


def _open_tables(file: Path | None, mysql: str | None, mysql_password: str | None) -> "RowSource":
    from keywright_converter.mysql import MysqlDatabase
    from keywright_converter.mysqldump import DumpFile

    if file is not None:
        return DumpFile(file)
    return MysqlDatabase(mysql or "", None if mysql_password is None else _read(mysql_password).strip())


def _import_dump(
    here: Installation,
    tables: "RowSource",
    family: "Family",
    secrets: "Secrets",
    *,
    prefix: str | None,
    is_dry_run: bool,
    as_json: bool,
) -> None:
    from keywright.provisioning.importers.run import Report
    from keywright_converter.dump import Dump

    report = Report()
    source = Dump(tables, family, secrets, report, now=here.now, prefix=prefix)
    _import(here, source, report, "Reading the rows", is_dry_run=is_dry_run, as_json=as_json)


def _connect(url: str | None, consumer_key: str | None, consumer_secret: str | None) -> "LmfwcClient":
    from keywright.provisioning.importers.lmfwc_client import LmfwcClient

    if consumer_key is None or consumer_secret is None:
        raise WrongUsage("The shop's API key is required: --consumer-key TEXT --consumer-secret FILE.")
    try:
        return LmfwcClient(url or "", consumer_key.strip(), _read(consumer_secret).strip())
    except ValueError as problem:
        raise SourceUnusable(f"--url {problem}.") from None


def _import_web(here: Installation, client: "LmfwcClient", *, is_dry_run: bool, as_json: bool) -> None:
    from keywright.provisioning.importers.run import Report
    from keywright_converter.web import WebShop

    report = Report()
    source = WebShop(client, report, now=here.now)
    _import(here, source, report, "Reading the licenses", is_dry_run=is_dry_run, as_json=as_json)


def _import(
    here: Installation,
    source: "SpooledSource",
    report: "Report",
    what: str,
    *,
    is_dry_run: bool,
    as_json: bool,
) -> None:
    with closing(source):
        with output.progress_bar(what, None) as progress:
            source.load(progress)
        _run(here, source, report, is_dry_run=is_dry_run)
    if as_json:
        output.print_json({"is_dry_run": is_dry_run} | report.as_json())
        return
    output.print_line("This would be imported:" if is_dry_run else "Imported:")
    for line in report.lines():
        output.print_line(output.printable(line))


def _run(here: Installation, source: "SpooledSource", report: "Report", *, is_dry_run: bool) -> None:
    from keywright.provisioning.importers.rows import Defaults, address_keeper
    from keywright.provisioning.importers.run import run_import
    from keywright.provisioning.importers.tables import About, ConvertedLines, Rejects

    defaults = Defaults(here.now, address_keeper(here.settings, here.now))
    if not is_dry_run:
        license_id, activation_id = source.largest_ids()
        defaults = keep_ids(here, defaults, license_id=license_id, activation_id=activation_id)
    lines = ConvertedLines(source.name, source, About(source.name, {}, None, defaults), Rejects(None, report))
    with output.progress_bar("Licenses", source.total) as progress:
        run_import(lines, here.change, here.context, report, is_dry_run=is_dry_run, progress=progress)


def keep_ids(here: Installation, defaults: "Defaults", *, license_id: int, activation_id: int) -> "Defaults":
    """Reserve all IDs up to these, and let imported activations keep those that no server has issued."""
    from keywright.db import run_read
    from keywright.provisioning.importers.run import reserve_ids
    from keywright.provisioning.importers.store import list_activation_ids

    after, until = reserve_ids(here.change, here.context, license_id=license_id, activation_id=activation_id)
    taken = run_read(here.storage, lambda tx: set(list_activation_ids(tx, after, until)))
    return defaults._replace(may_keep_id=lambda number: after < number <= until and number not in taken)


def _read(text: str) -> str:
    """Return the content of a file, or the text itself if there is no such file."""
    try:
        path = Path(text)
        if not path.is_file():
            return text
        with path.open("rb") as file:
            return file.read(_MAX_SECRET_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        # The text is too long for a file name.
        return text
