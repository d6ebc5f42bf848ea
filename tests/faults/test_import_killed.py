"""An import is killed at any moment, again and again: run again, it brings the rest, and nothing twice."""

import random
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from keywright.config import Settings
from keywright.config.installation import open_installation
from keywright.db import Storage
from keywright.licensing.activations import store as activation_store
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from keywright.maintenance import doctor
from tests.databases import a_postgres_url
from tests.proving import size
from tests.server import KEYWRIGHT, environment, wait_until
from tests.shop import DEFUSE, SECRET, a_row, an_activation_row, write_dump

pytestmark = pytest.mark.timeout(600)

LICENSES, EACH = size(3_000, 6_000), 3
KILLS = size(3, 100)


def a_shop(path: Path) -> Path:
    """A dump whose ids of activations are not in the order of their licenses."""
    licenses = [a_row(3 * number, f"KEY-{number:06d}-PL3MX-9RT2V-HW80Z") for number in range(1, LICENSES + 1)]
    activations = [
        an_activation_row(number, 3 * (number % LICENSES + 1)) for number in range(1, EACH * LICENSES + 1)
    ]
    return write_dump(path, licenses=licenses, activations=activations)


@pytest.mark.databases("sqlite", "postgresql")
def test_an_import_that_is_killed_goes_on(database: str, tmp_path: Path) -> None:
    dump = a_shop(tmp_path / "dump.sql")
    if database == "sqlite":
        import_until_done(dump, tmp_path / "data", None)
        return
    with a_postgres_url(empty=True) as url:
        import_until_done(dump, tmp_path / "data", url)


def import_until_done(dump: Path, data_dir: Path, url: str | None) -> None:
    place: dict[str, Any] = {"database_url": url} if url else {}
    secrets = ["--defuse", str(DEFUSE), "--secret", str(SECRET)]
    command = [KEYWRIGHT, "import", "lmfwc", str(dump), *secrets, "--data-dir", str(data_dir)]
    settings = Settings(data_dir=data_dir, **place)
    open_installation(settings).close()
    with closing(open_installation(settings)) as storage:
        for amount in sorted(random.sample(range(1, LICENSES - 1_000), KILLS)):
            kill_at(amount, command, storage, environment(**place))
        assert 0 < count(storage) < LICENSES, "never killed in the middle"
    subprocess.run(command, check=True, env=environment(**place), stdout=subprocess.DEVNULL)
    assert_whole(settings)


def kill_at(amount: int, command: list[str], storage: Storage, variables: dict[str, str]) -> None:
    """Import until there are more than so many licenses."""
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL)
    wait_until(lambda: count(storage) > amount or process.poll() is not None, f"{amount} licenses")
    process.kill()
    process.wait()


def count(storage: Storage) -> int:
    with storage.read() as tx:
        return license_store.count_licenses(tx, LicenseFilter())


def assert_whole(settings: Settings) -> None:
    """Everything is there once, with the ids of the shop."""
    with closing(open_installation(settings)) as storage:
        assert list(doctor.examine(storage, lambda _: None)) == []
        with storage.read() as tx:
            found = license_store.list_licenses(tx, LicenseFilter(), after_id=0, limit=2 * LICENSES)
            assert [one.id for one in found] == [3 * number for number in range(1, LICENSES + 1)]
            places = activation_store.list_activations(tx, [one.id for one in found])
    assert {one.times_activated for one in found} == {EACH}
    tokens = {(one.id, one.token) for some in places.values() for one in some}
    assert tokens == {(number, f"{number:040x}") for number in range(1, EACH * LICENSES + 1)}
