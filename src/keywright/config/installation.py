"""An installation: a data directory, the files of its secrets, and a database."""

import logging
import os
import secrets
from contextlib import suppress
from glob import escape
from pathlib import Path

from keywright import db
from keywright.config import stored
from keywright.config.settings import MIN_SECRET_LENGTH, Settings
from keywright.config.values import split_address
from keywright.core.crypto import KeyRing
from keywright.core.errors import ConfigurationError, StoreBusy, StoreUnavailable
from keywright.db import Storage, database_path, open_storage, run_read
from keywright.db.locks import PathLock, new_file, private_folder, rename_durably
from keywright.db.sealed_columns import find_secret_ids, is_rotation_due
from keywright.db.stored_settings import list_stored, look_at_stored


def take_new_secret(settings: Settings) -> KeyRing:
    """Return the new secret and the previous one. If there is only one secret, make a new one, and keep the
    old one next to it.

    Raises ``ConfigurationError`` if the secret is a setting, which only the owner can change.
    """
    # Do not read the database: the caller holds its lock.
    secret = find_secret(settings)
    if secret is None:
        raise ConfigurationError(f"{settings.secret_file} is missing: there is no secret to rotate.")
    key_ring = add_previous_secret(settings, secret)
    if len(key_ring.rings) > 1:
        return key_ring
    if settings.secret is not None:
        raise ConfigurationError(
            f"the secret comes from {settings.source_of('secret')}. Set a new one there (`openssl rand "
            "-hex 32` makes one), and set previous_secret to the old one; restart every server, and try "
            "again."
        )
    # The old secret is written first, so that an interruption never loses it.
    write_secret(settings.previous_secret_file, secret.decode())
    new = secrets.token_hex(32)
    write_secret(settings.secret_file, new)
    return KeyRing(new.encode(), secret)


def retire_previous_secret(settings: Settings) -> Path | None:
    """Rename the file of the previous secret after the secret's ID, and return its path: from now on, only
    backups need it. None if that secret is not in a file.
    """
    key_ring = load_key_ring(settings)
    path = settings.previous_secret_file
    if settings.previous_secret is not None or not path.exists():
        return None
    return path.replace(path_of_retired_secret(settings, key_ring.rings[-1].secret_id))


def path_of_retired_secret(settings: Settings, secret_id: str) -> Path:
    """Return the path of the file that keeps the secret with this ID after its rotation."""
    return settings.data_dir / f"secret.retired-{secret_id}"


log = logging.getLogger(__name__)


def make_data_dir(settings: Settings) -> None:
    """Make the data directory if it is missing, for its owner only. Raises ``ConfigurationError``."""
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise ConfigurationError(
            f"the data directory {settings.data_dir} cannot be created: {problem.strerror}. Name another "
            "with --data-dir."
        ) from problem


def has_database(settings: Settings) -> bool:
    """Return whether the database exists. Raises ``StoreUnavailable`` if its server does not answer."""
    return db.has_database(settings.database_url_in_force)


def load_secret(settings: Settings) -> bytes:
    """Return the installation's secret: the setting, or else the file in the data directory.

    If both the file and the database are missing, the file is made; processes that make it at the same time
    get the same secret. Raises ``ConfigurationError`` if the secret is missing, unreadable or too short.
    """
    # Look for the database first: the secret is made before it, so a database found here has its secret.
    needs_secret = settings.secret is None and has_database(settings)
    secret = find_secret(settings)
    if secret is not None:
        return secret
    path = settings.secret_file
    if needs_secret:
        raise ConfigurationError(
            f"{path} is missing, and the database cannot be read without it. Restore that file from a "
            "backup, copy it from the original installation, or set KEYWRIGHT_SECRET."
        )
    return _require_long_enough(_make_secret(path), path)


def find_secret(settings: Settings) -> bytes | None:
    """Find the secret: the setting, or else the file in the data directory. A missing secret is not made.

    Raises ``ConfigurationError`` if it is unreadable or too short.
    """
    if settings.secret is not None:
        return settings.secret.get_secret_value().encode()
    text = _read_secret(settings.secret_file)
    return None if text is None else _require_long_enough(text, settings.secret_file)


def load_key_ring(settings: Settings) -> KeyRing:
    """Return the secret and, during a rotation, the previous one. Raises what ``load_secret`` raises."""
    return add_previous_secret(settings, load_secret(settings))


def add_previous_secret(settings: Settings, secret: bytes) -> KeyRing:
    """Return this secret, and the previous one if there is one. Raises ``ConfigurationError``."""
    if settings.previous_secret is not None:
        return KeyRing(secret, settings.previous_secret.get_secret_value().encode())
    path = settings.previous_secret_file
    text = _read_secret(path)
    return KeyRing(secret, None if text is None else _require_long_enough(text, path))


def write_secret(path: Path, text: str, *, is_overwriting: bool = True) -> None:
    """Write a secret to a file that only its owner can read.

    Raises ``ConfigurationError`` if it cannot be written, and ``FileExistsError`` if the file exists, unless
    ``is_overwriting``.
    """
    try:
        with private_folder(path.absolute().parent) as folder:
            with new_file(folder / "secret") as draft:
                draft.write(f"{text}\n".encode())
            rename_durably(folder / "secret", path, is_overwriting=is_overwriting)
    except FileExistsError:
        raise
    except OSError as problem:
        raise ConfigurationError(f"{path} cannot be written: {problem.strerror}.") from problem


def _require_long_enough(text: str, path: Path) -> bytes:
    if len(text) < MIN_SECRET_LENGTH:
        raise ConfigurationError(
            f"{path} contains {len(text)} characters, but a secret has at least {MIN_SECRET_LENGTH}. "
            "Restore that file from a backup."
        )
    return text.encode()


def open_installation(settings: Settings) -> Storage:
    """Open the database with its secret, and apply the settings of the pages. A missing installation is made.

    Raises what ``load_secret`` and ``open_storage`` raise.
    """
    make_data_dir(settings)
    key_ring = load_key_ring(settings)
    storage = open_storage(
        settings.database_url_in_force,
        key_ring,
        read_url=settings.read_database_url,
        read_lag_limit=settings.read_lag_limit,
    )
    if len(key_ring.rings) > 1 and is_rotation_due(
        run_read(storage, lambda tx: find_secret_ids(tx.connection)), key_ring
    ):
        log.warning("the rotation of the secret is not finished; run `keywright secret rotate`")
    stored.apply(settings, run_read(storage, list_stored))
    return storage


def apply_stored(settings: Settings) -> None:
    """Apply the settings of the pages, if there is a database; it is only read."""
    secret = find_secret(settings)
    if secret is None or not has_database(settings):
        return
    key_ring = add_previous_secret(settings, secret)
    stored.apply(settings, look_at_stored(settings.database_url_in_force, key_ring))


def mark_server(settings: Settings, address: tuple[str, int]) -> None:
    """Mark a server as running: lock a file named after its address until the process ends. Log a warning if
    another server uses the same SQLite file.
    """
    if others := find_servers(settings) if database_path(settings.database_url_in_force) else []:
        log.warning(
            "another server uses this SQLite file (%s): each counts limits, and remembers API keys, for "
            "itself. Stop one of them",
            ", ".join(f"{host}:{port}" for host, port in others),
        )
    folder, prefix = _place_of_marks(settings)
    # A full disk must not prevent the server from starting.
    with suppress(StoreBusy, StoreUnavailable):
        PathLock(folder / f"{prefix}{address[0]}:{address[1]}", os.O_RDWR | os.O_CREAT).acquire(0)


def find_servers(settings: Settings) -> list[tuple[str, int]]:
    """Return the addresses of the installation's servers that are running on this machine."""
    folder, prefix = _place_of_marks(settings)
    found = []
    for path in folder.glob(f"{escape(prefix)}*"):
        mark = PathLock(path, os.O_RDWR)
        try:
            mark.acquire(0)
            # A server that was killed left the file behind.
            path.unlink()
        except StoreBusy:
            found.append(split_address(path.name.removeprefix(prefix)))
        except StoreUnavailable:
            log.debug("%s cannot be opened", path)
        finally:
            mark.close()
    return found


def _place_of_marks(settings: Settings) -> tuple[Path, str]:
    """Return the folder of the marks (that of an SQLite file, if it is one) and the prefix of their names."""
    path = database_path(settings.database_url_in_force)
    return (settings.data_dir, "server-") if path is None else (path.parent, f"{path.name}.server-")


def _read_secret(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8").strip()
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise ConfigurationError(
            f"the secret in {path} cannot be read: {reason}. Keywright must run as the user who owns it."
        ) from problem
    if mode & 0o044:
        log.warning("%s can be read by others; chmod 600 keeps it to its owner", path)
    return text


def _make_secret(path: Path) -> str:
    """Make the file, unless another process does; return its content."""
    try:
        with suppress(FileExistsError):
            write_secret(path, secrets.token_hex(32), is_overwriting=False)
    except ConfigurationError as problem:
        raise ConfigurationError(
            f"{problem} Name another directory with --data-dir, or set KEYWRIGHT_SECRET."
        ) from problem
    return _read_secret(path) or ""
