"""An open installation, which executes commands and queries for the command line."""

import logging
import os
import pwd
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from keywright.core.command import Command, Context, Origin, Query
from keywright.core.errors import ConfigurationError, KeywrightError
from keywright.licensing.activations.model import LicenseRecord, ValidateAlone

if TYPE_CHECKING:
    from keywright.config import Settings
    from keywright.db import Storage

#: The IP address of callers at the terminal.
_HERE = "127.0.0.1"
_MAX_ACTOR_LENGTH = 80
_MIGRATIONS = "keywright.db.migrate"

log = logging.getLogger(__name__)


class Installation:
    """An open installation. Refusals and faults are raised as exceptions."""

    def __init__(self, storage: "Storage", settings: "Settings") -> None:
        # Slow imports are made where they are needed, so that --help and completion do not wait for them.
        from keywright.registry import open_executor, record_limits

        self.storage = storage
        self.settings = settings
        self.origin = Origin(actor=_actor(), ip_address=_HERE, user_agent="")
        self._executor = open_executor(storage, partial(record_limits, settings))
        self.now = datetime.now(UTC).replace(microsecond=0)

    @property
    def context(self) -> Context:
        """The context of a command from the terminal."""
        return Context(self.now, self.origin)

    def change(self, command: Command) -> Any:
        """Decide a command, and return its outcome; its changes are then durable."""
        return _value(self._executor.execute([command]))

    def ask(self, query: Query) -> Any:
        """Answer a query."""
        return _value(self._executor.query([query]))

    def get_license(self, key: str) -> LicenseRecord:
        """Return the license with this key, and the activations that an answer lists. Raises
        ``UnknownLicense``.
        """
        record: LicenseRecord = self.ask(ValidateAlone(key=key))
        return record


class InstallationOptions(NamedTuple):
    """The options that name an installation."""

    data_dir: str | None
    database_url: str | None
    config: Path | None

    def read_settings(self, **others: object) -> "Settings":
        """Read the settings, with these and other options. Raises ``ConfigurationError``."""
        from keywright.config.sources import read_settings

        named = {"data_dir": self.data_dir, "database_url": self.database_url}
        return read_settings(named | others, self.config)

    def command_line(self, command: str) -> str:
        """Return the command line of another command on the same installation."""
        program = "keywright" if shutil.which("keywright") else sys.argv[0]
        given = {f"--{name.replace('_', '-')}": value for name, value in self._asdict().items() if value}
        return " ".join([program, command, *(f"{name} {shlex.quote(str(given[name]))}" for name in given)])


@contextmanager
def open_here(options: InstallationOptions, *, is_made: bool) -> Iterator[Installation]:
    """Open the installation that these options name. With ``is_made``, a missing one is made; otherwise,
    ``ConfigurationError`` is raised, because the options probably name the wrong place.
    """
    from keywright.config.installation import has_database, open_installation
    from keywright.db import without_password

    show_warnings()
    settings = options.read_settings()
    if not has_database(settings):
        missing, option = f"there is no installation in {settings.data_dir.absolute()}", "--data-dir"
        if settings.database_url is not None:
            place = without_password(settings.database_url)
            missing, option = f"there is no installation in {place}", "--database-url"
        if not is_made:
            raise ConfigurationError(
                f"{missing}. Name the right one with {option}, or create one with `keywright init`."
            )
        log.warning("%s yet; creating it", missing)
    storage = open_installation(settings)
    try:
        yield Installation(storage, settings)
    finally:
        storage.close()


def show_warnings() -> None:
    """From now on, print warnings and the progress of migrations to standard error."""
    from keywright.config.sources import is_debugging

    _warnings.is_debugging = is_debugging()
    logging.getLogger("keywright").addHandler(_warnings)
    logging.getLogger(_MIGRATIONS).setLevel(logging.INFO)


def _value(outcomes: list[Any]) -> Any:
    if isinstance(outcomes[0], KeywrightError):
        raise outcomes[0]
    return outcomes[0]


def _actor() -> str:
    """The actor in events: the user of the operating system."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    return f"cli:{name}"[:_MAX_ACTOR_LENGTH]


def describe_database(settings: "Settings") -> str:
    """Return the database's file, or its URL without the password."""
    from keywright.db import database_path, without_password

    path = database_path(settings.database_url_in_force)
    return without_password(settings.database_url_in_force) if path is None else str(path.absolute())


class _Warnings(logging.Handler):
    """Prints warnings and the progress of migrations to standard error. Errors end the command instead."""

    is_debugging = False

    def emit(self, record: logging.LogRecord) -> None:
        if self.is_debugging:
            print(self.format(record), file=sys.stderr)
        elif record.levelno == logging.WARNING:
            print(f"Warning: {record.getMessage()}", file=sys.stderr)
        elif record.name == _MIGRATIONS and record.levelno == logging.INFO:
            print(record.getMessage(), file=sys.stderr)


_warnings = _Warnings()
