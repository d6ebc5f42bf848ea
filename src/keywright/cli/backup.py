"""``keywright backup`` and ``keywright restore``."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import gettempdir
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from keywright import __version__
from keywright.cli import output
from keywright.cli.doctor import examine_here
from keywright.cli.installation import InstallationOptions, describe_database, open_here
from keywright.cli.options import WrongUsage, command, with_options
from keywright.core.errors import ConfigurationError
from keywright.core.parsing import format_count, format_size, write_time

if TYPE_CHECKING:
    from keywright.config import Settings
    from keywright.core.crypto import KeyRing
    from keywright.maintenance.backup import Backup, Manifest

#: The most files missing from a backup that are named.
_NAMED = 10
#: The first bytes of a file compressed by gzip (RFC 1952).
_GZIP = b"\x1f\x8b"
_KINDS = {"sqlite": "an SQLite database", "postgresql": "a PostgreSQL database"}


def add_to(app: typer.Typer) -> None:
    """Add these commands to the program."""
    command(
        app,
        "keywright backup /backup/keywright.tar --overwrite",
        "keywright backup - | gzip > /backup/keywright.tar.gz",
    )(with_options(backup))
    command(
        app,
        "keywright restore /backup/keywright.tar --check",
        "keywright restore /backup/keywright.tar --data-dir /var/lib/keywright",
    )(with_options(restore))


_IsOverwriting = Annotated[bool, typer.Option("--overwrite", help="Replace an existing backup of that name.")]


def backup(
    options: InstallationOptions,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; - is standard output.")],
    *,
    is_overwriting: _IsOverwriting = False,
    is_unsigned: Annotated[
        bool, typer.Option("--unsigned", help="If the secret is lost: make an unsigned backup.")
    ] = False,
    is_with_secret: Annotated[
        bool,
        typer.Option(
            "--with-secret",
            help="Include the secret. Anyone who has the file can then read every license key, and sign "
            "altered backups.",
        ),
    ] = False,
    is_with_files: Annotated[
        bool, typer.Option("--with-files", help="Include the files of releases.")
    ] = False,
) -> None:
    """Back up the database to one file, from which `keywright restore` restores everything. The server keeps
    running.

    The backup contains everything in the database and, with --with-files, the files of releases. It does
    not contain the secret that seals license keys, unless you use --with-secret: keep the secret elsewhere.
    The backup is signed with the secret, so that `keywright restore` detects whether it was altered.

    The file gets its name only when it is complete and on the disk; until then, the directory also holds a
    copy of the database. After that, the command in the setting backup_command runs, except for a backup to
    standard output.

    A PostgreSQL database needs pg_dump, at least of the server's version.
    """
    from keywright.config.installation import find_secret, has_database, load_key_ring, load_secret
    from keywright.maintenance.backup import make_backup, note_backup

    began = monotonic()
    settings = options.read_settings()
    if not has_database(settings):
        raise ConfigurationError(f"there is nothing to back up in {describe_database(settings)}.")
    secret = load_secret(settings) if is_with_secret else find_secret(settings)
    if secret is None and not is_unsigned:
        raise ConfigurationError(
            f"the secret is missing from {settings.secret_file.absolute()}. Without it, the backup cannot "
            "be signed, and its license keys cannot be read. Restore that file, or set KEYWRIGHT_SECRET; "
            "if the secret is lost, use --unsigned."
        )
    key_ring = None if secret is None else load_key_ring(settings)
    if file == "-" and sys.stdout.isatty():
        raise WrongUsage("a backup cannot be shown on a terminal: name a file, or pipe it somewhere")
    with _clean_up_after_signals(), output.ByteProgress() as progress:
        new = make_backup(
            settings.database_url_in_force,
            sys.stdout.buffer if file == "-" else Path(file),
            made_by=f"Keywright {__version__}",
            key_ring=key_ring,
            secret=secret.decode() if secret is not None and is_with_secret else None,
            files_folder=settings.files_folder if is_with_files else None,
            is_overwriting=is_overwriting,
            progress=progress,
        )
    # If the backup goes to standard output, nothing else may.
    print_line = output.print_line if file != "-" else output.print_error
    name = "this" if file == "-" else file
    print_line(
        f"{name} is a backup of {describe_database(settings)} {_summary(new.manifest)}. It is "
        f"{format_size(new.size)} and took {monotonic() - began:.1f} s."
    )
    print_line(_secret_advice(settings, new.manifest))
    if advice := _files_advice(settings, new.manifest):
        print_line(advice)
    if file != "-" and settings.backup_command is not None:
        _run_after(settings.backup_command, Path(file))
    if key_ring is not None:
        note_backup(settings.database_url_in_force, key_ring, new.manifest.made_at)


def _run_after(command: str, file: Path) -> None:
    variables = {**os.environ, "BACKUP_FILE": str(file.absolute())}
    status = subprocess.run(["sh", "-c", command], env=variables, check=False).returncode  # noqa: S603, S607
    if status:
        raise ConfigurationError(f"{file} was written, but backup_command failed (status {status}).")


@contextmanager
def _opened(file: str) -> Iterator["Backup"]:
    """Open a backup. A piped or compressed backup is written to a temporary file first."""
    from keywright.db.locks import private_folder
    from keywright.maintenance.backup import Backup, unpack

    with ExitStack() as stack:
        path, name = Path(file), "this" if file == "-" else file
        source = stack.enter_context(sys.stdin.buffer if file == "-" else path.open("rb"))
        if file == "-" or not source.seekable() or source.peek(2)[:2] == _GZIP:
            path = stack.enter_context(private_folder(Path(gettempdir()))) / "backup"
            unpack(source, path, name, is_compressed=source.peek(2)[:2] == _GZIP)
        yield stack.enter_context(closing(Backup(path, name)))


def restore(
    options: InstallationOptions,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A file from `keywright backup`, possibly compressed with gzip; - is standard input.",
        ),
    ],
    *,
    is_checked_only: Annotated[
        bool,
        typer.Option("--check", help="Show the contents of the file and verify it; change nothing."),
    ] = False,
    is_overwriting: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace the existing database. An SQLite file is kept next to the new one."
        ),
    ] = False,
    is_unsigned: Annotated[
        bool,
        typer.Option(
            "--unsigned",
            help="Do not check the signature. Anyone with write access to the file may have altered it, "
            "including passwords and limits; on PostgreSQL, such a file can also run any SQL.",
        ),
    ] = False,
) -> None:
    """Restore a backup into the installation that the settings name, and check it as `keywright doctor` does.
    Stop the server first.

    The whole file is checked before anything changes, and then everything is replaced at once: an
    interrupted restore leaves either the old database or the one in the backup. If the existing database is
    not empty, --overwrite is needed; IDs issued since the backup are then not issued again. Mails that were
    waiting are held, because they may have been sent since the backup.

    The secret that signed the backup must be available. --unsigned is for a backup without a signature, and
    for one that contains the only copy of the secret: its signature proves nothing.

    A PostgreSQL database must exist; pg_restore is needed, at least of the version of the pg_dump that made
    the backup.
    """
    from keywright.config.installation import make_data_dir, write_secret
    from keywright.maintenance import backup as backups

    settings = options.read_settings()
    url = settings.database_url_in_force
    with _clean_up_after_signals(), _opened(file) as opened_backup:
        manifest = opened_backup.manifest
        if is_checked_only:
            _check(opened_backup, settings, is_unsigned=is_unsigned)
            return
        backups.require_compatible(manifest, url)
        key_ring, secret = _find_secret(opened_backup, settings, is_unsigned=is_unsigned)
        make_data_dir(settings)

        def save_others() -> None:
            if secret is not None:
                write_secret(settings.secret_file, secret, is_overwriting=False)
            backups.restore_files(opened_backup, settings.files_folder)

        with output.ByteProgress() as progress:
            kept = backups.restore(
                opened_backup,
                url,
                key_ring,
                is_unsigned=is_unsigned,
                is_overwriting=is_overwriting,
                before_replacing=save_others,
                progress=progress,
            )
        output.print_line(f"Restored {describe_database(settings)} {_summary(manifest)}.")
        output.print_line("You can start the server.")
        if secret is not None:
            output.print_line(f"The secret from the backup is now in {settings.secret_file}.")
        if manifest.files:
            count = format_count(manifest.files, "file")
            output.print_line(
                f"The files of releases ({count}) are now in {settings.files_folder.absolute()}."
            )
        if kept is not None:
            output.print_line(f"The previous database is kept in {kept}.")
    _examine(options)


def _check(backup: "Backup", settings: "Settings", *, is_unsigned: bool) -> None:
    signed_by = None if is_unsigned else _find_signer(backup, settings)
    with output.ByteProgress() as progress:
        backup.read(None, progress, signed_by=signed_by)
    manifest, contents = backup.manifest, backup.manifest.contents
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
            ("policies", f"{contents.policies:,}"),
            ("API keys", f"{contents.api_keys:,}"),
            ("users", f"{contents.users:,}"),
            ("files", f"{manifest.files:,}"),
            ("the secret", "included" if manifest.has_secret else "not included"),
        ]
    )
    if is_unsigned:
        output.print_line(
            f"\n{backup.path} is complete, but its signature was not checked: it may have been altered."
        )
    else:
        output.print_line(f"\n{backup.path} is complete and unaltered: its signature is valid.")


def _find_signer(backup: "Backup", settings: "Settings") -> "KeyRing":
    try:
        return _find_secret(backup, settings, is_unsigned=False)[0]
    except ConfigurationError as problem:
        raise ConfigurationError(f"{problem} To check only the checksum, use --unsigned.") from None


def _find_secret(
    backup: "Backup", settings: "Settings", *, is_unsigned: bool
) -> "tuple[KeyRing, str | None]":
    """Return the key ring that reads the license keys of the backup; and the secret, if it must be saved.

    Raises ``ConfigurationError`` when there is no such secret. A secret that only the backup itself contains
    is used only for an unsigned restore: a signature made with it proves nothing.
    """
    from keywright.config.installation import load_key_ring
    from keywright.core.crypto import KeyRing

    file = settings.secret_file.absolute()
    if settings.secret is not None or file.exists():
        key_ring, place = load_key_ring(settings), str(file)
        if settings.secret is not None:
            place = f"the secret from {settings.source_of('secret')}"
        needed = (backup.manifest.secret_id, backup.manifest.previous_secret_id)
        if all(one is None or key_ring.find_ring(one) is not None for one in needed):
            return key_ring, None
        raise ConfigurationError(
            f"the backup was made with a different secret than {place}, which cannot read its license "
            "keys. " + _secret_to_use(backup, settings)
        )
    if backup.secret is None:
        raise ConfigurationError(
            "the secret is missing, and the backup does not contain it. Put the secret that the backup "
            f"was made with into {file}, or set KEYWRIGHT_SECRET. Without it, the license keys cannot be "
            "read."
        )
    if not is_unsigned:
        raise ConfigurationError(
            "the secret is only in the backup itself, so its signature proves nothing: anyone who could "
            f"read the file could alter it and sign it again. Put the secret into {file}; or, if you trust "
            "every place where the backup was stored, use --unsigned."
        )
    return KeyRing(backup.secret.encode()), backup.secret


def _secret_to_use(backup: "Backup", settings: "Settings") -> str:
    from keywright.config.installation import path_of_retired_secret

    if backup.secret is not None:
        return "To use the secret in the backup, move that one away."
    secret_id = backup.manifest.secret_id
    file = path_of_retired_secret(settings, secret_id)
    place = f" It is in {file.absolute()}." if file.exists() else ""
    return (
        "If the secret was rotated since, set previous_secret to the previous one (its ID is "
        f"{secret_id}), or put it into {settings.previous_secret_file.absolute()}.{place} Otherwise use "
        "the secret that the backup was made with."
    )


def _examine(options: InstallationOptions) -> None:
    try:
        with open_here(options, is_made=False) as here:
            examine_here(here)
    except KeyboardInterrupt:
        output.print_error("The backup is restored, but the check was interrupted: run `keywright doctor`.")
        raise typer.Exit(1) from None


def _summary(manifest: "Manifest") -> str:
    from keywright.maintenance.backup import summarize

    return f"as it was at {write_time(manifest.made_at)} (UTC): {summarize(manifest.contents)}"


def _files_advice(settings: "Settings", manifest: "Manifest") -> str:
    """State whether the files of releases are in the backup, and name those that are not."""
    from keywright.maintenance.backup import list_file_names
    from keywright.provisioning.releases.files import list_stored

    if manifest.files:
        return f"It includes the files of releases ({format_count(manifest.files, 'file')})."
    stored = list(list_stored(settings.files_folder))
    if not stored:
        return ""
    names = list_file_names(settings.database_url_in_force, _NAMED + 1)
    named = ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])
    count = format_count(len(stored), "file")
    return (
        f"It does not include the files of releases ({count}{f': {named}' if named else ''}). Copy the "
        f"folder {settings.files_folder.absolute()}, too (its files never change), or use --with-files."
    )


def _secret_advice(settings: "Settings", manifest: "Manifest") -> str:
    if manifest.has_secret:
        return (
            "It includes the secret: anyone who has the file can read every license key, and sign altered "
            "backups."
        )
    file = settings.secret_file.absolute()
    place = f"in {file}" if settings.secret is None else f"given by {settings.source_of('secret')}"
    if settings.secret is None and not file.exists():
        return (
            f"It is unsigned and does not include the secret, which is not in {file} either. Find the "
            "secret: without it, the backup is useless."
        )
    return (
        f"It does not include the secret, which is {place}. Keep a copy of the secret elsewhere: without "
        "it, the license keys cannot be read, and the backup is useless."
    )


@contextmanager
def _clean_up_after_signals() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that temporary files are removed."""
    # A signal that is ignored, as under nohup, stays ignored.
    signals = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) == signal.SIG_DFL]
    for one in signals:
        signal.signal(one, signal.default_int_handler)
    try:
        yield
    finally:
        for one in signals:
            signal.signal(one, signal.SIG_DFL)
