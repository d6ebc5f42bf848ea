"""The wheel has everything: a server runs from it, with its pages, and nothing from this checkout."""

import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import httpx
import pytest

from tests.server import running
from tests.shop import DEFUSE, DUMP, SECRET

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("keywright-*.whl")
    return built


def program_of(installed: Path) -> tuple[str, ...]:
    """The command ``keywright`` of this folder: without site, nothing leads back to the checkout."""
    program = (
        "import sys; "
        f"sys.path[:0] = [{str(installed)!r}, {sysconfig.get_path('purelib')!r}]; "
        "import keywright, keywright.cli; "
        f"assert keywright.__file__.startswith({str(installed)!r}); "
        "keywright.cli.main()"
    )
    return (sys.executable, "-I", "-S", "-c", program)


def test_a_shop_moves_in_with_the_wheels(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT / "converter", check=True, capture_output=True)
    installed = tmp_path / "installed"
    for one in (wheel, *tmp_path.glob("keywright_converter-*.whl")):
        with zipfile.ZipFile(one) as archive:
            archive.extractall(installed)
    program = program_of(installed)
    place = ["--data-dir", str(tmp_path / "data")]
    subprocess.run([*program, "init", *place], check=True, capture_output=True)
    given = ["import", "lmfwc", str(DUMP), "--defuse", str(DEFUSE), "--secret", str(SECRET), "--dry-run"]
    done = subprocess.run([*program, *given, *place], check=True, capture_output=True, text=True)
    assert "licenses: 22 new" in done.stdout


def test_a_server_with_its_pages_runs_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    command = program_of(installed)
    with (
        running(tmp_path / "data", program=command) as server,
        httpx.Client(base_url=server.base_url, follow_redirects=True) as client,
    ):
        for path in ("/", "/openapi/v2", "/openapi/v2.json"):
            assert client.get(path).status_code == 200, path
        sign_in = client.get("/admin")
        files = re.findall(r'(?:href|src)="([^"]+\.(?:css|js|svg)[^"]*)"', sign_in.text)
        assert len(files) > 1
        for file in files:
            assert client.get(str(sign_in.url.join(file))).status_code == 200, file
