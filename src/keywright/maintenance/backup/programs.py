"""PostgreSQL's own programs for backups, pg_dump and pg_restore, run so that no password can be seen."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple, cast

from psycopg import ConnectionInfo
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from keywright.core.errors import ConfigurationError, StoreError

_VERSION = re.compile(r"\(PostgreSQL\) ((\d+)[^\s]*)")
#: What a backup's own session is called, so that others see that somebody is at it.
APPLICATION = "keywright-backup"
_PATIENCE = 10.0


class Program(NamedTuple):
    """A program that was found on PATH."""

    name: str
    path: str
    #: As it says it, such as 18.4, and its first number.
    version: str
    major: int


def find(name: str, *, needed: int, because: str) -> Program:
    """The program of this name on PATH. Raises ``StoreError`` where it is not, or older than ``needed``."""
    cure = (
        f"Install PostgreSQL's client programs of version {needed} or newer (on Debian and Ubuntu: "
        f"postgresql-client-{needed}) and see that they come first on PATH."
    )
    path = shutil.which(name)
    if path is None:
        raise StoreError(f"{name} is not on PATH, and {because}. {cure}")
    said = subprocess.run(  # noqa: S603
        [path, "--version"], capture_output=True, text=True, check=False, timeout=_PATIENCE
    )
    version = _VERSION.search(said.stdout)
    if version is None:
        raise StoreError(f"{path} does not say which version it is, and {because}. {cure}")
    program = Program(name, path, version[1], int(version[2]))
    if program.major < needed:
        raise StoreError(f"{path} is of version {program.version}, too old: {because}. {cure}")
    return program


@contextmanager
def running(
    program: Program,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    feed: Callable[[BinaryIO], None] | None = None,
) -> Iterator[BinaryIO]:
    """What the program writes, while it runs; ``feed``, in another thread, writes what it reads.

    Its output is to be read to the end. It is ended when the block is left with an exception. Raises
    ``StoreError`` when it fails, and what ``feed`` raises.
    """
    with TemporaryFile() as said, ThreadPoolExecutor(1) as feeder:
        process = subprocess.Popen(  # noqa: S603
            [program.path, *arguments],
            stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, **(environment or {})},
        )
        fed = feeder.submit(_feed, process.stdin, feed)
        try:
            yield cast(BinaryIO, process.stdout)
        except BaseException:
            process.kill()
            raise
        finally:
            cast(BinaryIO, process.stdout).close()
            status = process.wait()
        said.seek(0)
        if status:
            words = said.read().decode(errors="replace").replace(f"{program.name}: ", "")
            reason = "; ".join(words.split("\n")).strip("; ") or f"status {status}"
            raise StoreError(f"{program.name} has failed: {reason}.")
        fed.result()


def _feed(pipe: Any, feed: Callable[[BinaryIO], None] | None) -> None:
    if feed is not None:
        with suppress(BrokenPipeError), pipe:
            feed(pipe)


def connection_of(url: str, info: ConnectionInfo) -> tuple[str, dict[str, str]]:
    """What makes a program connect as this URL says, to the very server where ``info`` is connected: a text
    to name as its database, and environment variables for what must not stand in the list of processes.

    Raises ``ConfigurationError`` for a secret that libpq takes from the text only.
    """
    given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    given |= {"host": info.host, "port": str(info.port)}
    given.setdefault("application_name", APPLICATION)
    if "hostaddr" in given:
        given["hostaddr"] = info.hostaddr
    hidden = {}
    for option in Conninfo.get_defaults():
        name = option.keyword.decode()
        if name in given and option.dispchar == b"*":
            if option.envvar is None:
                raise ConfigurationError(
                    f"{name} in the database URL would be seen in the list of processes."
                )
            hidden[option.envvar.decode()] = given.pop(name)
    return make_conninfo("", **given), hidden
