"""What holds over every sequence of commands, decisions of people, and moves of the clock."""

from datetime import datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from keywright.core.errors import LicenseExpired, LimitReached, NothingActive, Refusal
from keywright.licensing.activations import rules
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License, Status
from tests.makers import NOW, a_license, an_activation

LIMITS = st.none() | st.integers(1, 4)
# Moments close together, so that expiries are met to the second.
MOMENTS = st.integers(-3, 3).map(lambda days: NOW + timedelta(days=days))


class LicenseOverTime(RuleBasedStateMachine):
    """One license with its records; every step is what a command, a person or the clock may do."""

    license: License
    records: dict[str, Activation]
    now: datetime

    @initialize(limit=LIMITS, valid_for=st.none() | st.integers(0, 3))
    def sell(self, limit: int | None, valid_for: int | None) -> None:
        self.license = a_license(times_activated_max=limit, valid_for_days=valid_for)
        self.records = {}
        self.now = NOW

    @rule()
    def activate(self) -> None:
        before = self.license
        try:
            self.license = rules.activate(before, self.now)
        except Refusal as refusal:
            self.was_refused_rightly(refusal)
            return
        token = f"{len(self.records):040}"
        self.records[token] = an_activation(id=len(self.records), token=token, created_at=self.now)
        self.rose_rightly(before)

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def reactivate(self, data: st.DataObject) -> None:
        record = self.records[data.draw(st.sampled_from(sorted(self.records)))]
        before = self.license
        try:
            self.license, self.records[record.token] = rules.reactivate(before, record, self.now)
        except Refusal as refusal:
            if record.deactivated_at is not None:
                self.was_refused_rightly(refusal)
            return
        assert record.deactivated_at is not None
        self.rose_rightly(before)

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def deactivate(self, data: st.DataObject) -> None:
        record = self.records[data.draw(st.sampled_from(sorted(self.records)))]
        before = self.license
        try:
            self.license, self.records[record.token] = rules.deactivate(before, record, self.now)
        except Refusal:
            assert record.deactivated_at is not None
            return
        assert self.license.times_activated == before.times_activated - 1

    @rule()
    def deactivate_all(self) -> None:
        try:
            self.license, ended = rules.deactivate_all(self.license, self.records.values(), self.now)
        except NothingActive:
            assert self.license.times_activated == 0
            return
        self.records |= {one.token: one for one in ended}
        assert self.license.times_activated == 0

    @rule(limit=LIMITS)
    def change_the_limit(self, limit: int | None) -> None:
        self.license = replace(self.license, times_activated_max=limit)

    @rule(status=st.sampled_from(Status))
    def change_the_status(self, status: Status) -> None:
        self.license = replace(self.license, status=status)

    @rule(expires_at=st.none() | MOMENTS)
    def change_the_expiry(self, expires_at: datetime | None) -> None:
        self.license = replace(self.license, expires_at=expires_at)

    @rule(now=MOMENTS)
    def move_the_clock(self, now: datetime) -> None:
        self.now = now

    def rose_rightly(self, before: License) -> None:
        """The license was usable, had a free place, and took exactly one."""
        after = self.license
        assert after.times_activated == before.times_activated + 1
        assert before.times_activated_max is None or after.times_activated <= before.times_activated_max
        assert before.status not in (Status.INACTIVE, Status.DISABLED)
        assert before.expires_at is None or self.now < before.expires_at
        if before.expires_at is not None or before.valid_for_days is None:
            assert after.expires_at == before.expires_at
        else:
            assert after.expires_at == self.now + timedelta(days=before.valid_for_days)

    def was_refused_rightly(self, refusal: Refusal) -> None:
        """Each refusal of a place has its reason."""
        license = self.license
        if isinstance(refusal, LicenseExpired):
            assert license.expires_at is not None
            assert license.expires_at <= self.now
        elif isinstance(refusal, LimitReached):
            assert license.times_activated_max is not None
            assert license.times_activated >= license.times_activated_max
        else:
            assert license.status in (Status.INACTIVE, Status.DISABLED)

    @invariant()
    def the_counter_is_the_number_of_active_records(self) -> None:
        active = [one for one in self.records.values() if one.deactivated_at is None]
        assert self.license.times_activated == len(active)

    @invariant()
    def validation_reports_exactly_the_active_tokens(self) -> None:
        for token, record in self.records.items():
            try:
                assert rules.validate(self.records.values(), token) == (record,)
            except Refusal:
                assert record.deactivated_at is not None


TestLicenseOverTime = LicenseOverTime.TestCase
TestLicenseOverTime.settings = settings(max_examples=150, stateful_step_count=40)
