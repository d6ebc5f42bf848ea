"""The documents are right: their commands run, their settings can be read, their links lead somewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keywright.config.sources import read_settings
from keywright.db import find_unverified_hosts
from tests import forking
from tests.deploy import programs
from tests.server import RunningServer, environment, running, wait_until
from tools import reference

pytestmark = pytest.mark.tier("ordinary")

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DATABASE = re.compile(r"postgresql://[^\s\"'`@]*@[^\s\"'`]+")
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def blocks(document: Path, kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall(document.read_text()) if found == kind]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running(tmp_path / "keywright-data") as started:
        yield started


def run(server: RunningServer, block: str) -> str:
    """Run a block of shell commands in the folder where the server was started; return what it prints."""
    script = block.replace(".venv/bin/keywright", forking.command()).replace("python3", sys.executable)
    script = script.replace("http://127.0.0.1:8000", server.base_url)
    script = script.replace("clients/python", str(ROOT / "clients" / "python"))
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        check=False,
        cwd=server.data_dir.parent,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_the_first_activation_of_the_readme_runs_as_written(server: RunningServer) -> None:
    _, section = (ROOT / "README.md").read_text().split("\n## The first activation\n")
    commands = [text for kind, text in BLOCK.findall(section) if kind == "sh"]
    printed = "".join(run(server, one) for one in commands)
    assert '"is_new":true' in printed
    assert '"valid":true' in printed
    assert '"success":true' in printed
    assert '"success":false' not in printed
    assert "consumer_secret" in printed or "cs_" in printed


@pytest.mark.tier("rest")
def test_the_tutorial_ends_with_a_licensed_program(server: RunningServer) -> None:
    tutorial = ROOT / "docs" / "tutorial" / "first-licensed-program.md"
    (program,) = blocks(tutorial, "python")
    lines = [line for line in program.splitlines() if line.strip()]
    assert len(lines) <= 40
    (server.data_dir.parent / "hello.py").write_text(
        program.replace("http://127.0.0.1:8000", server.base_url)
    )
    commands = [one for one in blocks(tutorial, "sh") if "make " not in one]
    *online, offline = commands
    _sell, first, again, show, full, freed, expired = (run(server, one) for one in online)
    assert first.startswith("Hello! This copy is licensed until 20")
    assert again == first
    assert "hello" in show
    assert "License Key: ALICE-0001 reached maximum activation count." in full
    assert "as it should be" in full
    assert "Hello!" in freed
    said = [line for line in expired.splitlines() if line.startswith(("as it", "Hello", "This license"))]
    assert [line.split(" at ")[0] for line in sorted(said)] == [
        "Hello! This copy is licensed until 2035-01-31 00:00:00.",
        "This license expired",
        "This license is disabled.",
        "as it should be",
        "as it should be",
    ]
    server.stop()
    assert "cannot be reached" in (away := run(server, offline))
    assert "Hello!" in away


@pytest.mark.tier("rest")
def test_the_tutorial_of_v3_ends_with_a_program_for_a_device_and_one_for_a_team(
    server: RunningServer,
) -> None:
    tutorial = ROOT / "docs" / "tutorial" / "license-by-device.md"
    names, folder = ("shop.py", "hello.py", "team.py", "fake.py"), server.data_dir.parent
    for name, program in zip(names, blocks(tutorial, "python"), strict=True):
        assert len([line for line in program.splitlines() if line.strip()]) <= 50
        here = program.replace("http://127.0.0.1:8000", server.base_url).replace("8000", str(server.port))
        (folder / name).write_text(here)
    commands = [one for one in blocks(tutorial, "sh") if "make " not in one]
    *online, at_once, offline, cheating = commands
    _key, sold, _copied, first, full, chosen, freed, expired, filed, in_turn = (
        run(server, one) for one in online
    )
    hello = "Hello! This device is one of 2.\n"
    assert sold.startswith("HELLO-ALICE is valid until 20")
    assert first == hello * 2
    said = re.compile(r"^[a-z_]+(?=:)|^Hello|^Please renew|^as", re.MULTILINE)
    assert said.findall(full) == ["Hello", "as", "as", "limit_reached", "not_activated"]
    assert re.findall(r"^\d: [a-z]+-device", full, re.MULTILINE) == ["1: first-device", "2: second-device"]
    assert full.count("Without a network, it may run until 20") == 2
    # Two steps: the list above, and the choice.
    assert chosen == hello
    assert said.findall(freed)[-3:] == ["Hello", "Hello", "not_activated"]
    assert said.findall(expired) == ["Please renew", "Hello", "as", "as", "Hello", "expired", "disabled"]
    assert hello in filed
    assert '"valid": true' in filed
    assert in_turn == "Anna works\nBen works\n"
    assert run(server, at_once).startswith("no_free_lease: All 1 lease")
    server.stop()
    assert "cannot be reached" in (away := run(server, offline))
    assert "The last answer lasts until 20" in away
    assert hello in away
    assert said.findall(run(server, cheating))[-3:] == ["not_activated", "not_activated", "tampered"]


def test_the_settings_in_the_documents_can_be_read(tmp_path: Path) -> None:
    found = [one for document in DOCUMENTS for one in blocks(document, "toml")]
    assert found
    for text in found:
        file = tmp_path / "keywright.toml"
        file.write_text(text)
        read_settings({}, file)


def test_every_database_in_the_documents_and_in_deploy_is_reached_with_verified_tls() -> None:
    files = (
        *(ROOT / "docs" / "how-to").glob("*.md"),
        *(one for one in (ROOT / "deploy").rglob("*") if one.is_file()),
    )
    found = [url for file in files for url in DATABASE.findall(file.read_text())]
    assert found
    # "postgres" is in a network inside the machine, and its page says so.
    assert [url for url in found if find_unverified_hosts(url) not in ([], ["postgres"])] == []


def test_every_link_between_documents_leads_to_a_file_and_a_heading() -> None:
    assert [broken for document in DOCUMENTS for broken in find_broken_links(document)] == []


def test_the_index_has_every_page() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text(encoding="utf-8")
    folders = ("tutorial", "how-to", "explanation", "reference")
    pages = [str(one.relative_to(docs)) for folder in folders for one in (docs / folder).glob("*.md")]
    assert [one for one in pages if f"({one})" not in index] == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One heading, two\n[a](page.md#one-heading-two) [b](#two) [c](other.md) [d](http://x/#y)\n"
    )
    assert list(find_broken_links(page)) == ["page.md: #two", "page.md: other.md#"]


def find_broken_links(document: Path) -> Iterator[str]:
    for target, anchor in LINK.findall(document.read_text()):
        if "://" in target:
            continue
        file = document.parent / target if target else document
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield f"{document.name}: {target}#{anchor}"


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings."""
    headings = (re.sub(r"\]\([^)]*\)", "", one).lower() for one in HEADING.findall(document.read_text()))
    return {re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", reference.PAGES)
def test_the_reference_is_what_the_code_says(page: str) -> None:
    written = (reference.REFERENCE / page).read_text()
    assert written == reference.PAGES[page](), "run `python -m tools.reference`"


@pytest.mark.tier("rest")
def test_licenses_are_brought_as_the_page_says(server: RunningServer) -> None:
    page = ROOT / "docs" / "how-to" / "import-your-licenses.md"
    table, mended, moved = (run(server, one) for one in blocks(page, "sh"))
    assert table.count("licenses: 2 new, 1 left out") == 2
    assert "licenses: 1 new" in mended
    assert "3 of 3 licenses" in mended
    assert "licenses: 3 new" in moved


@pytest.mark.tier("rest")
def test_a_shop_of_ones_own_sells_as_the_page_says(server: RunningServer) -> None:
    programs.program("openssl")
    made, sold, looked, bundled, named, unmatched = blocks(
        ROOT / "docs" / "how-to" / "connect-your-own-shop.md", "sh"
    )
    run(server, made)
    assert '{"received":true}' in run(server, sold)
    assert '{"received":true}' in run(server, sold)
    wait_until(lambda: server.count("licenses"), "the license")
    listed = run(server, looked)
    assert "order.paid" in listed
    assert "done" in listed
    assert server.count("licenses") == 1
    assert server.sql("SELECT template FROM mail_outbox") == [("your_license",)]
    assert "suite=1+2" in run(server, bundled)
    assert "campaign" in run(server, named)
    assert "order.paid" not in run(server, unmatched)
