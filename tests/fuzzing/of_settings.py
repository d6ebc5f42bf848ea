"""What an installation is told by files and variables: its settings, its secret, its database."""

from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from keywright.config import Settings
from keywright.config.installation import load_secret
from keywright.config.settings import MIN_SECRET_LENGTH
from keywright.config.sources import list_settings, read_settings
from keywright.core.crypto import KeyRing
from keywright.core.errors import ConfigurationError
from keywright.db import database_path, without_password
from keywright.db.session import _make_conninfo
from tests.fuzzing.folders import a_folder
from tests.fuzzing.pieces import text


@cache
def _folder() -> TemporaryDirectory[str]:
    return a_folder()


def remove_folder() -> None:
    if _folder.cache_info().currsize:
        _folder().cleanup()
        _folder.cache_clear()


def a_file(name: str, content: bytes) -> Path:
    """The file of that name, with this in it."""
    path = Path(_folder().name) / name
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def settings_files(data: bytes) -> None:
    """A settings file is used, or refused in one line; what is shown of it is no secret."""
    path = a_file("keywright.toml", data)
    try:
        settings = read_settings({}, path)
    except ConfigurationError as refusal:
        _assert_readable(refusal)
        return
    shown = {one.name: one.value for one in list_settings(settings)}
    # Without one in the file, there may be one in the data directory.
    assert shown["secret"] in ((None, "********") if settings.secret is None else ("********",))
    database_urls(settings.database_url_in_force.encode("utf-8", "surrogatepass"))


def database_urls(data: bytes) -> None:
    """A database URL names a file or is for libpq, or is refused; its password is not shown."""
    url = text(data)
    shown = without_password(url)
    try:
        path = database_path(url)
        parameters = _make_conninfo(url) if path is None else ""
    except ConfigurationError as refusal:
        _assert_readable(refusal)
        return
    if path is not None:
        with suppress(OSError):
            path.exists()
        return
    conninfo_to_dict(parameters)
    with suppress(ProgrammingError, UnicodeError):
        assert conninfo_to_dict(shown).get("password") in (None, "…")


def secret_files(data: bytes) -> None:
    """A secret is long enough to be one, or refused in one line."""
    path = a_file("secret", data)
    try:
        secret = load_secret(Settings(data_dir=path.parent))
    except ConfigurationError as refusal:
        _assert_readable(refusal)
        return
    assert len(secret.decode()) >= MIN_SECRET_LENGTH
    KeyRing(secret)


def _assert_readable(refusal: ConfigurationError) -> None:
    """It is said in one line."""
    assert str(refusal)
    assert "\n" not in str(refusal)
