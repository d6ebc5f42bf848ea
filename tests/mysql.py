"""A MariaDB server of a test's own, on a socket and a free port, with the dump of a real shop in it."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.deploy.programs import program
from tests.server import wait_until
from tests.shop import DUMP
from tools.postgres import free_port

USER, PASSWORD, DATABASE = "reader", "pass/word@1", "shop"
_USERS = f"""
CREATE DATABASE {DATABASE};
CREATE USER {USER}@localhost IDENTIFIED BY '{PASSWORD}';
GRANT SELECT ON {DATABASE}.* TO {USER}@localhost;
"""


class MariaDb(NamedTuple):
    """A running server. Its user ``USER`` may only read."""

    socket: Path
    port: int

    def url(self, login: str = USER) -> str:
        """The address of the shop's database, by TCP."""
        return f"mysql://{login}@127.0.0.1:{self.port}/{DATABASE}"

    def execute(self, statements: str, *options: str) -> None:
        """Run statements as the administrator."""
        client = [program("mariadb"), "--no-defaults", "--default-character-set=utf8mb4", "--user=root"]
        command = [*client, f"--socket={self.socket}", *options]
        subprocess.run(command, input=statements.encode(), check=True, capture_output=True)


@contextmanager
def a_mariadb(folder: Path, dumps: Sequence[Path] = (DUMP,)) -> Iterator[MariaDb]:
    """A server whose database ``shop`` holds these dumps. Skips the test where there is no MariaDB."""
    install, daemon = program("mariadb-install-db"), program("mariadbd")
    common = ["--no-defaults", f"--datadir={folder / 'data'}", "--user=root"]
    options = ["--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run([install, *common, *options], check=True, capture_output=True)
    server = MariaDb(folder / "s", free_port())
    network = [f"--socket={server.socket}", f"--port={server.port}", "--bind-address=127.0.0.1"]
    files = [
        f"--pid-file={folder / 'pid'}",
        "--innodb-flush-log-at-trx-commit=0",
        "--character-set-server=utf8mb4",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([daemon, *common, *network, *files], stdout=log, stderr=log)
    try:
        wait_until(lambda: b"ready for connections" in (folder / "log").read_bytes(), "MariaDB")
        server.execute(_USERS)
        for dump in dumps:
            server.execute(dump.read_text(), DATABASE)
        yield server
    finally:
        process.terminate()
        process.wait()
