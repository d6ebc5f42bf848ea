"""The how-to pages about databases and the files in deploy/ are right: their commands run."""

import json
import os
import re
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml  # type: ignore[import-untyped]
from psycopg.conninfo import conninfo_to_dict

from drill import patroni
from drill.places import Place, Ports
from keywright.config.sources import read_settings
from tests import forking
from tests.databases import a_postgres_url
from tests.deploy.programs import program
from tests.deploy.proxies import DEPLOY
from tests.docs.test_documents import DOCUMENTS, ROOT, blocks
from tests.makers import SECRET, url_of
from tests.server import environment, running, wait_until
from tests.storage.test_first_release import assert_kept, make_used, rows_of_file
from tools import postgres

HOW_TO = ROOT / "docs" / "how-to"
_OF_THE_URL = "passfile=/etc/keywright/pgpass&sslmode=verify-full&sslrootcert=/etc/keywright/ca.pem"


def shell(script: str, folder: Path, **more: str) -> str:
    """Run a block of commands, and return what it prints."""
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        check=False,
        cwd=folder,
        env={**environment(), **more},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


class PostgresPage:
    """docs/how-to/use-postgresql.md, with a local server instead of db.example.com."""

    def __init__(self, server: postgres.PostgresServer, folder: Path) -> None:
        page = HOW_TO / "use-postgresql.md"
        self.folder = folder
        self.server = server
        # The server's administrator is called keywright already.
        self.sql = "".join(blocks(page, "sql")).replace("E keywright L", "E seller L")
        self.sql = self.sql.replace("OWNER keywright", "OWNER seller")
        self.config = folder / "etc" / "keywright.toml"
        self.settings = self._here(blocks(page, "toml")[0])
        self.commands = [self._here(one) for one in blocks(page, "sh")]
        self.config.parent.mkdir()

    def command(self, word: str) -> str:
        """Return the one block with this word."""
        (found,) = [one for one in self.commands if word in one]
        return found

    def _here(self, text: str) -> str:
        for there, here in {
            "db.example.com": f"127.0.0.1:{self.server.port}",
            "keywright@": "seller@",
            f"?{_OF_THE_URL}": "",
            "/etc/keywright/": f"{self.folder}/etc/",
            "/var/lib/keywright": f"{self.folder}/data",
            "/backup/": f"{self.folder}/",
            "sudo -u keywright ": "",
            # In place of the file in /etc, which is not changed yet when the page copies a database.
            ".venv/bin/keywright": f"env KEYWRIGHT_CONFIG={self.config} {forking.command()}",
            f"env KEYWRIGHT_CONFIG={self.config} {forking.command()} copy": f"{forking.command()} copy",
        }.items():
            text = text.replace(there, here)
        return text


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresPage]:
    with postgres.running(**postgres.FAST) as server:
        page = PostgresPage(server, tmp_path_factory.mktemp("page"))
        with psycopg.connect(server.url("postgres"), autocommit=True) as administrator:
            for statement in page.sql.split(";\n"):
                administrator.execute(statement.encode())
        yield page


def test_the_postgresql_page_runs_from_its_first_command_to_its_last(page: PostgresPage) -> None:
    with psycopg.connect(page.server.url("postgres"), autocommit=True) as administrator:
        administrator.execute("CREATE DATABASE restored OWNER seller")
    page.config.write_text(page.settings)
    assert "127.0.0.1" in shell(page.command(" init"), page.folder)
    old = f"--data-dir {page.folder}/data"
    sell = f"{forking.command()} license create --key MOVED-1 --max 3 {old}"
    shell(sell, page.folder)
    shell(page.command(" copy "), page.folder)
    assert_serves(page, page.command(" serve "))
    tools = {"PATH": f"{postgres.binaries()}:{os.environ['PATH']}"}
    url = conninfo_to_dict(tomllib.loads(page.settings)["database_url"])
    restored = f"postgresql://seller@127.0.0.1:{url['port']}/restored"
    shell(page.command(" backup "), page.folder, **tools)
    said = shell(f"{page.command(' restore ').strip()} --database-url {restored}", page.folder, **tools)
    assert "no problems found" in said
    shown = shell(f"{forking.command()} license show MOVED-1 {old} --database-url {restored}", page.folder)
    assert "1 of 3" in shown


def assert_serves(page: PostgresPage, command: str) -> None:
    """Start the server as the page says, but on a free port, and activate a license."""
    log = page.folder / "log"
    with log.open("wb") as output:
        words = [*command.split(), "--port", "0"]
        process = subprocess.Popen(words, cwd=page.folder, env=environment(), stdout=output, stderr=output)
    try:
        wait_until(lambda: " is ready at " in log.read_text(), "the server")
        taken = f"{forking.command()} license activate MOVED-1 --config {page.config}"
        shell(taken, page.folder)
        with psycopg.connect(page.server.url("postgres")) as asking:
            question = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'keywright'"
            found = asking.execute(question).fetchone()
        assert found is not None
        # Four processes: each at most three for calls, and four for what goes on beside them.
        assert 4 <= found[0] <= 4 * (3 + 4)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_the_role_of_the_page_may_do_nothing_else(page: PostgresPage) -> None:
    with psycopg.connect(page.server.url("postgres")) as administrator:
        rights = "rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls"
        query = f"SELECT {rights} FROM pg_roles WHERE rolname = 'seller'"  # noqa: S608
        assert administrator.execute(query).fetchone() == (False,) * 5


def test_libpq_takes_every_database_url_of_the_documents() -> None:
    found = [tomllib.loads(text) for document in DOCUMENTS for text in blocks(document, "toml")]
    urls = [
        value for one in found for name, value in one.items() if name in ("database_url", "read_database_url")
    ]
    assert len(urls) >= 5
    for url in urls:
        assert conninfo_to_dict(url)["dbname"] == "keywright"


def test_the_cluster_of_the_page_is_the_one_that_is_drilled() -> None:
    (text,) = blocks(HOW_TO / "use-a-patroni-cluster.md", "yaml")
    advised = yaml.safe_load(text)
    place = Place("one", "127.0.0.1", "127.0.0.1", "127.0.0.1", Ports(1, 2, 3, 4))
    drilled = json.loads(patroni.configuration(place, [], "/", synchronous=True))["bootstrap"]["dcs"]
    parameters = advised["postgresql"].pop("parameters")
    assert parameters.items() <= drilled["postgresql"].pop("parameters").items()
    assert advised == drilled
    assert advised["loop_wait"] + 2 * advised["retry_timeout"] <= advised["ttl"]


# --- the files in deploy/ -------------------------------------------------------------------------


def test_every_file_to_deploy_is_explained_on_a_page() -> None:
    pages = "".join(page.read_text() for page in HOW_TO.glob("*.md"))
    files = {file.name for file in DEPLOY.iterdir() if file.is_file()}
    assert {"nginx.conf", "haproxy.cfg", "Caddyfile", "keywright.service", "compose.yaml"} <= files
    for name in files - {".gitignore", "Dockerfile.dockerignore"}:
        assert f"deploy/{name}" in pages


def test_every_file_that_a_page_copies_is_there() -> None:
    commands = "".join(text for page in HOW_TO.glob("*.md") for text in blocks(page, "sh"))
    named = {word for word in commands.split() if word.startswith("deploy/")}
    there = {word for word in named if not word.startswith("deploy/secrets")}
    assert there
    assert all((ROOT / word).is_file() for word in there)


def test_what_a_page_shows_of_nginx_is_what_the_file_does() -> None:
    lines = {line.strip() for line in (DEPLOY / "nginx.conf").read_text().splitlines()}
    shown = [line.strip() for page in HOW_TO.glob("*.md") for text in blocks(page, "nginx")
             for line in text.splitlines()]  # fmt: skip
    own = [line for line in shown if line not in lines]
    assert own == ["location /wp-json/lmfwc/ {", "proxy_pass http://127.0.0.1:8000;"]


def test_the_secrets_of_the_containers_are_made_as_the_page_says(tmp_path: Path) -> None:
    program("openssl")
    (block,) = [one for one in blocks(HOW_TO / "run-in-containers.md", "sh") if "mkdir" in one]
    (tmp_path / "deploy").mkdir()
    made = [line for line in block.splitlines() if not line.startswith("sudo chown ")]
    shell("\n".join(made), tmp_path)
    secrets = tmp_path / "deploy" / "secrets"
    settings = read_settings({}, secrets / "keywright.toml")
    assert settings.secret is not None
    url = conninfo_to_dict(settings.database_url or "")
    assert url["password"] == (secrets / "postgres-password").read_text()
    assert (url["host"], url["user"], url["dbname"]) == ("postgres", "keywright", "keywright")
    assert all(file.stat().st_mode & 0o077 == 0 for file in secrets.iterdir())


def test_the_page_about_backups_runs_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    here = {
        "-o keywright -m 700 /backup\n": f"-m 700 {tmp_path}\n",
        "/backup/": f"{tmp_path}/",
        "sudo -u keywright ": "",
        ".venv/bin/keywright": forking.command(),
        "/etc/keywright/": f"{tmp_path}/",
        "/var/lib/keywright": f"{tmp_path}/data",
        "/tmp/trial": f"{tmp_path}/trial",
    }
    commands = "".join(blocks(HOW_TO / "back-up-and-restore.md", "sh"))
    for there, place in here.items():
        commands = commands.replace(there, place)
    (tmp_path / "keywright.toml").write_text(f'data_dir = "{tmp_path}/data"\n')
    shell(f"{forking.command()} license create --key KEPT --data-dir {tmp_path}/data", tmp_path)
    said = shell(commands, tmp_path)
    assert said.count(": no problems found.") == 2
    assert "keywright.tar is complete and unaltered" in said
    assert "The previous database is kept in" in said
    sums = re.findall(r"^[0-9a-f]{64}(?=  -$|$)", said, re.MULTILINE)
    assert len(sums) == 3
    assert sums[0] == sums[1]
    for place in ("data", "trial"):
        assert "KEPT" in shell(
            f"{forking.command()} license show KEPT --data-dir {tmp_path}/{place}", tmp_path
        )


def test_the_page_about_running_on_a_server_makes_a_backup(tmp_path: Path) -> None:
    (block,) = [one for one in blocks(HOW_TO / "run-on-a-server.md", "sh") if " backup " in one]
    block = block.replace("/etc/keywright/", f"{tmp_path}/").replace("/backup/", f"{tmp_path}/")
    block = block.replace("sudo -u keywright ", "").replace(".venv/bin/keywright", forking.command())
    (tmp_path / "keywright.toml").write_text(f'data_dir = "{tmp_path}/data"\n')
    shell(f"{forking.command()} init --data-dir {tmp_path}/data", tmp_path)
    assert "It does not include the secret" in shell(block, tmp_path)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_page_about_upgrades_leads_from_the_first_schema_and_back(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{postgres.binaries()}:{os.environ['PATH']}")
    data, secret = tmp_path / "data", SECRET.decode()
    data.mkdir(mode=0o700)
    is_file = kind == "sqlite"
    with nullcontext(url_of(data)) if is_file else a_postgres_url(empty=True) as url:
        before = make_used(url, tmp_path)
        settings = f'data_dir = "{data}"\nsecret = "{secret}"\ndatabase_url = "{url}"\n'
        (tmp_path / "keywright.toml").write_text(settings)
        commands = "".join(blocks(HOW_TO / "upgrade.md", "sh")).replace("/backup/", f"{tmp_path}/")
        commands = commands.replace("sudo -u keywright .venv/bin/keywright", forking.command())
        others = re.compile(r"(systemctl|git|make|cd|/opt/keywright/\.venv/bin/pip) ")
        backup, preview, init, doctor, *move, restore = (
            line for line in commands.splitlines() if not others.match(line)
        )
        shell(backup, tmp_path)
        looked = shell(preview, tmp_path)
        assert re.search(r"^  schema +0016\n  pending *\n +0017 \(", looked, re.MULTILINE)
        assert "Problem: " not in looked
        assert "migrated " in shell(init, tmp_path)
        assert "no problems found" in shell(doctor, tmp_path)
        assert_kept(before, url)
        assert "nothing: the schema is current" in shell(preview, tmp_path)
        with running(data, database_url=url, secret=secret) as server:
            answer = httpx.post(f"{server.base_url}/v3/validate", json={"license_key": "a"})
            assert (answer.status_code, answer.json()["license"]["activations"]) == (200, 3)
            shell(f"{forking.command()} license create --key SINCE", tmp_path)
        if is_file:
            (copy,) = (data / "backups").glob("keywright-schema-0016-*.db")
            shell(re.sub(r"keywright-schema-\S+\.db", copy.name, "\n".join(move)), data)
            assert rows_of_file(data / "keywright.db") == before
            # As above: the newer one is away.
            shell("\n".join(move[:-1]), data)
    with nullcontext(url) if is_file else a_postgres_url(empty=True) as empty:
        (tmp_path / "keywright.toml").write_text(settings.replace(url, empty))
        assert "no problems found" in shell(restore, tmp_path)
        # Mails that waited are held.
        assert_kept({name: rows for name, rows in before.items() if name != "mail_outbox"}, empty)
        assert json.loads(shell(f"{doctor} --json", tmp_path))["licenses"] == len(before["licenses"])


def test_the_page_about_keys_runs_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    here = f"--data-dir {tmp_path}/data"
    shell(f"{forking.command()} init {here}", tmp_path)

    def list_signing_keys() -> list[dict[str, str]]:
        keys: list[dict[str, str]] = json.loads(
            shell(f"{forking.command()} signing-key show --json {here}", tmp_path)
        )["keys"]
        return keys

    stolen = list_signing_keys()[0]["kid"]
    for command in "".join(blocks(HOW_TO / "manage-keys.md", "sh")).splitlines():
        shell(f"{command.replace('keywright', forking.command(), 1).replace('KID', stolen)} {here}", tmp_path)
    states = {one["kid"]: one["state"] for one in list_signing_keys()}
    assert states.pop(stolen) == "withdrawn"
    assert list(states.values()) == ["signs", "ended"]
    revoked = json.loads(shell(f"{forking.command()} apikey list --json {here}", tmp_path))
    assert [one["name"] for one in revoked if one["revoked_at"]] == ["reports"]
