"""Which addresses are the same site, and which sites take no place."""

from datetime import timedelta

import pytest

from keywright.core.errors import InvalidTerms, LimitReached
from keywright.licensing.activations import rules
from keywright.licensing.activations.devices import activate_device
from keywright.licensing.activations.model import (
    Activation,
    Device,
    KnownRecords,
    NamedProduct,
    PlaceChange,
    Placement,
)
from keywright.licensing.activations.sites import (
    SITE,
    Item,
    find_moved,
    host_of,
    is_uncounted,
    parse_site,
    site_of_agent,
)
from keywright.licensing.licenses.model import License
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import merge_terms
from tests.makers import LATER, NOW, a_deactivated_activation, a_license, a_license_with, an_activation

HOSTS = ("localhost", "*.test", "staging.*")
#: By site, its addresses.
SAME = {
    "example.com": (
        "example.com",
        "https://example.com",
        "http://www.example.com/",
        "HTTPS://WWW.Example.COM:8443",
        "//example.com//",
        "example.com.",
        "https://user:secret@example.com/?p=1#top",
        "https%3A%2F%2Fexample.com%2F",
        "https%253A%252F%252Fexample.com%252F",
        " https://example.com\r\n",
        "https:\\\\example.com\\",
    ),
    "example.com/shop/de": ("http://example.com/shop/de/", "www.example.com:80//Shop/./DE"),
    "xn--mnchen-3ya.de/wp": (
        "https://München.de/wp/",
        "xn--mnchen-3ya.de/wp",
        "https%3A%2F%2Fm%C3%BCnchen.de/wp",
    ),
    "xn--strae-oqa.de": ("https://straße.de", "XN--STRAE-OQA.DE"),
    "localhost": ("http://localhost:8888", "localhost"),
    "[::1]": ("http://[::1]:8080/",),
    "workstation-7": ("Workstation-7",),
}


def test_every_way_to_write_an_address_is_the_same_site() -> None:
    found = {address: parse_site(address) for some in SAME.values() for address in some}
    assert found == {address: site for site, some in SAME.items() for address in some}
    assert {parse_site(site) for site in SAME} == {*SAME}, "a site is its own address"
    assert parse_site("a.test/%252525") == "a.test/%25", "it is decoded twice, no more"


def test_nothing_is_no_site_and_a_long_one_stays_short_and_its_own() -> None:
    assert [parse_site(one) for one in ("", " ", "https://", "/", "?x", "%20", "\0")] == [None] * 7
    long = [parse_site(f"https://example.com/{'a' * 400}{end}") for end in "xy"]
    assert len({*long}) == 2
    assert all(one is not None and len(one) == 200 and one.startswith("example.com/aaa") for one in long)
    assert parse_site("https://ex\u2024ample\ud800.com") is not None


def test_the_address_in_a_user_agent_is_that_of_wordpress() -> None:
    assert site_of_agent("WordPress/6.8.1; https://example.com/shop") == "https://example.com/shop"
    assert [site_of_agent(one) for one in ("curl/8", "Mozilla/5.0 (X11; Linux)", "WordPress/6.8", "")] == [
        ""
    ] * 4


def test_a_site_takes_no_place_by_its_host_alone() -> None:
    terms = Terms(uncounted_hosts=HOSTS)
    uncounted = ("localhost", "localhost/a", "shop.test", "staging.example.com/x")
    counted = ("example.com/localhost", "test", "mystaging.com", "example.test.com", "localhost.example.com")
    assert [is_uncounted(terms, SITE + one) for one in uncounted] == [True] * len(uncounted)
    assert [is_uncounted(terms, SITE + one) for one in counted] == [False] * len(counted)
    assert not is_uncounted(terms, "localhost"), "no site, but another device"
    assert not is_uncounted(terms, None)
    assert (host_of("site:example.com/a/b"), host_of("device-1")) == ("example.com", None)


def site(place: str = "localhost", **fields: object) -> Activation:
    defaults = {"fingerprint": f"{SITE}{place}", "is_counted": False}
    return an_activation(**defaults | fields)


def activate(license: License, place: str, own: Activation | None = None, **fields: object) -> Placement:
    asked = {"built_at": None, "now": LATER, "is_site": True} | fields
    return activate_device(license, Device(SITE + place), KnownRecords(own), **asked)  # type: ignore[arg-type]


def a_full_license(**fields: object) -> License:
    terms = {"uncounted_hosts": list(HOSTS), "max_uncounted": 2}
    return a_license_with(terms, times_activated=1, times_activated_max=1, **fields)


def test_an_uncounted_site_takes_no_place_until_there_are_too_many() -> None:
    first = activate(a_full_license(), "localhost")
    assert (first.change, first.is_counted) == (PlaceChange.NEW, False)
    assert (first.license.times_activated, first.license.uncounted_count) == (1, 1)
    assert first.license.active_count == 2
    second = activate(first.license, "shop.test")
    assert second.license.uncounted_count == 2
    with pytest.raises(LimitReached):
        activate(second.license, "staging.example.com")
    with pytest.raises(LimitReached):
        activate(first.license, "example.com")
    more = activate(a_license_with({"uncounted_hosts": ["*.test"], "max_uncounted": 0}), "a.test")
    assert (more.is_counted, more.license.times_activated, more.license.uncounted_count) == (True, 1, 0)
    lowered = a_license_with({"uncounted_hosts": ["*.test"], "max_uncounted": 1}, uncounted_count=2)
    assert activate(lowered, "a.test").is_counted, "more than the terms allow by now"


def test_a_new_site_on_a_host_that_is_not_counted_is_no_new_device() -> None:
    terms = {"uncounted_hosts": ["localhost"], "new_devices": {"count": 1, "per_days": 30}}
    assert [activate(a_license_with(terms), one).is_new_device for one in ("localhost", "example.com")] == [
        False,
        True,
    ]


def test_what_was_decided_at_the_activation_stays_until_the_next_one() -> None:
    full = a_full_license(uncounted_count=1)
    kept = activate(full, "example.com", site("example.com"))
    assert (kept.change, kept.license) == (PlaceChange.KEPT, full), "the terms may have had other hosts then"
    given_up, ended = rules.deactivate(full, site("example.com"), LATER)
    assert (given_up.times_activated, given_up.uncounted_count, given_up.deactivated_count) == (1, 0, 1)
    with pytest.raises(LimitReached):
        activate(given_up, "example.com", ended)
    again = activate(given_up, "shop.test", a_deactivated_activation(fingerprint="site:shop.test"))
    assert again.activation is not None
    assert (again.change, again.activation.is_counted) == (PlaceChange.TAKEN_BACK, False)
    assert (again.license.times_activated, again.license.uncounted_count) == (1, 1)


def test_only_a_site_takes_no_place_another_program_with_its_name_takes_one() -> None:
    free = a_license_with({"uncounted_hosts": ["localhost"]}, times_activated_max=1)
    assert activate(free, "localhost", is_site=False).is_counted
    held = a_license_with({"uncounted_hosts": ["localhost"]}, times_activated_max=1, uncounted_count=1)
    counted = activate(held, "localhost", site(), is_site=False)
    assert counted.activation is not None
    assert (counted.change, counted.activation.is_counted) == (PlaceChange.TAKEN_BACK, True)
    assert (counted.license.times_activated, counted.license.uncounted_count) == (1, 0)
    assert counted.license.deactivated_count == 0
    assert (counted.license.updated_at, counted.activation.updated_at) == (LATER, LATER)
    with pytest.raises(LimitReached):
        activate(a_full_license(uncounted_count=1), "localhost", site(), is_site=False)
    # Nor does it take over the place that a site does not have.
    known = KnownRecords(None, site())
    with pytest.raises(LimitReached):
        activate_device(a_full_license(uncounted_count=1), Device("pc"), known, built_at=None, now=LATER)


def test_taking_back_over_v2_needs_a_place() -> None:
    ended = a_deactivated_activation(fingerprint="site:localhost", is_counted=False)
    license, back = rules.reactivate(a_license(times_activated_max=1, deactivated_count=1), ended, LATER)
    assert (license.times_activated, license.uncounted_count, back.is_counted) == (1, 0, True)
    with pytest.raises(LimitReached):
        rules.reactivate(a_full_license(), ended, LATER)


def test_giving_up_all_gives_up_the_uncounted_ones_too() -> None:
    license = a_license(times_activated=1, uncounted_count=2)
    after, ended = rules.deactivate_all(license, [site(), an_activation(id=2, token="b" * 40)], LATER)
    assert (after.times_activated, after.uncounted_count, after.deactivated_count) == (0, 0, 3)
    assert (after.active_count, after.record_count, len(ended)) == (0, 3, 2)
    only, _ = rules.deactivate_all(a_license(uncounted_count=1), [site()], LATER)
    assert only.record_count == 1


def test_a_site_that_moves_on_its_host_gives_its_place_the_oldest_first() -> None:
    old = site("example.com/blog", is_counted=True, created_at=NOW - timedelta(days=9))
    new = site("example.com/shop", is_counted=True)
    others = (
        site("example.com/free"),
        site("example.org", is_counted=True),
        site("sub.example.com", is_counted=True),
        a_deactivated_activation(fingerprint="site:example.com/gone"),
        an_activation(fingerprint="pc"),
    )
    assert find_moved([new, *others, old], "site:example.com") == old
    assert find_moved(others, "site:example.com") is None
    assert find_moved([old], "pc") is None
    full = a_license(times_activated=1, times_activated_max=1)
    moved = activate(full, "example.com", find_room=lambda: old)
    assert moved.released is not None
    assert (moved.change, moved.license.times_activated, moved.released.id) == (PlaceChange.NEW, 1, old.id)


def test_a_product_is_named_by_its_number_here_or_there_or_by_its_name() -> None:
    product = NamedProduct(17, "paint", "Paint & Draw", external_id="4711")
    fits = [
        Item("17"),
        Item("4711"),
        Item("paint"),
        Item(None, "Paint &amp; Draw"),
        Item(None, " PAINT & draw"),
        Item(None, "paint"),
        Item(),
    ]
    assert [one.fits(product) for one in fits] == [True] * len(fits)
    wrong = [Item("18"), Item(""), Item(None, "Paint"[:-1]), Item(None, ""), Item("18", "Paint & Draw")]
    assert [one.fits(product) for one in wrong] == [False] * len(wrong)
    assert not Item("None").fits(NamedProduct(17))
    assert Item(None, "").fits(NamedProduct(17)), "neither has a name"
    assert [one.fits(None) for one in (Item("17"), Item())] == [False, True]


def test_hosts_are_read_in_lower_case_and_wrong_ones_are_named() -> None:
    merged = merge_terms(Terms(), {"uncounted_hosts": [" LocalHost ", "*.test", "localhost", "[::1]"]})
    assert merged.uncounted_hosts == ("localhost", "*.test", "[::1]")
    wrong: dict[str, object] = {
        "no list": "localhost",
        "too many": [f"h{number}.test" for number in range(51)],
        "everything": ["*"],
        "many stars": ["*.*.*.*.test"],
        "no host": ["a b", 7, "", "münchen.de", "https://a.test"],
    }
    found, words = {}, set[str]()
    for name, hosts in wrong.items():
        with pytest.raises(InvalidTerms) as refusal:
            merge_terms(Terms(), {"uncounted_hosts": hosts})
        found[name] = [one.code for one in refusal.value.errors]
        words.update(one.detail for one in refusal.value.errors)
        assert {one.pointer[:22] for one in refusal.value.errors} == {"/terms/uncounted_hosts"}
    assert found == {
        "no list": ["wrong_type"],
        "too many": ["too_long"],
        "everything": ["invalid"],
        "many stars": ["invalid"],
        "no host": ["invalid"] * 5,
    }
    assert words == {
        "must be an array of hosts",
        "must have at most 50 hosts",
        "must be a host such as staging.example.com, localhost or *.test: letters, digits, '-', '.', and at "
        "most three '*'; other letters as punycode",
    }
