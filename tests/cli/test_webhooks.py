"""``keywright webhook …``"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests import forking
from tests.cli.conftest import Keywright
from tests.receiver import Receiver, receiving
from tests.server import RunningServer, environment, wait_until

DATABASES = ("sqlite",)

URL = "https://crm.example/s3cret"


@pytest.mark.smoke
def test_a_webhook_is_made_shown_changed_and_removed(keywright: Keywright) -> None:
    made = keywright.json("webhook", "add", URL, "--event", "license.*", "--description", "CRM")
    secret = made.pop("secret")
    assert secret.startswith("whsec_")
    assert keywright.json("webhook", "list") == [made]
    shown = keywright("webhook", "show", "1")
    assert URL in shown
    assert secret not in shown
    edited = keywright.json("webhook", "edit", "1", "--event", "job.*", "--disabled", "--payload", "thin")
    assert (edited["events"], edited["is_enabled"], edited["payload"]) == (["job.*"], False, "thin")
    assert "disabled (by hand)" in keywright("webhook", "show", "1")
    assert keywright.json("webhook", "edit", "1", "--enabled")["is_enabled"]
    rotated = keywright.json("webhook", "rotate-secret", "1")
    assert rotated["secret"] != secret
    keywright("webhook", "remove", "1", "--yes")
    assert keywright.json("webhook", "list") == []


def test_what_cannot_be_is_refused(keywright: Keywright) -> None:
    refused = keywright.refused("webhook", "add", "https://10.0.0.1/x", status=2)
    assert "webhook_networks can allow it" in refused
    assert "event type" in keywright.refused("webhook", "add", URL, "--event", "all", status=2)
    assert "there is no webhook 7" in keywright.refused("webhook", "show", "7")
    keywright("webhook", "add", URL)
    assert "either --delivery or --since" in keywright.refused("webhook", "resend", "1", status=2)
    assert "Nothing to change" in keywright.refused("webhook", "edit", "1", status=2)
    for command in (("edit", "1"), ("add", URL)):
        for types in (["none"], ["none", "job.*"], [""], ["all"]):
            options = [word for one in types for word in ("--event", one)]
            assert "'--event'" in keywright.refused("webhook", *command, *options, status=2)
    refused = keywright.refused(
        *("webhook", "listen", "--forward", "http://localhost:1", "--server", "http://localhost:1"), status=2
    )
    assert "needs --api-key" in refused


def test_nothing_is_claimed_to_be_sent_that_is_not(keywright: Keywright) -> None:
    keywright("webhook", "add", URL, "--disabled")
    for sending in (("test", "1"), ("resend", "1", "--since", "2h")):
        assert "is disabled: this is sent once it is enabled" in keywright("webhook", *sending)
    keywright("webhook", "edit", "1", "--enabled")
    for sending in (("test", "1"), ("resend", "1", "--since", "2h")):
        assert "disabled" not in keywright("webhook", *sending)
    refused = keywright.refused("webhook", "resend", "1", "--since", "9999-12-31", status=2)
    assert "'--since': must be in the past" in refused


def test_deliveries_are_listed_shown_and_sent_again(
    keywright: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYWRIGHT_WEBHOOK_NETWORKS", "127.0.0.0/8")
    with receiving() as receiver:
        keywright("webhook", "add", receiver.url)
        server = RunningServer(keywright.data_dir, webhook_networks="127.0.0.0/8")

        def wait_for(number: int) -> None:
            """What comes is written down a moment later; until then, it is not sent again."""
            wait_until(lambda: len(receiver.received) == number, f"delivery {number}")
            wait_until(
                lambda: not keywright.json("webhook", "deliveries", "1", "--state", "waiting"), "its end"
            )

        try:
            keywright("license", "create", "--key", "KEY-0001-LONG-ENOUGH")
            wait_for(1)
            keywright("webhook", "resend", "1", "--delivery", "1")
            wait_for(2)
            keywright("webhook", "resend", "1", "--since", "1h")
            wait_for(3)
            keywright("webhook", "test", "1")
            wait_for(4)
        finally:
            server.stop()
    assert receiver.received[3].json["type"] == "webhook.tested"
    (first, _) = keywright.json("webhook", "deliveries", "1")
    assert (first["type"], first["status"], first["answer"]) == ("license.created", 200, "ok")
    shown = keywright("webhook", "deliveries", "1", "--delivery", "1")
    assert "…OUGH" in shown
    assert "license.created" in keywright("webhook", "deliveries", "1")


@contextmanager
def listening(arguments: Sequence[str], **own: str) -> Iterator[subprocess.Popen[str]]:
    command = [forking.command(), "webhook", "listen", *arguments]
    given = {name: value for name, value in os.environ.items() if name.startswith("KEYWRIGHT_")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment() | given | own
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def read_secret(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().split()[-1]


def test_events_of_the_database_are_forwarded_to_a_developer(
    keywright: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as receiver:
        arguments = ("--forward", receiver.url, "--data-dir", str(keywright.data_dir))
        with listening(arguments) as process:
            secret = read_secret(process)
            keywright("license", "create", "--key", "KEY-0001-LONG-ENOUGH")
            assert process.stdout is not None
            assert "license.created  200" in process.stdout.readline()
    receiver.received[0].verify(secret)
    assert_as_delivered(keywright, receiver, monkeypatch)


def assert_as_delivered(keywright: Keywright, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer got is what the server delivers, but for the message's ID and signature."""
    monkeypatch.setenv("KEYWRIGHT_WEBHOOK_NETWORKS", "127.0.0.0/8")
    listened = next(one for one in receiver.received if one.json["type"] == "license.created")
    with receiving() as other:
        keywright("webhook", "add", other.url)
        keywright("webhook", "resend", "1", "--since", "1h")
        server = RunningServer(keywright.data_dir, webhook_networks="127.0.0.0/8")
        try:
            wait_until(lambda: [one for one in other.received if one.json["type"] == "license.created"], "it")
        finally:
            server.stop()
    delivered = next(one for one in other.received if one.json["type"] == "license.created")
    assert listened.json == delivered.json
    assert listened.json["data"]["license"]["key"] == "…OUGH"
    names = ("content-type", "user-agent")
    assert [listened.headers[one] for one in names] == [delivered.headers[one] for one in names]


def test_events_of_a_server_are_forwarded_to_a_developer(
    keywright: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = keywright.json("apikey", "create", "--name", "developer", "--permissions", "read")["token"]
    server = RunningServer(keywright.data_dir)
    try:
        with receiving() as receiver:
            arguments = ("--forward", receiver.url, "--server", server.base_url)
            with listening(arguments, KEYWRIGHT_API_KEY=token) as process:
                secret = read_secret(process)
                keywright("license", "create", "--key", "KEY-0001-LONG-ENOUGH")
                assert process.stdout is not None
                # The event of the API key may be the first one.
                assert any("license.created  200" in line for line in process.stdout)
            receiver.received[0].verify(secret)
    finally:
        server.stop()
    assert_as_delivered(keywright, receiver, monkeypatch)
