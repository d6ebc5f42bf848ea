"""A release: what `make release` builds, twice the same, and a server from the wheel alone."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from keywright import __version__
from keywright.db.migrate import HEAD, read_file_state
from tests import shop
from tests.deploy.programs import program
from tests.makers import SECRET, url_of
from tests.once import make_once
from tests.packages.tools import python_program, run
from tests.server import wait_until
from tests.storage.test_first_release import FIRST, make_first
from tools import release
from tools.postgres import free_port

ROOT = Path(__file__).parents[2]
WHEEL = f"keywright-{__version__}-py3-none-any.whl"
#: Each with the mode that new files of its owner get.
_UMASKS = {"first": 0o022, "second": 0o077}


def tracked(*folders: str) -> list[str]:
    """The files of the repository."""
    return run(["git", "ls-files", "-z", *folders], ROOT).rstrip("\0").split("\0")


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two releases, each made in a copy of the repository at another place."""

    def make(folder: Path) -> None:
        tool = python_program("cyclonedx-py")
        with ThreadPoolExecutor() as pool:
            copies = (folder / name for name in _UMASKS)
            list(pool.map(partial(make_release, cyclonedx=tool), copies, _UMASKS.values()))

    folder = make_once(tmp_path_factory, "releases", make)
    return {name: folder / name / "dist" / "release" for name in _UMASKS}


def make_release(copy: Path, umask: int, *, cyclonedx: str) -> None:
    """Make what is published of a new copy."""
    for name in tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    for command in (["make", "sbom", f"CYCLONEDX={cyclonedx}"], [sys.executable, "-m", "tools.release"]):
        environment = {**os.environ, release.KEY_VARIABLE: ""}
        done = subprocess.run(
            command, cwd=copy, env=environment, umask=umask, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "Not signed: MINISIGN_KEY names no secret key" in done.stdout


def test_two_releases_are_the_same(releases: dict[str, Path]) -> None:
    first, second = (
        {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in folder.iterdir()}
        for folder in releases.values()
    )
    assert first == second
    kinds = sorted(re.sub(r"-\d+\.\d+\.\d+|-py3-none-any", "", name) for name in first)
    server = ["keywright.cdx.json", "keywright.tar.gz", "keywright.whl"]
    python = ["keywright_client.tar.gz", "keywright_client.whl", "keywright_converter.whl"]
    packages = ["client-c.tar.gz", "client-csharp.zip", "client-go.tar.gz", "client-php.zip", "client.tgz"]
    others = [f"keywright-{one}" for one in (*packages, "image.tar.gz")]
    assert kinds == ["NOTES.md", "SHA256SUMS", *others, *server, *python, "requirements.lock"]


def test_the_notes_name_the_changes_and_the_schema(releases: dict[str, Path]) -> None:
    notes = (releases["first"] / "NOTES.md").read_text()
    assert notes.startswith(f"# Keywright {__version__}\n\n")
    assert notes.endswith(
        f"\n\nThe schema is {HEAD}; versions whose schema is at least 0016 work on it, too.\n"
    )
    assert len(notes) < 125_000, "no more is taken as the text of a release"


def test_the_sums_name_every_file(releases: dict[str, Path]) -> None:
    folder = releases["first"]
    checked = run(["sha256sum", "--check", "--strict", release.SUMS], folder).splitlines()
    assert checked == [f"{one.name}: OK" for one in sorted(folder.iterdir()) if one.name != release.SUMS]


def test_the_wheel_has_every_file_and_the_source_makes_the_same(
    releases: dict[str, Path], tmp_path: Path
) -> None:
    wheel = releases["first"] / WHEEL
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    documents = {f"keywright/{name}" for name in tracked("docs")}
    assert names == {name.removeprefix("src/") for name in tracked("src")} | documents
    shutil.unpack_archive(releases["first"] / f"keywright-{__version__}.tar.gz", tmp_path)
    source = tmp_path / f"keywright-{__version__}"
    _, date = release.read_notes(__version__, (source / "CHANGELOG.md").read_text())
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    run(build, source, SOURCE_DATE_EPOCH=str(date))
    assert (tmp_path / WHEEL).read_bytes() == wheel.read_bytes()


def test_the_context_of_the_image_has_what_its_dockerfile_copies(releases: dict[str, Path]) -> None:
    with tarfile.open(releases["first"] / f"keywright-image-{__version__}.tar.gz") as archive:
        names = archive.getnames()
    sent = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    wanted = [line[1:] for line in sent if line.startswith("!")]
    assert wanted
    assert sorted(names) == sorted({*tracked(*wanted), *(one for one in release.IMAGE if "deploy" in one)})


def test_what_is_not_committed_is_not_released(tmp_path: Path) -> None:
    for name in tracked("tools"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    run(["git", "init", "--quiet"], tmp_path)
    command = [sys.executable, "-m", "tools.release"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "A release contains what is committed, and this is not:\n?? tools/" in done.stderr
    assert not (tmp_path / "dist").exists()


def test_notes_are_what_the_changelog_has_about_the_version() -> None:
    changes = "# Changes\n\n## 1.1.0 (2027-02-01)\n\nNew.\n\n## 1.0.0 (2027-01-31)\n\n### Old\n\n- One.\n"
    notes, date = release.read_notes("1.0.0", changes)
    assert (notes, date) == ("# Keywright 1.0.0\n\n### Old\n\n- One.\n", 1_801_353_600)
    with pytest.raises(SystemExit, match=r"no heading `## 1\.2\.0 \(year-month-day\)`"):
        release.read_notes("1.2.0", changes)


def test_a_signature_is_checked_with_the_public_key(releases: dict[str, Path], tmp_path: Path) -> None:
    minisign, (public, secret) = program("minisign"), (tmp_path / "key.pub", tmp_path / "key")
    run([minisign, "-G", "-W", "-p", str(public), "-s", str(secret)], tmp_path)
    for name, folder in releases.items():
        (tmp_path / name).mkdir()
        shutil.copy(folder / release.SUMS, tmp_path / name)
        release.sign(tmp_path / name, str(secret))
    signed = tmp_path / "first" / release.SUMS
    check = [minisign, "-V", "-p", str(public), "-m", str(signed)]
    assert f"keywright {__version__}" in run(check, tmp_path)
    signature = f"{release.SUMS}.minisig"
    assert (tmp_path / "first" / signature).read_bytes() == (tmp_path / "second" / signature).read_bytes()
    signed.write_text(signed.read_text().replace("0", "1", 1))
    assert subprocess.run(check, check=False, capture_output=True).returncode == 1
    with pytest.raises(subprocess.CalledProcessError):
        release.sign(tmp_path / "second", str(tmp_path / "missing"))


# --- the wheel alone ------------------------------------------------------------------------------


def outside(folder: Path, **variables: str) -> dict[str, str]:
    """An environment in which nothing leads to this checkout."""
    kept = ("LANG", "PATH", "PIP_", "SSL_", "UV_")
    given = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    return {**given, "HOME": str(folder), **variables}


def call(command: list[str], folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=outside(folder, **variables), check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(releases: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program ``keywright`` in an environment into which pip has installed the wheel."""

    def make(folder: Path) -> None:
        folder.mkdir()
        call([sys.executable, "-m", "venv", "env"], folder)
        # Bytecode is made when it is needed.
        call(["env/bin/pip", "install", "--no-compile", str(releases["first"] / WHEEL)], folder)

    return make_once(tmp_path_factory, "installed", make) / "env" / "bin" / "keywright"


@contextmanager
def serving(installed: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """A server outside the checkout, for as long as the block runs: what it prints, and its URL."""
    port, log = free_port(), folder / "log"
    with log.open("wb") as output:
        command = [str(installed), "serve", "--demo=one", "--port", str(port)]
        process = subprocess.Popen(command, cwd=folder, env=outside(folder), stdout=output, stderr=output)
    try:
        wait_until(lambda: b"Ctrl-C stops" in log.read_bytes() or process.poll() is not None, "the server")
        yield log.read_text(), f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()


def test_the_wheel_alone_serves_the_first_activation_and_every_page(installed: Path, tmp_path: Path) -> None:
    with serving(installed, tmp_path) as (printed, url), httpx.Client(follow_redirects=True) as client:
        # As it is printed, to be pasted.
        (activate,) = re.findall(r"curl .*/v3/activate.*(?=; echo)", printed)
        assert '"is_new":true' in call(["sh", "-c", activate], tmp_path)
        documents = (
            "/",
            "/openapi/v2",
            "/openapi/v2.json",
            "/openapi/v3",
            "/openapi/v3.json",
            "/openapi/v3.yaml",
        )
        wrong = [path for path in documents if client.get(f"{url}{path}").status_code != 200]
        for path, language, word in (("/admin", "de", "Anmelden"), ("/portal", "fr", "Clé de licence")):
            page = client.get(f"{url}{path}", headers={"Accept-Language": language})
            files = re.findall(r'(?:href|src)="([^"]+\.(?:css|js|svg)[^"]*)"', page.text)
            wrong += [str(page.url)] if word not in page.text or not files else []
            wrong += [file for file in files if client.get(str(page.url.join(file))).status_code != 200]
        assert wrong == []


def test_the_wheel_alone_migrates_the_first_schema(installed: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    make_first(url_of(data))
    assert read_file_state(data / "keywright.db").revision == FIRST
    call([str(installed), "init", "--data-dir", str(data)], tmp_path, KEYWRIGHT_SECRET=SECRET.decode())
    assert read_file_state(data / "keywright.db").revision == HEAD


def test_the_commands_of_the_readme_install_a_release(releases: dict[str, Path], tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    named = set(re.findall(r"keywright-[\w-]*\d+\.\d+\.\d+[\w.-]*(?:whl|gz)", readme))
    assert {WHEEL, f"keywright-image-{__version__}.tar.gz"} <= named <= {*os.listdir(releases["first"])}
    (install,) = re.findall(r"^```sh\n(sha256sum .*?)^```$", readme, re.MULTILINE | re.DOTALL)
    other = install.replace("pipx install", "uv tool install")
    assert other.splitlines()[-1].removesuffix(f"./{WHEEL}") in readme
    folders = {name: str(tmp_path / name) for name in ("PIPX_HOME", "UV_TOOL_DIR", "UV_CACHE_DIR")}
    folders |= {"UV_PYTHON_DOWNLOADS": "never", "UV_PYTHON": str(Path(sys.executable).resolve())}
    for tool, script in {"pipx": install, "uv": other}.items():
        programs = tmp_path / tool
        folders |= dict.fromkeys(("UV_TOOL_BIN_DIR", "PIPX_BIN_DIR"), str(programs))
        path = f"{Path(python_program(tool)).parent}:/usr/bin:/bin"
        call(["sh", "-e", "-c", script], releases["first"], **folders, PATH=path, HOME=str(tmp_path))
        assert call([str(programs / "keywright"), "--version"], tmp_path) == f"keywright {__version__}\n"


def test_a_shop_moves_in_with_the_wheels(releases: dict[str, Path], tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    for name in (WHEEL, WHEEL.replace("keywright", "keywright_converter")):
        shutil.unpack_archive(releases["first"] / name, installed, "zip")
    # The modules that both need are here; without site, nothing leads back to the checkout.
    script = (
        f"import sys; sys.path[:0] = [{str(installed)!r}, {sysconfig.get_path('purelib')!r}]; "
        "import keywright_converter, keywright.cli; "
        f"assert keywright_converter.__file__.startswith({str(installed)!r}); "
        f"assert keywright.__file__.startswith({str(installed)!r}); keywright.cli.main()"
    )
    keywright = [sys.executable, "-I", "-S", "-c", script]
    call([*keywright, "init"], tmp_path)
    given = ["import", "lmfwc", str(shop.DUMP), "--defuse", str(shop.DEFUSE), "--secret", str(shop.SECRET)]
    assert "licenses: 22 new" in call([*keywright, *given, "--dry-run"], tmp_path)


# --- the image ------------------------------------------------------------------------------------


def test_hadolint_finds_nothing_in_the_dockerfile(tmp_path: Path) -> None:
    hadolint = [python_program("hadolint"), "--failure-threshold", "warning"]
    run([*hadolint, str(ROOT / "deploy" / "Dockerfile")], tmp_path)
    wrong = tmp_path / "Dockerfile"
    wrong.write_text("FROM debian\nRUN cd /tmp && sudo true\n")
    done = subprocess.run([*hadolint, str(wrong)], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "DL3006" in done.stdout
