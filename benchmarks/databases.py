"""The databases of measured installations: SQLite files, or databases on a temporary PostgreSQL server."""

import shutil
from pathlib import Path
from typing import Any

import psutil
import psycopg

from keywright.config import Settings
from tools.postgres import PostgresServer

#: The settings of a server that makes each commit durable, as in production.
_SETTINGS: dict[str, Any] = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
    "track_commit_timestamp": "on",
}


class Database:
    """An SQLite file in an installation's data directory."""

    name = "SQLite"

    def settings(self, data_dir: Path) -> Settings:
        """The settings of the installation in this directory."""
        return Settings.model_validate({"data_dir": data_dir})

    def prepare(self, data_dir: Path) -> None:
        """Prepare for a new installation in this directory."""

    def settle(self, data_dir: Path) -> None:
        """Optimize the database after an installation was filled."""

    def copy(self, data_dir: Path, copy: Path) -> None:
        """Copy an installation that is not in use."""
        shutil.copytree(data_dir, copy)

    def size(self, data_dir: Path) -> int:
        """The size of an installation's database in bytes; it must not be written."""
        return sum(file.stat().st_size for file in data_dir.glob("*.db*"))

    def processor_seconds(self) -> float:
        """The processor time so far of the database's running processes, 0 if it has none."""
        return 0.0

    def remove(self, data_dir: Path) -> None:
        """Remove an installation that is not in use."""
        shutil.rmtree(data_dir, ignore_errors=True)


class Postgres(Database):
    """A separate database for each installation, on one server; the installation's settings file names it."""

    name = "PostgreSQL"

    def __init__(self, server: PostgresServer, workers: int) -> None:
        self.server = server
        self._workers = workers

    def settings(self, data_dir: Path) -> Settings:
        url = self.server.url((data_dir / "database").read_text())
        return Settings.model_validate({"data_dir": data_dir, "database_url": url})

    def prepare(self, data_dir: Path) -> None:
        data_dir.mkdir(parents=True)
        self._use(data_dir, self.server.create_database())

    def settle(self, data_dir: Path) -> None:
        url = self.server.url((data_dir / "database").read_text())
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")

    def copy(self, data_dir: Path, copy: Path) -> None:
        shutil.copytree(data_dir, copy)
        self._use(copy, self.server.create_database((data_dir / "database").read_text()))
        self.settle(copy)

    def size(self, data_dir: Path) -> int:
        url = self.server.url((data_dir / "database").read_text())
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])

    def processor_seconds(self) -> float:
        main = psutil.Process(self.server.pid)
        times = [one.cpu_times() for one in (main, *main.children())]
        return sum([float(one.user + one.system) for one in times])

    def remove(self, data_dir: Path) -> None:
        self.server.drop_database((data_dir / "database").read_text())
        super().remove(data_dir)

    def _use(self, data_dir: Path, name: str) -> None:
        (data_dir / "database").write_text(name)
        settings = f'database_url = "{self.server.url(name)}"\nworkers = {self._workers}\n'
        (data_dir / "keywright.toml").write_text(settings)


def a_server() -> PostgresServer:
    """Create a PostgreSQL server; the caller starts and removes it."""
    return PostgresServer(**_SETTINGS)
