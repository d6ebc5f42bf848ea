"""What holds over every sequence of calls for places and leases, changes of terms, and moves of the clock."""

from datetime import datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from keywright.core.errors import LimitReached, NoFreeLease, Refusal, TooManyNewDevices
from keywright.licensing.activations.devices import activate_device, deactivate_device
from keywright.licensing.activations.model import Activation, Device, KnownRecords, PlaceChange, SeenDevice
from keywright.licensing.activations.sites import SITE, find_moved, is_uncounted, parse_site
from keywright.licensing.leases import rules
from keywright.licensing.leases.model import HeldLeases, Lease, Leased
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import License, State, Status
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import merge_terms, to_text
from tests.makers import NOW, a_lease, a_license, an_activation

FINGERPRINTS = st.sampled_from(["one", "two", "three", "four"])
#: Addresses of five sites: two on one host, and three that the terms may not count.
SITES = st.sampled_from(
    [
        *("https://example.com/", "http://www.Example.com:8080", "example.com", "https://example.com/shop/"),
        *("https://münchen.test", "//xn--mnchen-3ya.test/?a=b", "localhost:8888", "staging.example.com"),
    ]
)
HOLDERS = st.sampled_from(["alice", "bob", "charlie"])
#: The records of the devices that leases are held on.
PLACES = st.sampled_from([None, 1])
BUILDS = st.none() | st.sampled_from([NOW - timedelta(days=9), NOW + timedelta(days=9)])
PATCHES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "max_activations": st.none() | st.integers(1, 3),
        "uncounted_hosts": st.sampled_from([[], ["*.test"], ["*.test", "localhost", "staging.*"]]),
        "max_uncounted": st.integers(0, 2),
        "grace_days": st.integers(0, 2),
        "after_expiry": st.sampled_from(["refuse", "allow", "older_versions"]),
        "device": st.sampled_from(["optional", "required"]),
        "new_devices": st.none() | st.builds(dict, count=st.integers(1, 2), per_days=st.integers(1, 2)),
        "valid_for_days": st.none() | st.integers(1, 3),
        "starts": st.sampled_from(["creation", "first_activation"]),
    },
)


class DevicesOverTime(RuleBasedStateMachine):
    """One license with its activations; every step is what a device, a vendor or the clock may do."""

    license: License
    terms: Terms
    records: dict[str, Activation]
    seen: list[SeenDevice]
    now: datetime

    @initialize(patch=PATCHES)
    def sell(self, patch: dict[str, Any]) -> None:
        self.license, self.terms = a_license(), Terms()
        self.records, self.seen, self.now = {}, [], NOW
        self.change_the_terms(patch)
        self.license = replace(self.license, expires_at=license_rules.expiry_of_new(self.terms, NOW))

    def find(self, fingerprint: str | None) -> Activation | None:
        found = [one for one in self.records.values() if one.fingerprint == fingerprint]
        assert fingerprint is None or len(found) <= 1
        return found[0] if fingerprint and found else None

    @rule(
        fingerprint=st.none() | FINGERPRINTS,
        replaces=st.none() | FINGERPRINTS,
        token=st.integers(0, 9),
        built_at=BUILDS,
    )
    def activate(
        self, fingerprint: str | None, replaces: str | None, token: int, built_at: datetime | None
    ) -> None:
        self.place(fingerprint, replaces, token, built_at, is_site=False)

    @rule(address=SITES, is_site=st.sampled_from([True, True, True, False]))
    def activate_site(self, address: str, is_site: bool) -> None:
        fingerprint = f"{SITE}{parse_site(address)}"
        is_over, held = (
            license_rules.is_over_limit(self.license),
            find_moved(self.records.values(), fingerprint),
        )
        refusal = self.place(fingerprint, None, -1, None, is_site=is_site)
        if is_site and held is not None and not is_over:
            assert not isinstance(refusal, LimitReached), "a site moves within its host"

    def place(
        self,
        fingerprint: str | None,
        replaces: str | None,
        token: int,
        built_at: datetime | None,
        *,
        is_site: bool,
    ) -> Refusal | None:
        own = self.find(fingerprint) or self.records.get(f"{token:040}")
        if own is not None and fingerprint is not None and own.fingerprint not in (None, fingerprint):
            own = None
        known, before = KnownRecords(own, self.find(replaces)), self.license
        try:
            placement = activate_device(
                before,
                Device(fingerprint),
                known,
                seen=self.seen,
                built_at=built_at,
                now=self.now,
                find_room=lambda: find_moved(self.records.values(), fingerprint) if is_site else None,
                is_site=is_site,
            )
        except Refusal as refusal:
            self.was_refused_rightly(refusal, known, is_site=is_site)
            return refusal
        self.license, record = placement.license, placement.activation
        if placement.change is PlaceChange.NEW:
            assert own is None
            token = len(self.records)
            record = an_activation(
                id=token, token=f"{token:040}", fingerprint=fingerprint, is_counted=placement.is_counted
            )
        assert record is not None
        for one in filter(None, (placement.released, record)):
            self.records[one.token] = one
        if placement.is_new_device:
            self.seen.append(SeenDevice(self.now, fingerprint or record.token))
            self.new_devices_are_as_few_as_the_terms_say()
        assert record.deactivated_at is None
        assert license_rules.state(before, self.now) not in (State.DISABLED, State.INACTIVE)
        if self.license.times_activated > before.times_activated:
            limit = before.times_activated_max
            assert limit is None or self.license.times_activated <= limit
        if self.license.uncounted_count > before.uncounted_count:
            assert is_site
            assert is_uncounted(self.terms, fingerprint)
            assert self.license.uncounted_count <= self.terms.max_uncounted
        return None

    def was_refused_rightly(self, refusal: Refusal, known: KnownRecords, *, is_site: bool) -> None:
        if isinstance(refusal, LimitReached):
            assert self.license.times_activated_max is not None
            assert self.license.times_activated >= self.license.times_activated_max
            own = known.own
            assert own is None or own.deactivated_at is not None or not (own.is_counted or is_site)
        if isinstance(refusal, TooManyNewDevices):
            assert refusal.retry_after_seconds > 0
            assert known.own is None

    def new_devices_are_as_few_as_the_terms_say(self) -> None:
        allowance = self.terms.new_devices
        assert allowance is not None
        since = self.now - timedelta(days=allowance.per_days)
        assert len([one for one in self.seen if one.seen_at > since]) <= allowance.count

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def deactivate(self, data: st.DataObject) -> None:
        record = self.records[data.draw(st.sampled_from(sorted(self.records)))]
        before = self.license.times_activated
        self.license, ended, was_active = deactivate_device(self.license, record, self.now)
        self.records[record.token] = ended
        assert self.license.times_activated == before - (was_active and record.is_counted)

    @rule(patch=PATCHES)
    def change_the_terms(self, patch: dict[str, Any]) -> None:
        self.terms = merge_terms(self.terms, patch)
        self.license = replace(
            self.license,
            terms=to_text(self.terms),
            times_activated_max=self.terms.max_activations,
            valid_for_days=self.terms.valid_for_days,
        )

    @rule(status=st.sampled_from(Status))
    def change_the_status(self, status: Status) -> None:
        self.license = replace(self.license, status=status)

    @rule(days=st.none() | st.integers(-2, 2))
    def change_the_expiry(self, days: int | None) -> None:
        expires_at = None if days is None else self.now + timedelta(days=days)
        self.license = replace(self.license, expires_at=expires_at)

    @rule(number=st.integers(1, 9))
    def rotate_the_key(self, number: int) -> None:
        self.license = replace(self.license, key=f"KEY-{number}")

    @rule(seconds=st.sampled_from([1, 9, 10, 300, 600, 86_400, 200_000]))
    def let_time_pass(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @invariant()
    def the_terms_are_those_of_the_license(self) -> None:
        assert license_rules.terms_of(self.license) == self.terms

    @invariant()
    def the_counters_are_the_numbers_of_records(self) -> None:
        active = [one for one in self.records.values() if one.deactivated_at is None]
        assert self.license.times_activated == sum(one.is_counted for one in active)
        assert self.license.uncounted_count == sum(not one.is_counted for one in active)
        assert self.license.deactivated_count == len(self.records) - len(active)

    @invariant()
    def a_device_has_one_record_and_one_place(self) -> None:
        fingerprints = [one.fingerprint for one in self.records.values() if one.fingerprint is not None]
        assert len(fingerprints) == len(set(fingerprints))


class LeasesOverTime(RuleBasedStateMachine):
    """One floating license with its leases; every step is what a holder, a vendor or the clock may do."""

    leases: dict[str, Lease]
    count: int
    taken: int
    terms: Terms
    now: datetime

    @initialize()
    def sell(self) -> None:
        self.leases, self.count, self.taken = {}, 0, 0
        self.terms, self.now = Terms(max_leases=2), NOW

    def end_over(self) -> HeldLeases:
        """The first step of every call."""
        ended = rules.end_over(self.leases.values(), self.now)
        self.leases |= {one.lease_id: one for one in ended}
        self.count -= len(ended)
        held = [one for one in self.leases.values() if one.ended_at is None]
        assert not any(rules.is_over(one, self.now) for one in held)
        return HeldLeases(self.count, min((one.expires_at for one in held), default=None))

    def find_current(self, holder: str, place: int | None) -> Lease | None:
        found = [one for one in self.leases.values() if (one.holder, one.activation_id) == (holder, place)]
        return next((one for one in found if one.ended_at is None), None)

    @rule(holder=HOLDERS, place=PLACES, seconds=st.none() | st.integers(1, 700))
    def take(self, holder: str, place: int | None, seconds: int | None) -> None:
        held, current = self.end_over(), self.find_current(holder, place)
        self.taken += 1
        new = a_lease(lease_id=f"{self.taken:032}", holder=holder, activation_id=place, renewed_at=self.now)
        try:
            taken = rules.take(new, current, held, self.terms, seconds)
        except NoFreeLease as refusal:
            assert current is None
            self.was_refused_rightly(refusal)
            return
        assert taken.is_new is (current is None)
        self.save(taken)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        held = self.end_over()
        lease = self.leases[data.draw(st.sampled_from(sorted(self.leases)))]
        current = self.find_current(lease.holder, lease.activation_id)
        try:
            renewed = rules.renew(lease, current, held, self.terms, seconds=None, now=self.now)
        except NoFreeLease as refusal:
            assert lease.ended_at is not None
            self.was_refused_rightly(refusal)
            return
        assert renewed.was_lost is (lease.ended_at is not None)
        self.save(renewed)

    def save(self, leased: Leased) -> None:
        lease, limit = leased.lease, self.terms.max_leases
        assert limit is not None
        assert leased.count <= max(self.count, limit)
        assert self.now < lease.expires_at <= self.now + timedelta(seconds=self.terms.lease_seconds)
        assert self.now <= rules.renew_at(lease) < lease.expires_at
        self.leases[lease.lease_id], self.count = lease, leased.count

    def was_refused_rightly(self, refusal: NoFreeLease) -> None:
        assert self.terms.max_leases is not None
        assert self.count >= self.terms.max_leases
        next_end = min(one.expires_at for one in self.leases.values() if one.ended_at is None)
        assert self.now + timedelta(seconds=refusal.retry_after_seconds) == next_end

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease = self.leases.pop(data.draw(st.sampled_from(sorted(self.leases))))
        self.count = rules.release(lease, self.count)

    @rule(max_leases=st.integers(1, 3), lease_seconds=st.sampled_from([10, 600]))
    def change_the_terms(self, max_leases: int, lease_seconds: int) -> None:
        self.terms = Terms(max_leases=max_leases, lease_seconds=lease_seconds)

    @rule(seconds=st.sampled_from([1, 9, 10, 300, 600]))
    def let_time_pass(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @invariant()
    def the_counter_is_the_number_of_leases_without_an_end(self) -> None:
        assert self.count == len([one for one in self.leases.values() if one.ended_at is None])

    @invariant()
    def a_holder_has_one_lease_on_a_device(self) -> None:
        held = [one for one in self.leases.values() if not rules.is_over(one, self.now)]
        assert len(held) == len({(one.holder, one.activation_id) for one in held})


TestDevicesOverTime = DevicesOverTime.TestCase
TestLeasesOverTime = LeasesOverTime.TestCase
TestDevicesOverTime.settings = TestLeasesOverTime.settings = settings(
    max_examples=300, stateful_step_count=40
)
