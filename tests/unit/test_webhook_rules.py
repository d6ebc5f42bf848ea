"""Webhook deliveries: allowed addresses, times of attempts, and contents."""

import base64
import json
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from keywright.core.parsing import parse_retry_after
from keywright.core.standard_webhooks import new_secret, parse_secret, sign
from keywright.delivery.webhooks import rules
from keywright.delivery.webhooks.addresses import find_allowed, is_allowed, parse_target, parse_url
from keywright.delivery.webhooks.model import Attempt, Payload
from keywright.signing.jws import Signer, decode_base64url, new_private_key
from tests.makers import KEY, NOW, a_delivery, a_license, an_endpoint, an_event
from tests.tables import each_row

PUBLIC = ("8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8")
REFUSED = (
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"),  # noqa: S104
    *("169.254.169.254", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"),
    *("::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "3fff::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:10.0.0.1", "::10.0.0.1"),
    *("64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:1::1", "100::1", "5f00::1"),
)


@each_row("address", REFUSED)
def test_every_other_address_is_refused(address: str) -> None:
    assert not is_allowed(ip_address(address), ())


def test_public_addresses_are_allowed_and_private_networks_of_the_setting() -> None:
    assert [one for one in PUBLIC if not is_allowed(ip_address(one), ())] == []
    allowed = (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
    assert is_allowed(ip_address("10.1.2.3"), allowed)
    assert is_allowed(ip_address("::ffff:10.1.2.3"), allowed)
    assert is_allowed(ip_address("fd00::7"), allowed)
    assert not is_allowed(ip_address("10.2.0.1"), allowed)


def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    assert find_allowed(["8.8.8.8", "2606:4700::1"], ()) == ["8.8.8.8", "2606:4700::1"]
    with pytest.raises(ValueError, match=r"127\.0\.0\.1 is not a public address"):
        find_allowed(["8.8.8.8", "127.0.0.1"], ())
    with pytest.raises(ValueError, match="fe80::1%eth0"):
        find_allowed(["fe80::1%eth0"], ())


@each_row(
    "url",
    [
        *("ftp://example.com", "https://", "https:///path", "example.com", "//example.com", ""),
        *("https://user:pw@example.com/", "https://example.com/#part", "https://example.com:0/"),
        *("https://example.com:99999/", "https://exa mple.com/", "https://example.com/\n", "https://[::1/"),
        *("http://example.com/", "http://10.0.0.1/", "https://ex\\ample.com/", "https://münchen.example/"),
        "https://example.com/" + "a" * 2000,
    ],
)
def test_urls_that_cannot_be_endpoints_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"must|is not a public address"):
        parse_url(url, ())


def test_http_and_private_addresses_are_for_networks_that_are_allowed() -> None:
    allowed = (ip_network("127.0.0.0/8"), ip_network("::1"), ip_network("10.0.0.0/8"))
    for url in (
        *("http://localhost:9000/x", "http://127.0.0.1/", "http://[::1]:80/", "http://a.localhost/"),
        *("https://localhost/", "https://10.0.0.1/", "http://10.1.2.3/x"),
    ):
        assert parse_url(url, allowed) == url
        with pytest.raises(ValueError, match="the setting webhook_networks can allow it"):
            parse_url(url, ())
    for url in ("http://8.8.8.8/", "http://example.com/"):
        with pytest.raises(ValueError, match="must begin with https"):
            parse_url(url, allowed)
    assert parse_url("https://8.8.8.8/", ()) == "https://8.8.8.8/"


def test_the_parts_of_a_url_are_what_is_sent() -> None:
    target = parse_target("https://Example.com:8443/in?token=1")
    assert target == (True, "example.com", 8443, "/in?token=1", "Example.com:8443")
    assert parse_target("https://example.com").path == "/"


def failed(**fields: Any) -> Attempt:
    usual: dict[str, Any] = {"delivery_id": 1, "status": 500, "answer": "", "duration_ms": 1}
    return Attempt(**usual | fields)


def test_attempts_follow_the_schedule_and_then_come_every_day() -> None:
    pauses = [rules.pause_after(n, failed(), 0.0).total_seconds() for n in range(1, 12)]
    assert pauses == [5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400, 86400, 86400]
    assert rules.pause_after(2, failed(), 1.0) == timedelta(seconds=330)


def test_retry_after_is_obeyed_within_a_day() -> None:
    assert rules.pause_after(1, failed(retry_after_seconds=120), 0.0) == timedelta(minutes=2)
    assert rules.pause_after(3, failed(retry_after_seconds=120), 0.0) == timedelta(minutes=30)
    assert rules.pause_after(1, failed(retry_after_seconds=10**8), 0.0) == timedelta(hours=24)
    now = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
    assert parse_retry_after("120", now) == 120
    assert parse_retry_after("9" * 30, now) == 86_400
    assert parse_retry_after("Mon, 23 Nov 2026 06:10:00 GMT", now) == 600
    assert parse_retry_after("Mon, 23 Nov 2020 06:10:00 GMT", now) == 0
    assert parse_retry_after("soon", now) is None


def test_an_endpoint_is_told_of_the_events_that_it_names() -> None:
    endpoint = an_endpoint(events=("license.*", "job.started"))
    told = ("license.created", "job.started")
    not_told = ("job.finished", "licenses.created", "user.created")
    assert all(rules.is_notified_of(endpoint, an_event(name=one)) for one in told)
    assert not any(rules.is_notified_of(endpoint, an_event(name=one)) for one in not_told)
    assert rules.is_notified_of(an_endpoint(events=("*",)), an_event(name="user.created"))
    # A test event is delivered only to the tested endpoint.
    test = an_event(name="webhook.tested", details={"endpoint_id": 1})
    assert rules.is_notified_of(an_endpoint(id=1, events=("license.*",)), test)
    assert not rules.is_notified_of(an_endpoint(id=2, events=("*",)), test)


@each_row("text", ["license", "license.", "License.*", "license.*.x", "*.*", "a" * 41 + ".b", ""])
def test_what_is_no_event_type_is_refused_and_a_doubled_one_is_named_once(text: str) -> None:
    with pytest.raises(ValueError, match="must be an event type"):
        rules.parse_event_type(text)
    assert rules.normalize_events(["a.*", "b.c", "a.*"]) == ["a.*", "b.c"]
    with pytest.raises(ValueError, match="at least one"):
        rules.normalize_events([])


def test_an_independent_library_verifies_signatures() -> None:
    secret, body, now = new_secret(), b'{"type":"license.created"}', datetime.now(UTC)
    signature = sign("msg_1_2", int(now.timestamp()), body, [new_secret(), secret])
    headers = {
        "webhook-id": "msg_1_2",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }
    assert Webhook(secret).verify(body, headers) == {"type": "license.created"}
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body + b" ", headers)


def test_the_signing_key_signs_the_same_bytes() -> None:
    signer = Signer(new_private_key(), "EdDSA")
    signature = sign("msg_1_2", 7, b"{}", [], signer.sign_bytes)
    public = Ed25519PublicKey.from_public_bytes(decode_base64url(signer.public_key.encode()))
    public.verify(base64.b64decode(signature.removeprefix("v1a,")), b"msg_1_2.7.{}")


def test_secrets_of_elsewhere_are_taken_if_they_are_long_enough() -> None:
    secret = new_secret()
    assert parse_secret(secret) == secret
    for text in ("whsec_", "whsec_AAAA", "whsec_!!!!", secret.removeprefix("whsec_"), "whsec_" + "A" * 400):
        with pytest.raises(ValueError, match="must be whsec_"):
            parse_secret(text)


def body(payload: Payload = Payload.FULL, license: Any = None, **fields: Any) -> bytes:
    event = an_event(license_id=1, **fields)
    shown = None if license is None else rules.show_license(license, NOW)
    return rules.write_body(7, event, shown, payload)


def test_a_full_payload_says_the_license_with_its_key_masked() -> None:
    text = body(license=a_license(id=1, product_id=5), name="license.created")
    told = json.loads(text)
    assert told["type"] == "license.created"
    assert told["data"]["license"]["product_id"] == 5
    assert KEY.encode() not in text
    assert "ip_address" not in text.decode()


def test_a_thin_payload_says_numbers_alone() -> None:
    told = json.loads(body(Payload.THIN, license=a_license(id=1), details={"key": "…1234"}))
    assert told["data"] == {"event_id": 7, "subject": {"type": "license", "id": 1}, "license_id": 1}


def test_a_body_is_smaller_than_20_kb() -> None:
    large = a_license(id=1, metadata=json.dumps({"note": "x" * 16_000}))
    assert json.loads(body(license=large))["data"]["license"]["metadata"]["note"]
    told = json.loads(body(license=large, details={"changes": "y" * 10_000}))
    assert told["data"]["license"]["metadata"] is None
    assert told["data"]["details"]["changes"]
    assert len(body(license=large, details={"changes": "y" * 30_000})) < rules.MAX_BODY


@each_row(
    ("url", "shown"),
    [
        ("https://example.com", "https://example.com"),
        ("https://example.com:8443/hooks", "https://example.com:8443/hooks"),
        ("https://example.com/services/T0/s3cret", "https://example.com/service…"),
        ("https://example.com/hooks?token=s3cret", "https://example.com/hooks…"),
        ("HTTPS://example.com?token=s3cret", "https://example.com…"),
    ],
)
def test_an_endpoint_is_named_to_people_without_its_secrets(url: str, shown: str) -> None:
    assert rules.short_url(url) == shown
    assert rules.hide_path("https://example.com/hooks/secret?token=1") == "https://example.com"


def test_the_id_of_a_message_is_the_same_for_every_attempt() -> None:
    assert a_delivery(endpoint_id=3, event_id=9).message_id == "msg_3_9"
