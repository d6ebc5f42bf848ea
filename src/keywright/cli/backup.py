"""``keywright backup`` and ``keywright restore``."""

import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from keywright import __version__
from keywright.cli import output
from keywright.cli.doctor import doctor
from keywright.cli.installation import opened
from keywright.cli.options import ConfigFile, DatabaseUrl, DataDir, WrongUsage, command
from keywright.core.errors import ConfigurationError
from keywright.core.parsing import write_time

if TYPE_CHECKING:
    from keywright.config import Settings
    from keywright.core.crypto import KeyRing
    from keywright.maintenance.backup import Backup, Manifest

_EVERY = 0.2
_KINDS = {"sqlite": "an SQLite database", "postgresql": "a PostgreSQL database"}


def add_to(app: typer.Typer) -> None:
    """Add these commands to the program."""
    command(
        app,
        "keywright backup /backup/keywright.tar --overwrite",
        "keywright backup - | gzip > /backup/keywright.tar.gz",
    )(backup)
    command(
        app,
        "keywright restore /backup/keywright.tar --check",
        "keywright restore /backup/keywright.tar --data-dir /var/lib/keywright",
    )(restore)


_IsOverwriting = Annotated[
    bool, typer.Option("--overwrite", help="Let it take the place of a backup of that name.")
]


def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to make; - is standard output.")],
    *,
    is_overwriting: _IsOverwriting = False,
    is_with_secret: Annotated[
        bool,
        typer.Option(
            "--with-secret",
            help="Put the secret into it, too: a person who has the file can then read every license key, "
            "and alter and sign backups.",
        ),
    ] = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
) -> None:
    """Make a backup, as everything is at this moment: one file, from which `keywright restore` brings
    everything back. The server goes on meanwhile.

    Licenses, activations, their numbers, events, generators, API keys and users are in it. The secret that
    license keys are sealed with is not, unless you say so: keep it elsewhere. The file has its name only
    when it is whole and on the disk; while it is made, a copy of the database stands beside it. The backup
    is signed with the secret, so that `keywright restore` notices when it was altered.

    A PostgreSQL database needs pg_dump, at least of the server's version.
    """
    from keywright.config import find_secret, has_database, load_key_ring, load_secret, read_settings
    from keywright.maintenance.backup import make_backup

    began = monotonic()
    settings = read_settings({"data_dir": data_dir, "database_url": database_url}, config)
    if not has_database(settings):
        raise ConfigurationError(f"there is nothing to back up in {_database(settings)}.")
    secret = load_secret(settings) if is_with_secret else find_secret(settings)
    if file == "-" and sys.stdout.isatty():
        raise WrongUsage("a backup cannot be shown on a terminal: name a file, or pipe it somewhere")
    with _ended_gracefully(), _Progress() as progress:
        made = make_backup(
            settings.database_url_in_force,
            sys.stdout.buffer if file == "-" else Path(file),
            made_by=f"Keywright {__version__}",
            key_ring=None if secret is None else load_key_ring(settings),
            secret=secret.decode() if secret is not None and is_with_secret else None,
            is_overwriting=is_overwriting,
            progress=progress,
        )
    # Where the backup goes to standard output, nothing else does.
    say = output.print_line if file != "-" else _print_aside
    name = "this" if file == "-" else file
    say(
        f"{name} is a backup of {_database(settings)} {_as_it_was(made.manifest)}. It has "
        f"{_size(made.size)} and took {monotonic() - began:.1f} s."
    )
    say(_about_the_secret(settings, made.manifest))


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `keywright backup` has made.")],
    *,
    is_checked_only: Annotated[
        bool,
        typer.Option("--check", help="Say what is in the file and whether it is whole; change nothing."),
    ] = False,
    is_overwriting: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace what is there already. An SQLite file is kept beside it."),
    ] = False,
    is_unsigned: Annotated[
        bool,
        typer.Option(
            "--unsigned",
            help="Do not check the signature: anyone who could write to the file may have altered it, "
            "passwords and limits included.",
        ),
    ] = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
) -> None:
    """Bring everything back from a backup, into the installation that the settings name; then look, as
    `keywright doctor` does, whether everything is as it has to be. Stop the server first.

    Nothing is changed before the whole file was looked at, and then everything at once: if it is broken
    off, there is what was there before, or what is in the backup. The secret must be there: the backup is
    signed with it. --unsigned is for a backup without a signature, and for one that holds a secret which is
    nowhere else: its signature proves nothing. Where there are licenses already, --overwrite is needed;
    numbers that were given since the backup are not given again then.

    A PostgreSQL database has to exist; pg_restore is needed, at least of the version of the pg_dump that
    made the backup.
    """
    from keywright.config import make_data_dir, read_settings
    from keywright.maintenance import backup as backups

    settings = read_settings({"data_dir": data_dir, "database_url": database_url}, config)
    url = settings.database_url_in_force
    with _ended_gracefully(), closing(backups.Backup(file)) as found:
        if is_checked_only:
            _check(found, settings, is_unsigned=is_unsigned)
            return
        backups.require_fitting(found.manifest, url)
        key_ring, secret = _secret_for(found, settings, is_unsigned=is_unsigned)
        make_data_dir(settings)

        def keep_secret() -> None:
            if secret is not None:
                backups.keep_secret(secret, settings.secret_file)

        with _Progress() as progress:
            kept = backups.restore(
                found,
                url,
                key_ring,
                is_unsigned=is_unsigned,
                is_overwriting=is_overwriting,
                before_replacing=keep_secret,
                progress=progress,
            )
        output.print_line(f"{_database(settings)} is restored {_as_it_was(found.manifest)}.")
        output.print_line("The server can be started.")
        if secret is not None:
            output.print_line(f"The secret, which was in the backup, is in {settings.secret_file}.")
        if kept is not None:
            output.print_line(f"What was there before is kept in {kept}.")
    _examine({"data_dir": data_dir, "database_url": database_url}, config)


def _check(found: "Backup", settings: "Settings", *, is_unsigned: bool) -> None:
    signed_by = None if is_unsigned else _signer_of(found, settings)
    with _Progress() as progress:
        found.read(None, progress, signed_by=signed_by)
    manifest, contents = found.manifest, found.manifest.contents
    kind = _KINDS[manifest.database]
    output.print_fields(
        [
            ("made at", f"{write_time(manifest.made_at)} (UTC)"),
            ("made by", manifest.made_by),
            ("holds", kind if manifest.dumped_by is None else f"{kind}, written by {manifest.dumped_by}"),
            ("installed at", f"{write_time(manifest.installed_at)} (UTC)"),
            ("schema", manifest.revision),
            ("licenses", f"{contents.licenses:,}"),
            ("activations", f"{contents.activations:,}"),
            ("events", f"{contents.events:,}"),
            ("generators", f"{contents.generators:,}"),
            ("API keys", f"{contents.api_keys:,}"),
            ("users", f"{contents.users:,}"),
            ("the secret", "is in it" if manifest.has_secret else "is not in it"),
        ]
    )
    if is_unsigned:
        output.print_line(f"\n{found.path} is whole, but its signature was not checked: it may be altered.")
    else:
        output.print_line(f"\n{found.path} is whole: every byte of it is as it was written and signed.")


def _signer_of(found: "Backup", settings: "Settings") -> "KeyRing":
    try:
        return _secret_for(found, settings, is_unsigned=False)[0]
    except ConfigurationError as problem:
        raise ConfigurationError(f"{problem} To check the sums only, say --unsigned.") from None


def _secret_for(found: "Backup", settings: "Settings", *, is_unsigned: bool) -> "tuple[KeyRing, str | None]":
    """The key ring that reads the license keys of the backup; and the secret, if it is to be kept here.

    Raises ``ConfigurationError`` when there is no such secret, or only one that came with the backup, unless
    it may be unsigned: what such a backup is signed with proves nothing.
    """
    from keywright.config import load_key_ring
    from keywright.core.crypto import KeyRing

    file = settings.secret_file.absolute()
    if settings.secret is not None or file.exists():
        key_ring, place = load_key_ring(settings), str(file)
        if settings.secret is not None:
            place = f"the secret from {settings.source_of('secret')}"
        if _are_enough(key_ring, found.manifest):
            return key_ring, None
        raise ConfigurationError(
            f"the backup was made with another secret than {place}, which cannot read its license keys. "
            + _which_instead(found, settings)
        )
    if found.secret is None:
        raise ConfigurationError(
            f"the secret is missing, and it is not in the backup: put the one that the backup was made with "
            f"into {file}, or give it as KEYWRIGHT_SECRET. Without it, nobody can read the license keys."
        )
    if not is_unsigned:
        raise ConfigurationError(
            "the secret is only in the backup itself, so its signature proves nothing: anyone who could read "
            f"the file could alter it and sign it again. Put the secret into {file}; or, if you trust every "
            "place where the backup was kept, say --unsigned."
        )
    return KeyRing(found.secret.encode()), found.secret


def _are_enough(key_ring: "KeyRing", manifest: "Manifest") -> bool:
    needed = (manifest.secret_mark, manifest.previous_secret_mark)
    return all(mark is None or key_ring.find_ring(mark) is not None for mark in needed)


def _which_instead(found: "Backup", settings: "Settings") -> str:
    from keywright.config import retired_secret_file

    if found.secret is not None:
        return "Use the one in the backup: move that one away."
    mark = found.manifest.secret_mark
    file = retired_secret_file(settings, mark)
    where = f" It is in {file.absolute()}." if file.exists() else ""
    return (
        f"If the secret was rotated since, give the one before (its mark is {mark}) as previous_secret, or "
        f"put it into {settings.previous_secret_file.absolute()}.{where} Otherwise use the one it was made "
        "with."
    )


def _examine(options: dict[str, object], config: Path | None) -> None:
    try:
        with opened(options, config, is_made=False) as here:
            doctor(here)
    except KeyboardInterrupt:
        _print_aside("The backup is restored, but not all of it was looked at: run `keywright doctor`.")
        raise typer.Exit(1) from None


def _database(settings: "Settings") -> str:
    from keywright.db import database_path, without_password

    path = database_path(settings.database_url_in_force)
    return without_password(settings.database_url_in_force) if path is None else str(path.absolute())


def _as_it_was(manifest: "Manifest") -> str:
    from keywright.maintenance.backup import in_words

    return f"as it was at {write_time(manifest.made_at)} (UTC): {in_words(manifest.contents)}"


def _about_the_secret(settings: "Settings", manifest: "Manifest") -> str:
    if manifest.has_secret:
        return (
            "The secret is in it: the file is enough to read every license key, and to sign altered backups."
        )
    place = settings.secret_file.absolute()
    where = f"in {place}" if settings.secret is None else f"given by {settings.source_of('secret')}"
    if settings.secret is None and not place.exists():
        return (
            f"The secret is not in it, nor in {place}: without it, the backup is of no use, and it is not "
            "signed. Look for it."
        )
    return (
        f"The secret is not in it, but {where}: keep a copy of that elsewhere. Without it, nobody can read "
        "the license keys, and the backup is of no use."
    )


def _size(size: int) -> str:
    for unit, bytes_each in (("GB", 10**9), ("MB", 10**6)):
        if size >= bytes_each:
            return f"{size / bytes_each:.1f} {unit}"
    return f"{size / 1000:.0f} kB"


def _print_aside(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class _Progress:
    """A line on the terminal that says how far it is."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._said_at = monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._is_shown and monotonic() > self._said_at + _EVERY:
            self._said_at = monotonic()
            of = f" of {_size(total)}" if total else ""
            print(f"\r{_size(done)}{of} {what} …\x1b[K", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def _ended_gracefully() -> Iterator[None]:
    """Whoever is told to end, or whose terminal is gone, removes what is half done, as after Ctrl-C."""
    # Whoever has been told to ignore a signal, as by nohup, goes on doing so.
    heard = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) == signal.SIG_DFL]
    for one in heard:
        signal.signal(one, signal.default_int_handler)
    try:
        yield
    finally:
        for one in heard:
            signal.signal(one, signal.SIG_DFL)
