"""Whatever is asked over v2 and v3 of one license, the server answers what a small model answers."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.fuzzing.folders import a_folder
from tests.http import faulty, v3_model
from tests.http.asking import CANARY, Client, Json, Reply, core, license_path
from tests.http.v3_model import MAX_LEASES, MAX_USED, License, Refused
from tests.proving import IS_LONG, record, size
from tests.server import NO_LIMITS, RunningServer, running

RUNS, LENGTH = size(50, 5_000), 100 if IS_LONG else 30
AT_A_TIME = 250
PAST = "2020-01-01T00:00:00Z"
_TERMS = {
    "max_activations": 2,
    "max_leases": MAX_LEASES,
    "meters": {"pages": {"limit": MAX_USED, "per": "license", "overage": "refuse"}},
}


class Step(NamedTuple):
    """A call, with a device, a number, and whether the license's key before the last one is sent."""

    call: str
    device: str
    other: str | None
    number: int | None
    is_old_key: bool


#: What stands more often comes more often.
CALLS = (
    *["activate"] * 6,
    *["validate"] * 3,
    *["deactivate", "activate_v2", "reactivate_v2", "deactivate_v2"] * 2,
    *["deactivate_all_v2", "validate_v2", "take_lease", "release_lease", "use", "set_limit", "set_limit_v2"],
    *["expire", "disable", "rotate_key"],
)
DEVICES = st.sampled_from(["laptop", "laptop", "desktop", "tablet"]).map(lambda name: f"device-{name}")
STEPS = st.builds(
    Step,
    st.sampled_from(CALLS),
    DEVICES,
    st.none() | DEVICES,
    st.sampled_from([1, 1, 2, 2, 3, None]),
    st.sampled_from([False] * 9 + [True]),
)


class Diverged(AssertionError):
    """The server answers one thing, the model another."""


class V3AgainstModel(RuleBasedStateMachine):
    """The same to both, about one license."""

    numbers = count(1)

    def __init__(self, program: Client, vendor: Client, tally: dict[str, int]) -> None:
        super().__init__()
        self.program, self.vendor, self.tally = program, vendor, tally
        self.model = License()
        self.keys = [f"{CANARY}-{next(self.numbers)}"]
        made = vendor.post("/v3/licenses", json_body={"key": self.keys[0], "terms": _TERMS})
        assert made.status == 201, made
        self.path = f"/v3/licenses/{made.json['id']}"
        self.leases: dict[str, str] = {}
        tally["runs"] += 1

    @rule(step=STEPS)
    def step(self, step: Step) -> None:
        self.tally["steps"] += 1
        is_old = step.is_old_key and len(self.keys) > 1
        self.key = self.keys[0] if is_old else self.keys[-1]
        server, expected = getattr(self, f"do_{step.call}")(step, is_old)
        if server != expected:
            self.tally["divergences"] = 1
            raise Diverged(f"{step}\nthe server: {server}\nthe model:  {expected}")

    # --- v3 ---------------------------------------------------------------------------------------

    def do_activate(self, step: Step, is_old: bool) -> Any:
        reply = self.send("activate", fingerprint=step.device, replaces=step.other)
        token = reply.json["activation"]["token"] if reply.status < 300 else ""
        expected = self.expect(is_old, v3_model.activate, step.device, step.other, token)
        said = _said(reply, "is_new")
        if reply.status < 300:
            assert reply.status == (201 if said["is_new"] else 200)
            said |= {"token": token}
        return said, expected

    def do_deactivate(self, step: Step, is_old: bool) -> Any:
        reply = self.send("deactivate", fingerprint=step.device)
        return _said(reply, "was_active"), self.expect(is_old, v3_model.deactivate, step.device)

    def do_validate(self, step: Step, is_old: bool) -> Any:
        device = step.device if step.other is None else None
        # One lease was taken without a device, and is named; one that was released, or none, is no lease.
        lease_id = self.leases.get(step.device, "0" * 32)
        said = _said(self.send("validate", fingerprint=device, lease_id=lease_id), "valid", "codes")
        if is_old:
            return said, {"valid": False, "codes": ["key_rotated"]}
        return said, self.expect(is_old, v3_model.validate, device, step.device)

    def do_take_lease(self, step: Step, is_old: bool) -> Any:
        reply = self.send("leases", holder=step.device)
        if reply.status < 300:
            self.leases[step.device] = reply.json["lease"]["id"]
        said = _said(reply, "leases")
        if reply.status < 300:
            said["is_new"] = reply.status == 201
        return said, self.expect(is_old, v3_model.take_lease, step.device)

    def do_release_lease(self, step: Step, is_old: bool) -> Any:
        if step.device not in self.model.holders:
            return None, None
        said = _said(self.send("leases/release", lease_id=self.leases[step.device]), "leases")
        return said, self.expect(is_old, v3_model.release_lease, step.device)

    def do_use(self, step: Step, is_old: bool) -> Any:
        amount = step.number or 1
        reply = self.send("usage", meter="pages", amount=amount)
        return _said(reply, "used"), self.expect(is_old, v3_model.use, amount)

    def do_set_limit(self, step: Step, _: bool) -> Any:
        return self.change({"terms": {"max_activations": step.number}}, limit=step.number)

    def do_expire(self, step: Step, _: bool) -> Any:
        is_expired = step.number == 1
        return self.change({"expires_at": PAST if is_expired else None}, is_expired=is_expired)

    def do_disable(self, step: Step, _: bool) -> Any:
        is_disabled = step.number == 1
        return self.change({"status": "disabled" if is_disabled else "active"}, is_disabled=is_disabled)

    def do_rotate_key(self, _step: Step, _: bool) -> Any:
        reply = self.vendor.post(f"{self.path}/rotate-key")
        self.keys.append(reply.json["key"])
        return (reply.status, reply.json["activations"]), (200, self.model.taken)

    def change(self, body: Json, **changes: Any) -> Any:
        reply = self.vendor.ask("PATCH", self.path, json_body=body)
        for name, value in changes.items():
            setattr(self.model, name, value)
        return (reply.status, reply.json["activations"]), (200, self.model.taken)

    # --- v2 ---------------------------------------------------------------------------------------

    def do_activate_v2(self, _step: Step, is_old: bool) -> Any:
        reply = self.program.activate(self.key)
        token = reply.data["activationData"]["token"] if reply.status == 200 else ""
        return _said_v2(reply), self.expect_v2(is_old, v3_model.activate_v2, token, is_new=True)

    def do_reactivate_v2(self, step: Step, is_old: bool) -> Any:
        token = self.token(step)
        reply = self.program.activate(self.key, token)
        return _said_v2(reply), self.expect_v2(is_old, v3_model.activate_v2, token, is_new=False)

    def do_deactivate_v2(self, step: Step, is_old: bool) -> Any:
        token = self.token(step)
        reply = self.program.deactivate(self.key, token)
        return _said_v2(reply), self.expect_v2(is_old, v3_model.deactivate_v2, token)

    def do_deactivate_all_v2(self, _step: Step, is_old: bool) -> Any:
        reply = self.program.deactivate(self.key)
        return _said_v2(reply), self.expect_v2(is_old, v3_model.deactivate_v2, None)

    def do_validate_v2(self, _step: Step, is_old: bool) -> Any:
        reply = self.program.get(core("validate", self.key))
        return _said_v2(reply), self.expect_v2(is_old, lambda one: one.taken)

    def do_set_limit_v2(self, step: Step, _: bool) -> Any:
        fields = {"times_activated_max": step.number}
        reply = self.vendor.put(license_path(self.keys[-1]), json_body=fields)
        self.model.limit = step.number
        return _said_v2(reply), self.model.taken

    # --- both -------------------------------------------------------------------------------------

    def token(self, step: Step) -> str:
        """The token of the device's place, or of the newest place."""
        places = self.model.places
        newest = [one.token for one in places.values()][-1:] or ["0" * 40]
        return places[step.device].token if step.device in places else newest[0]

    def send(self, path: str, **body: Any) -> Reply:
        sent = {name: value for name, value in body.items() if value is not None}
        return self.program.post(f"/v3/{path}", json_body={"license_key": self.key} | sent)

    def expect(self, is_old: bool, call: Callable[..., Any], *given: Any) -> Any:
        """What the model answers; a key that was replaced is refused."""
        if is_old:
            return "key_rotated"
        try:
            return call(self.model, *given)
        except Refused as reason:
            return str(reason)

    def expect_v2(self, is_old: bool, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        reason = "unknown"
        if not is_old:
            try:
                return call(self.model, *given, **named)
            except Refused as refused:
                reason = str(refused)
        return v3_model.V2_REFUSALS.get(reason, v3_model.OTHER_V2_REFUSAL)


def _said(reply: Reply, *members: str) -> Any:
    """The problem code; or these members and the license's figures."""
    body = reply.json
    if reply.status >= 300:
        return body["code"]
    license = body.get("license") or {}
    found = {name: body.get(name, license.get(name)) for name in members}
    if license and "leases" not in members:
        found["activations"] = license["activations"]
    if license and "codes" in found:
        found["limit"] = license["max_activations"]
    return found


def _said_v2(reply: Reply) -> Any:
    """The code of a refusal; or the number of places taken."""
    return reply.data["timesActivated"] if reply.status == 200 else reply.json["code"]


def run(server: RunningServer, part: str, *, phases: tuple[Phase, ...]) -> None:
    """Compare the server with the model; raises ``Diverged`` where they differ."""
    tally = {"runs": 0, "steps": 0, "divergences": 0}
    how = settings(
        max_examples=min(RUNS, AT_A_TIME),
        stateful_step_count=LENGTH,
        phases=phases,
        backend="hypothesis-urandom",
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        with Client(server) as program, Client(server, server.api_key()) as vendor:
            machine: Any = partial(V3AgainstModel, program, vendor, tally)
            while tally["runs"] < RUNS:
                run_state_machine_as_test(machine, settings=how)
    finally:
        record("R13", part, tally)


@pytest.fixture
def place() -> Iterator[Path]:
    """A data directory to be, in memory where there is a way: what is durable is proved elsewhere."""
    with a_folder() as folder:
        yield Path(folder) / "data"


def test_the_server_answers_over_v2_and_v3_what_the_model_answers(database: str, place: Path) -> None:
    with running(place, database, log_level="warning", **NO_LIMITS) as server:
        run(server, f"v2 and v3, {database}", phases=(Phase.generate, Phase.shrink))
        server.assert_consistent()
        assert '"level":"error"' not in server.log


@pytest.mark.parametrize("fault", [faulty.one_place_too_many, faulty.ignores_replaced_devices])
def test_a_server_with_a_broken_rule_is_found_out(fault: Callable[[], None], place: Path) -> None:
    with running(place, program=faulty.program(fault), **NO_LIMITS) as server:
        what = fault.__name__.replace("_", " ")
        with pytest.raises(Diverged):
            run(server, f"control: {what}", phases=(Phase.generate,))
