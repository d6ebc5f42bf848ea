"""Terms in words and as short texts."""

import pytest

from keywright.http.terms_in_words import describe_terms, format_seconds
from keywright.licensing.terms.model import (
    AfterExpiry,
    Allowance,
    DeviceRule,
    Meter,
    Overage,
    Period,
    Starts,
    Terms,
    Transferable,
    WhenFull,
    parse_allowance,
    parse_meter,
)


def test_the_usual_terms_are_two_parts() -> None:
    assert describe_terms(Terms()) == ["any number of devices", "no expiry"]


def test_terms_that_differ_are_named() -> None:
    terms = Terms(
        max_activations=1,
        valid_for_days=365,
        starts=Starts.FIRST_ACTIVATION,
        grace_days=14,
        after_expiry=AfterExpiry.OLDER_VERSIONS,
        device=DeviceRule.REQUIRED,
        max_leases=5,
        offline_days=0,
        next_check_seconds=90,
        portal_removals=Allowance(0, 1),
        new_devices=Allowance(3, 30),
        entitlements=("pro", "export"),
        meters={"exports": Meter(1000, Period.MONTH, Overage.ALLOW)},
        trial=True,
        claimable=True,
        transferable=Transferable.ONCE,
        transfer_after_days=1,
        when_full=WhenFull.REPLACE_UNSEEN,
        unseen_days=90,
        devices_visible=True,
    )
    assert describe_terms(terms) == [
        "1 device",
        "5 at the same time, for 10 minutes each",
        "365 days from the first activation",
        "14 days of grace",
        "valid for versions built before expiry",
        "a fingerprint is required",
        "never offline",
        "next check after 90 seconds",
        "new devices: 3 in 30 days",
        "removals in the portal: none",
        "a new device replaces one unseen for 90 days",
        "the program shows the devices of a full license",
        "entitlements: pro, export",
        "exports: 1,000 per month, more is allowed",
        "a trial: one per device",
        "can be claimed with its key",
        "can be transferred once, after 1 day",
    ]


def test_other_rules_have_other_words() -> None:
    terms = Terms(
        valid_for_days=1, after_expiry=AfterExpiry.ALLOW, offline_days=30, transferable=Transferable.ALWAYS
    )
    assert describe_terms(terms)[1:] == [
        "1 day from creation",
        "stays valid after expiry",
        "30 days offline",
        "can be transferred after 30 days",
    ]


@pytest.mark.parametrize(("seconds", "words"), [(1, "1 second"), (7_200, "2 hours"), (86_400, "1 day")])
def test_seconds_are_in_the_largest_unit_that_divides_them(seconds: int, words: str) -> None:
    assert format_seconds(seconds) == words


@pytest.mark.parametrize("text", ["exports=100/month", "minutes=9/license:allow"])
def test_a_meter_is_written_as_it_is_read(text: str) -> None:
    name, members = parse_meter(text)
    meter = Meter(members["limit"], Period(members["per"]), Overage(members.get("overage", "refuse")))
    ending = ":allow" if meter.overage is Overage.ALLOW else ""
    assert f"{name}={meter.limit}/{meter.per}{ending}" == text


def test_an_allowance_is_written_as_it_is_read() -> None:
    assert parse_allowance(" 3 / 30 ") == {"count": 3, "per_days": 30}


@pytest.mark.parametrize("text", ["", "exports", "exports=x/day", "exports=1/day:maybe", "=1/day"])
def test_another_text_is_no_meter(text: str) -> None:
    with pytest.raises(ValueError, match="must look like"):
        parse_meter(text)
    with pytest.raises(ValueError, match="must look like 3/30"):
        parse_allowance(text)
