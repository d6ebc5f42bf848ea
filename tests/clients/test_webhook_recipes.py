"""The recipes that verify deliveries, against a delivery that a server has sent."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from keywright.core.standard_webhooks import sign
from tests import forking
from tests.clients.test_servers import RECIPES
from tests.deploy.programs import program
from tests.receiver import Received, receiving
from tests.server import environment, running, wait_until

DATABASES = ("sqlite",)


@pytest.fixture(scope="module")
def delivery(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Received]:
    """A secret, and a delivery that was signed with it."""
    data_dir = tmp_path_factory.mktemp("server") / "data"
    with receiving() as receiver, running(data_dir, webhook_networks="127.0.0.0/8"):
        made = keywright(data_dir, "webhook", "add", receiver.url)
        keywright(data_dir, "license", "create", "--key", "KEY-0001-LONG-ENOUGH")
        wait_until(lambda: receiver.received, "the delivery")
    return made.split()[-1], receiver.received[0]


def keywright(data_dir: Path, *arguments: str) -> str:
    command = [forking.command(), *arguments, "--data-dir", str(data_dir)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment(webhook_networks="127.0.0.0/8")
    ).stdout


@pytest.mark.parametrize(
    "command",
    [("python3", "webhook.py"), ("node", "webhook.mjs"), ("php", "webhook.php"), ("go", "run", "webhook.go")],
    ids=["python", "javascript", "php", "go"],
)
def test_a_recipe_takes_a_delivery_and_refuses_every_other(
    command: Sequence[str], delivery: tuple[str, Received]
) -> None:
    secret, request = delivery
    id, timestamp, signature = (request.headers[f"webhook-{one}"] for one in ("id", "timestamp", "signature"))

    def verify(*arguments: str, body: bytes = request.body) -> tuple[int, str]:
        name, *rest = command
        done = subprocess.run(
            [program(name), *rest, *arguments], cwd=RECIPES, input=body, capture_output=True, check=False
        )
        return done.returncode, (done.stdout + done.stderr).decode()

    assert verify(secret, id, timestamp, signature) == (0, "license.created 1\n")
    assert verify(secret, id, timestamp, f"v1,AAAA {signature}")[0] == 0
    other = "whsec_" + "A" * 43 + "="
    for refused in (
        verify(other, id, timestamp, signature),
        verify(secret, "msg_1_999", timestamp, signature),
        verify(secret, id, str(int(timestamp) - 1), signature),
        verify(secret, id, timestamp, signature, body=request.body + b" "),
        verify(secret, id, timestamp, ""),
        verify(secret, id, timestamp, "v1,\u00e9"),
    ):
        assert refused[0] == 1
        assert "not signed with this secret" in refused[1]
    status, said = verify(secret, id, str(int(timestamp) - 600), signature)
    assert status == 1
    assert "too old" in said
    of_no_license = b'{"type":"webhook.tested","timestamp":"2026-11-23T08:54:00Z","data":{"license_id":null}}'
    status, said = verify(
        secret, id, timestamp, sign(id, int(timestamp), of_no_license, [secret]), body=of_no_license
    )
    assert (status, said.split()[0]) == (0, "webhook.tested")
