"""PostgreSQL's own programs for backups, pg_dump and pg_restore, run so that no password is visible."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple, cast

from psycopg import ConnectionInfo
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from keywright.core.errors import ConfigurationError, StoreError

_VERSION = re.compile(r"\(PostgreSQL\) ((\d+)[^\s]*)")
_VERSION_TIMEOUT = 10.0
#: The name of the connection that a backup is made over, for those who list the server's connections.
APPLICATION = "keywright-backup"


class Program(NamedTuple):
    """A program on PATH."""

    name: str
    path: str
    #: As the program prints it, such as 18.4.
    version: str


def find_program(name: str, *, needed: int, reason: str) -> Program:
    """Find a program on PATH. Raises ``StoreError`` if it is missing or its major version is too old."""
    cure = (
        f"Install PostgreSQL's client programs of version {needed} or newer (on Debian and Ubuntu: "
        f"postgresql-client-{needed}) and see that they come first on PATH."
    )
    path = shutil.which(name)
    if path is None:
        raise StoreError(f"{name} is not on PATH, and {reason}. {cure}")
    answer = subprocess.run(  # noqa: S603
        [path, "--version"], capture_output=True, text=True, check=False, timeout=_VERSION_TIMEOUT
    )
    version = _VERSION.search(answer.stdout)
    if version is None:
        raise StoreError(f"{path} does not say which version it is, and {reason}. {cure}")
    if int(version[2]) < needed:
        raise StoreError(f"{path} is of version {version[1]}, too old: {reason}. {cure}")
    return Program(name, path, version[1])


@contextmanager
def run_program(
    program: Program, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[BinaryIO]:
    """Run the program; the block reads its output to the end.

    The program is killed when the block raises an exception. Raises ``StoreError`` when the program fails.
    """
    with TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603
            [program.path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **(environment or {})},
        )
        output = cast(BinaryIO, process.stdout)
        try:
            yield output
        except BaseException:
            process.kill()
            raise
        finally:
            output.close()
            status = process.wait()
        if status:
            errors.seek(0)
            message = errors.read().decode(errors="replace").replace(f"{program.name}: ", "")
            message = "; ".join(message.split("\n")).strip("; ") or f"status {status}"
            raise StoreError(f"{program.name} has failed: {message}.")


def hide_passwords(url: str, info: ConnectionInfo) -> tuple[str, dict[str, str]]:
    """Return a connection string for the very server where ``info`` is connected, and environment variables
    with the secrets of the URL, which must not appear in the list of processes.

    Raises ``ConfigurationError`` for a secret that libpq does not read from the environment.
    """
    parameters = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    parameters |= {"host": info.host, "port": str(info.port)}
    parameters.setdefault("application_name", APPLICATION)
    if "hostaddr" in parameters:
        parameters["hostaddr"] = info.hostaddr
    variables = {}
    for option in Conninfo.get_defaults():
        name = option.keyword.decode()
        if name in parameters and option.dispchar == b"*":
            if option.envvar is None:
                raise ConfigurationError(
                    f"{name} in the database URL would be seen in the list of processes."
                )
            variables[option.envvar.decode()] = parameters.pop(name)
    return make_conninfo("", **parameters), variables
