"""Where licenses are kept.

``open_storage`` is the way in; ``storage.read()`` and ``storage.write()`` are transactions.
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from keywright.errors import ConfigurationError
from keywright.keys import KeyRing
from keywright.storage.migrate import migrate
from keywright.storage.sqlite import SqliteStorage, refuse_network_file_system
from keywright.storage.transactions import Reading, Writing

__all__ = ["Reading", "Storage", "Writing", "database_path", "open_storage"]

#: What the rest of the program sees of a database.
Storage = SqliteStorage


def database_path(url: str) -> Path:
    """The file that a ``sqlite:///`` URL names. Raises ``ConfigurationError`` for any other URL."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc or len(parts.path) < 2 or parts.query or parts.fragment:
        raise ConfigurationError(
            f"the database URL {_without_password(url)!r} cannot be used. "
            "Write sqlite:///relative/path.db or sqlite:////absolute/path.db."
        )
    return Path(unquote(parts.path[1:]))


def open_storage(url: str, key_ring: KeyRing) -> Storage:
    """Open the database, make it if there is none, and bring its schema up to date.

    A database that exists is copied into ``backups`` beside it before a migration changes it. Raises
    ``ConfigurationError`` for a URL that names no database, ``StoreError`` for one that this version
    or this secret cannot use, ``StoreUnavailable`` when it cannot be reached.
    """
    path = database_path(url)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise ConfigurationError(f"{path.parent} cannot be made: {problem.strerror}") from problem
    refuse_network_file_system(path.parent)
    storage = SqliteStorage(path, key_ring)
    migrate(storage, key_ring)
    return storage


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}…@{rest.rpartition('@')[2]}" if "@" in rest else url
