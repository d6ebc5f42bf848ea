"""Each fault that stops a vendor's business, made on purpose: the metrics show it, its rule fires within its
time and no other does, and the doctor and the overview say the same. ``promtool`` evaluates the rules over
what the address of the metrics says, without waiting.
"""

import asyncio
import json
import re
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from math import isnan
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import httpx
import psycopg
import pytest
import yaml  # type: ignore[import-untyped]
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from keywright.background.clock import ClockGuard
from keywright.background.deliveries import Deliveries
from keywright.background.queue import working
from keywright.background.watching import probe
from keywright.config import Settings
from keywright.core.command import Context
from keywright.core.crypto import KeyRing
from keywright.core.errors import KeywrightError
from keywright.db import Storage, open_storage, run_read, run_write
from keywright.delivery.mail import store as mail_store
from keywright.engine.desk import Desk
from keywright.events.model import MailState, MailTemplate, QueuedMail
from keywright.events.outbox_store import queue_mail
from keywright.http.admin.sections.overview import _TROUBLES
from keywright.http.metrics import Metrics, serving
from keywright.maintenance import clock, rotation, watched
from keywright.maintenance.backup import note_backup
from keywright.maintenance.tasks import BelieveClock
from keywright.registry import open_executor
from keywright.search.statistics import ProjectEvents
from tests.connections import a_sale, an_event, connect, do, store, work
from tests.databases import a_postgres_url, execute, postgres
from tests.deploy.programs import program
from tests.deploy.proxies import DEPLOY
from tests.faults.disks import a_disk
from tests.http.test_webhooks_delivered import ALLOWED, until
from tests.makers import KEY_RING, SECRET, an_origin, create, create_endpoint, create_policy
from tests.receiver import Reply, receiving
from tools.postgres import free_port

RULES_FILE = DEPLOY / "prometheus" / "alerts.yaml"
RULES: dict[str, dict[str, Any]] = {
    one["alert"]: one for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for one in group["rules"]
}
RUNBOOKS = DEPLOY.parent / "docs" / "runbooks"
_UNITS = {"m": 1, "h": 60}
HOUR = timedelta(hours=1)
Result = TypeVar("Result")


class Installation:
    """An installation on PostgreSQL, whose metrics are served as a server serves them."""

    def __init__(self, url: str, data_dir: Path) -> None:
        self.url = url
        self.settings = Settings(data_dir=data_dir, database_url=url)
        self.storage: Storage = open_storage(url, KEY_RING)
        self.executor = open_executor(self.storage)
        self.connections: list[psycopg.Connection[Any]] = []
        self.now = datetime.now(UTC).replace(microsecond=0)
        note_backup(url, KEY_RING, self.now)

    def context(self, age: timedelta = timedelta()) -> Context:
        return Context(self.now - age, an_origin())

    def do(self, command: Any, age: timedelta = timedelta()) -> Any:
        """Give a command, as long ago as that."""
        return do(self.executor, replace(command, context=self.context(age)))

    def sql(self, statement: str) -> None:
        execute(self.url, statement)

    def settle(self) -> None:
        """Let the search know everything, as it does while a server runs."""
        while not do(self.executor, ProjectEvents(context=self.context(), limit=500)).lag.is_complete:
            pass

    def with_desk(self, run: Callable[[Desk], Awaitable[Result]]) -> Result:
        """Run this with a desk, as a server does."""

        async def serve() -> Result:
            desk = Desk(open_executor(self.storage), most_waiting=100)
            try:
                return await run(desk)
            finally:
                await desk.close()

        return asyncio.run(serve())

    def scrape(self) -> str:
        """What is served at the metrics' address."""
        metrics, port = Metrics(), free_port()

        async def serve(desk: Desk) -> str:
            guard = ClockGuard(desk)
            with suppress(KeywrightError):
                await guard.look()
            metrics.watch(desk, self.storage)
            metrics.watch_clock(guard.is_right)
            with serving(metrics, self.storage, self.settings, "127.0.0.1", [port]):
                async with httpx.AsyncClient() as client:
                    return (await client.get(f"http://127.0.0.1:{port}/metrics")).text

        return self.with_desk(serve)

    def find_troubles(self) -> set[str]:
        """What the doctor and the overview say."""

        def read(tx: Any) -> set[str]:
            is_writable = not self.storage.watch.writing.is_on
            found = watched.watch(tx, self.settings, self.now, is_writable=is_writable)
            doubt = {"clock"} if [*clock.list_clock_warnings(tx, self.now)] else set()
            return {one.gauge for one in found if one.is_bad} | doubt

        return run_read(self.storage, read)


# --- the faults -----------------------------------------------------------------------------------


def fail_a_webhook(here: Installation) -> None:
    """A receiver that fails, for two hours."""

    async def run(desk: Desk) -> None:
        with receiving(lambda _: Reply(500)) as receiver:
            async with working(desk) as queue:
                queue.add(Deliveries(desk, queue, allowed=ALLOWED))
                await desk.execute(replace(create_endpoint(receiver.url, "*"), context=here.context()))
                await desk.execute(replace(create("A"), context=here.context()))
                await until(lambda: receiver.received)

    here.with_desk(run)
    here.settle()
    here.sql("UPDATE webhook_deliveries SET created_at = created_at - 7200")


def sell_what_is_unknown(here: Installation) -> None:
    """A sale of a product that no mapping names."""
    here.do(create_policy())
    connect(here.executor)
    row_id = store(here.executor, an_event(a_sale(product="unknown")), now=here.now)
    assert row_id is not None
    work(here.executor, row_id)
    here.settle()


def lose_a_shop(here: Installation) -> None:
    """A sale whose shop has not answered for two hours."""
    here.do(create_policy())
    connect(here.executor)
    store(here.executor, an_event(a_sale()), now=here.now - 2 * HOUR)
    here.settle()


def queue(here: Installation, age: timedelta, **changes: Any) -> None:
    mail = QueuedMail(template=MailTemplate.EXPIRED, unique="one", customer_id=7)
    run_write(here.storage, lambda tx: queue_mail(tx, mail, here.now - age))
    [queued] = run_read(here.storage, lambda tx: mail_store.list_of_customer(tx, 7, limit=1))
    run_write(here.storage, lambda tx: mail_store.save_mail(tx, replace(queued, **changes)))


def keep_a_mail(here: Installation) -> None:
    queue(here, 2 * HOUR, error="421 try later")


def refuse_a_mail(here: Installation) -> None:
    queue(here, HOUR, state=MailState.FAILED, error="550 no such user", finished_at=here.now)


def make_no_backup(here: Installation) -> None:
    note_backup(here.url, KEY_RING, here.now - 30 * HOUR)


def set_a_clock(here: Installation) -> None:
    """A clock that was believed is 400 days behind since."""
    do(here.executor, BelieveClock(context=here.context(timedelta(days=-400))))


def stop_the_search(here: Installation) -> None:
    """No server has projected an event for an hour."""
    here.do(create("A"), HOUR)


def keep_a_transaction_open(here: Installation) -> None:
    """An event was written five minutes ago, and its transaction has not ended; another's has since."""
    here.settle()
    here.connections.append(psycopg.connect(here.url))
    here.connections[0].execute(
        "INSERT INTO events (occurred_at, name, license_id, actor, ip_address) VALUES (0, 'x', 0, 'x', '')"
    )
    here.do(create("A"), timedelta(minutes=5))


def upgrade_half(here: Installation) -> None:
    """A newer version has migrated the database; this server still works with it."""
    here.sql("UPDATE alembic_version SET version_num = '9999'")


def rotate_half(here: Installation) -> None:
    """A rotation that was begun."""
    new = KeyRing(b"another secret, thirty-two bytes", SECRET)
    here.storage.close()
    rotation.begin(here.url, new, lambda: new)
    here.storage = open_storage(here.url, new)


def take_no_change(here: Installation) -> None:
    """The database may only be read."""
    name = here.url.rpartition("/")[2]
    here.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    # Sessions that are open go on as they were.
    here.storage.close()
    here.with_desk(lambda desk: probe(desk, here.storage.watch.writing))


#: Of each fault: how it is made, its alert, the gauge (the name of what the overview says), and the labels of
#: the alert beside its severity.
FAULTS: list[tuple[Callable[[Installation], None], str, str, dict[str, str]]] = [
    (fail_a_webhook, "KeywrightWebhookLate", "webhook_oldest_seconds", {"endpoint": "1"}),
    (sell_what_is_unknown, "KeywrightSalesWait", "shop_events_unmatched", {"connection": "1"}),
    (lose_a_shop, "KeywrightSalesLate", "shop_event_oldest_seconds", {"connection": "1"}),
    (keep_a_mail, "KeywrightMailLate", "mail_oldest_seconds", {}),
    (refuse_a_mail, "KeywrightMailRefused", "mails_refused", {}),
    (make_no_backup, "KeywrightBackupOld", "backup_age_seconds", {}),
    (take_no_change, "KeywrightReadOnly", "writable", {}),
    (set_a_clock, "KeywrightClock", "clock", {}),
    (stop_the_search, "KeywrightSearchLate", "search_lag_seconds", {}),
    (keep_a_transaction_open, "KeywrightFeedLate", "feed_lag_seconds", {}),
    (upgrade_half, "KeywrightUpgradePending", "upgrade_pending", {}),
    (rotate_half, "KeywrightRotationPending", "rotation_pending", {}),
]


# --- what the metrics say, and what the rules make of it ------------------------------------------


class Scene(NamedTuple):
    """What the metrics say in a fault, and what the doctor and the overview do; the alert that is to fire,
    and labels that it has.
    """

    name: str
    metrics: str
    troubles: set[str]
    alert: str | None = None
    labels: Mapping[str, str] = MappingProxyType({})

    @property
    def series(self) -> list[dict[str, str]]:
        """Each sample as a series that stays as it is until the slowest rule is over."""
        still = f"+0x{max(minutes(rule['for']) for rule in RULES.values())}"
        found = [{"series": 'up{job="keywright",instance="one"}', "values": f"1{still}"}]
        for family in text_string_to_metric_families(self.metrics):
            for one in family.samples:
                labels = {**one.labels, "job": "keywright", "instance": "one"}
                written = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
                if one.name.startswith("keywright_") and not isnan(one.value):
                    found.append({"series": f"{one.name}{{{written}}}", "values": f"{one.value:.3f}{still}"})
        return found

    def as_test(self) -> dict[str, Any]:
        """For promtool: at its time the alert fires, a minute before it does not, and no other does ever."""
        tests = []
        for name, rule in RULES.items():
            at = minutes(rule["for"])
            labels = {"severity": rule["labels"]["severity"], **self.labels}
            if name == "KeywrightDiskLow":
                labels["instance"] = "one"
            firing = {"exp_labels": labels, "exp_annotations": rule["annotations"]}
            tests.append(
                {"eval_time": f"{at}m", "alertname": name, "exp_alerts": [firing] * (name == self.alert)}
            )
            tests.append({"eval_time": f"{at - 1}m", "alertname": name, "exp_alerts": []})
        return {"name": self.name, "interval": "1m", "input_series": self.series, "alert_rule_test": tests}


def minutes(text: str) -> int:
    return int(text[:-1]) * _UNITS[text[-1]]


@contextmanager
def an_installation(folder: Path, url: str | None = None) -> Iterator[Installation]:
    with ExitStack() as stack:
        here = Installation(url or stack.enter_context(a_postgres_url()), folder)
        # It may be another one by then.
        stack.callback(lambda: here.storage.close())  # noqa: PLW0108
        yield here
        for one in here.connections:
            one.close()


def make_scenes(folder: Path) -> Iterator[Scene]:
    with an_installation(folder) as here:
        here.do(create("A"))
        here.settle()
        yield Scene("all is well", here.scrape(), here.find_troubles())
    for make, alert, trouble, labels in FAULTS:
        with an_installation(folder) as here:
            make(here)
            yield Scene(trouble, here.scrape(), here.find_troubles(), alert, labels)
    with a_disk(folder / "disk") as disk, an_installation(disk.folder) as here:
        yield Scene("data_free_bytes", here.scrape(), here.find_troubles(), "KeywrightDiskLow")
    with behind_tls(folder, 400) as url, an_installation(folder, url) as here:
        yield Scene("all is well, over TLS", here.scrape(), here.find_troubles())
    with behind_tls(folder, 5) as url, an_installation(folder, url) as here:
        yield Scene("certificate_seconds", here.scrape(), here.find_troubles(), "KeywrightCertificate")


@contextmanager
def behind_tls(folder: Path, days: int) -> Iterator[str]:
    """A database behind TLS, as PostgreSQL begins it; the certificate ends after so many days. The server of
    these tests has none itself.
    """
    certificate, key = write_certificate(folder, days)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            # The request for TLS, and the answer that there is.
            assert self.request.recv(8) == struct.pack("!ii", 8, 80877103)
            self.request.sendall(b"S")
            with (
                suppress(OSError),
                context.wrap_socket(self.request, server_side=True) as client,
                socket.create_connection(("127.0.0.1", postgres().port)) as server,
            ):
                back = threading.Thread(target=pump, args=(server, client))
                back.start()
                pump(client, server)
                back.join()

    with a_postgres_url() as url, ThreadingTCPServer(("127.0.0.1", 0), Handler) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever).start()
        at = f"127.0.0.1:{proxy.server_address[1]}"
        secure = url.replace(f"127.0.0.1:{postgres().port}", at)
        try:
            yield f"{secure}?sslmode=verify-ca&sslrootcert={certificate}"
        finally:
            proxy.shutdown()


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes, until one side ends."""
    with suppress(OSError):
        while some := source.recv(65536):
            target.sendall(some)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def write_certificate(folder: Path, days: int) -> tuple[Path, Path]:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    files = (folder / f"{days}.crt", folder / f"{days}.key")
    plain = serialization.NoEncryption()
    pem, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    for file, content in zip(
        files, (certificate.public_bytes(pem), key.private_bytes(pem, kind, plain)), strict=True
    ):
        file.write_bytes(content)
    return files


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> list[Scene]:
    program("promtool")
    return [*make_scenes(tmp_path_factory.mktemp("scenes"))]


def run_promtool(scenes: list[Scene], folder: Path) -> "subprocess.CompletedProcess[str]":
    file = folder / "tests.yaml"
    tests = {
        "rule_files": [str(RULES_FILE)],
        "evaluation_interval": "1m",
        "tests": [one.as_test() for one in scenes],
    }
    file.write_text(json.dumps(tests))
    command = [program("promtool"), "test", "rules", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_of_each_fault_its_alert_fires_within_its_time_and_no_other(
    scenes: list[Scene], tmp_path: Path
) -> None:
    done = run_promtool(scenes, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    fired = {one.alert for one in scenes if one.alert is not None}
    print(f"faults made: {sum(one.alert is not None for one in scenes)}, alerts fired in time: {len(fired)}")
    assert len(fired) == len(FAULTS) + 2


def test_an_alert_that_does_not_fire_or_fires_without_a_fault_is_found_out(
    scenes: list[Scene], tmp_path: Path
) -> None:
    well, fault = scenes[0], scenes[1]
    assert run_promtool([fault._replace(metrics=well.metrics)], tmp_path).returncode != 0
    assert run_promtool([well._replace(metrics=fault.metrics)], tmp_path).returncode != 0


def test_the_doctor_and_the_overview_say_the_same(scenes: list[Scene]) -> None:
    said = {one.name: one.troubles for one in scenes if one.alert is not None}
    assert said == {name: {name} for name in said}
    # A customer who asks to be erased is for people, not for an alert.
    assert said.keys() | {"erasure"} == _TROUBLES.keys()
    assert [one.troubles for one in scenes if one.alert is None] == [set(), set()]
    assert watched.GAUGES.keys() | {"clock", "erasure"} == _TROUBLES.keys()


def test_every_rule_has_a_severity_and_a_page_that_says_what_to_do() -> None:
    assert {rule["labels"]["severity"] for rule in RULES.values()} == {"critical", "warning", "info"}
    index = (RUNBOOKS / "README.md").read_text()
    for name, rule in RULES.items():
        page = (RUNBOOKS / f"{name}.md").read_text()
        severity, wait = rule["labels"]["severity"], rule["for"]
        summary = rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"] == f"docs/runbooks/{name}.md"
        assert page.startswith(f"# {name}\n\n**{summary}** Severity: {severity}; after {wait}.\n")
        assert re.findall(r"^## .*$", page, re.MULTILINE) == [
            "## What it means",
            "## Where to look",
            "## What to do",
        ]
        assert f"| [{name}]({name}.md) | {severity} | {summary} |" in index
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == {*RULES, "README"}


def test_promtool_takes_the_rules() -> None:
    done = subprocess.run(
        [program("promtool"), "check", "rules", str(RULES_FILE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"SUCCESS: {len(RULES)} rules found" in done.stdout
