"""Whatever is asked in whatever order, the server answers what a model answers that fits on a page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from tests.fuzzing.folders import a_folder
from tests.http import faulty
from tests.http.asking import A_TOKEN, CANARY, Client, Json, Reply, core, license_path
from tests.http.model import CALLS, FUTURE, PAST, License, Licenses, Refused, Wish
from tests.proving import IS_LONG, record, size
from tests.server import NO_LIMITS, RunningServer, running

RUNS, LENGTH = size(50, 5_000), 100 if IS_LONG else 30
#: Runs that hypothesis makes at a time: it remembers all of them.
AT_A_TIME = 250
STATUSES = {"sold": 1, "delivered": 2, "active": 3, "inactive": 4, "disabled": 5}
#: The management calls; the core calls work with GET and POST.
METHODS = {"create": "POST", "get": "GET", "update": "PUT", "delete": "DELETE"}
ON_THE_WIRE = {"limit": "times_activated_max"}
#: What is compared of a license.
WRITTEN = (
    "licenseKey status expiresAt timesActivated timesActivatedMax remainingActivations activationData".split()
)
LIST = Wish("list", "")
ANOTHERS, NOBODYS = -1, -2
UNKNOWN_TOKEN = "0123456789abcdef0123456789abcdef01234567"

_DATA = "lmfwc_rest_data_error"
#: The contract's code and sentence for each refusal; some calls have words of their own.
SENTENCES = {
    "unknown": (_DATA, "License Key: {key} could not be found."),
    "unknown, deactivate": (_DATA, "License Key: {key} could not be found or is deactivated."),
    "unknown, delete": (_DATA, "The license key could not be found or deleted."),
    "taken": (_DATA, "This license key already exists."),
    "expired": ("lmfwc_rest_license_expired", f"The license Key expired on {PAST} (UTC)."),
    "inactive": ("lmfwc_rest_license_inactive", "License Key: {key} is inactive."),
    "disabled": ("lmfwc_rest_license_inactive", "License Key: {key} is disabled."),
    "no such token": (_DATA, "Activation Token: {token} could not be found."),
    "already active": (_DATA, "Activation Token: {token} is already activated."),
    "not active": (_DATA, "Activation Token: {token} could not be found or is deactivated."),
    "full": (_DATA, "License Key: {key} reached maximum activation count."),
    "nothing active": (_DATA, "License Key: {key} has not been activated yet."),
}
Changes = tuple[tuple[str, Any], ...]
#: What an idempotency key holds for: whether a management call, which license, which key.
Scope = tuple[bool, str, str | None]
DEFAULTS = (("limit", None), ("status", "active"), ("expires_at", None))
#: What is said of an answer, to be compared: status, and what else is in it.
Said = tuple[Any, ...]
REUSED: Said = (
    422,
    "idempotency_key_reused",
    "This Idempotency-Key was used before with other parameters. Use a new one.",
)


class Use(NamedTuple):
    """A core call, with that token of the license, counted from the newest; or ANOTHERS, or NOBODYS; or
    with none.
    """

    call: str
    key: str
    which: int | None
    label: str | None
    method: str
    retry: str | None


class Manage(NamedTuple):
    """A management call; ``changes`` are for create and update, ``new_key`` is for update."""

    call: str
    key: str
    new_key: str | None
    changes: Changes
    retry: str | None


class SendAgain(NamedTuple):
    """A call that went out with an idempotency key, counted from the newest."""

    which: int


# What stands more often comes more often.
KEYS = st.sampled_from("aaabbc")
RETRIES = st.sampled_from([*[None] * 7, "1", "2"])
USES = st.builds(
    Use,
    st.sampled_from(["activate", "activate", "activate", "deactivate", "deactivate", "validate"]),
    KEYS,
    st.sampled_from([None, None, None, 0, 0, 0, 1, 1, 2, 3, ANOTHERS, NOBODYS]),
    st.sampled_from([None, "laptop", "Büro 2"]),
    st.sampled_from(["GET", "POST"]),
    RETRIES,
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "limit": st.sampled_from([None, 1, 2, 3]),
        "status": st.sampled_from([*["active"] * 5, "sold", "delivered", "inactive", "disabled"]),
        "expires_at": st.sampled_from([None, None, None, FUTURE, PAST]),
    },
).map(lambda changes: tuple(sorted(changes.items())))
MANAGEMENT = st.builds(
    Manage,
    st.sampled_from(["create", "create", *["update"] * 4, "get", "delete"]),
    KEYS,
    st.sampled_from([None, None, None, *"abcd"]),
    CHANGES,
    RETRIES,
)
REPEATS = st.builds(SendAgain, st.integers(0, 4))
KINDS: list[st.SearchStrategy[Any]] = [*[USES] * 7, *[MANAGEMENT] * 3, REPEATS]
STEPS = st.sampled_from(KINDS).flatmap(lambda kind: kind)


class Diverged(AssertionError):
    """The server answers one thing, the model another."""


@dataclass
class SaveCounters:
    """What was done."""

    runs: int = 0
    steps: int = 0
    divergences: int = 0
    #: Those of SENTENCES that the model refused with.
    refusals: set[str] = field(default_factory=set)


class ServerAgainstModel(RuleBasedStateMachine):
    """The same to both; each run has licenses of its own, all of one product."""

    numbers = count(1)

    def __init__(self, program: Client, vendor: Client, tally: SaveCounters) -> None:
        super().__init__()
        self.program, self.vendor, self.tally = program, vendor, tally
        self.product = next(self.numbers)
        self.has_diverged = False
        self.sold: Licenses = {}
        #: Every token that was ever given out, oldest first.
        self.tokens: list[str] = []
        #: First answers by idempotency key, and what was asked for then.
        self.kept: dict[Scope, tuple[Wish, Said]] = {}
        self.sent: list[tuple[Wish, str, str | None]] = []
        tally.runs += 1

    @initialize()
    def begin(self) -> None:
        for letter, limit in (("a", 2), ("b", None)):
            self.ask(Wish("create", self.key(letter), changes=(("limit", limit),)), "POST")

    # One rule: of several, hypothesis would leave some out of most runs.
    @rule(step=STEPS)
    def step(self, step: Use | Manage | SendAgain) -> None:
        match step:
            case Use(call, key, which, label, method, retry):
                token = self.token(key, which)
                is_new = call == "activate" and token is None
                self.ask(Wish(call, self.key(key), token, label if is_new else None), method, retry)
            case Manage(call, key, new_key, changes, retry):
                renamed = None if call != "update" or new_key is None else self.key(new_key)
                # To say what is so anyway is to ask for the same, and an idempotency key sees it so.
                unsaid = {"create": DEFAULTS, "update": ()}.get(call, changes)
                said = tuple(change for change in changes if change not in unsaid)
                self.ask(Wish(call, self.key(key), new_key=renamed, changes=said), METHODS[call], retry)
            case SendAgain(which) if self.sent:
                self.ask(*self.sent[-1 - which % len(self.sent)])

    def teardown(self) -> None:
        """All that there is, is what the model holds."""
        if not self.has_diverged:
            listed = self.vendor.get("licenses", query={"product_id": self.product}).json["data"]
            found = [facts(one) for one in listed] if isinstance(listed, list) else []
            there = [(key, one, [*one.places]) for key, one in self.sold.items()]
            expected = [expected_facts(key, one, tokens) for key, one, tokens in there]
            self.compare("list", *(sorted(them, key=itemgetter("licenseKey")) for them in (found, expected)))

    def key(self, letter: str) -> str:
        return f"{CANARY}-{self.product}-{letter}"

    def token(self, key: str, which: int | None) -> str | None:
        own = [*self.sold.get(self.key(key), License()).places]
        if which is None or (which >= 0 and not own):
            return None
        others = [token for token in self.tokens if token not in own] if which == ANOTHERS else []
        return own[-1 - which % len(own)] if which >= 0 else [UNKNOWN_TOKEN, *others][-1]

    def ask(self, wish: Wish, method: str, retry: str | None = None) -> None:
        """Ask the server, let the model decide the same, and compare."""
        self.tally.steps += 1
        reply = self.send(wish, method, retry)
        # An idempotency key belongs to who calls, and to the license in the address; reading has none.
        scope = (wish.call in METHODS, "" if wish.call == "create" else wish.key, retry)
        is_once = retry is not None and wish.call not in ("get", "validate")
        if is_once and scope in self.kept:
            before, answer = self.kept[scope]
            expected = (*answer, "true") if before == wish else (*REUSED, None)
        else:
            answer = self.decide(wish, reply)
            expected = (*answer, None)
            # Refusals of callers without a read_write key are decided again.
            if is_once and (wish.call in METHODS or answer[0] == 200):
                self.kept[scope] = (wish, answer)
            if is_once:
                self.sent.append((wish, method, retry))
        self.compare((wish, method, retry), (*said(reply), reply.header("idempotency-replayed")), expected)

    def send(self, wish: Wish, method: str, retry: str | None) -> Reply:
        headers = {} if retry is None else {"Idempotency-Key": f"{self.product}-{retry}"}
        if wish.call not in METHODS:
            asked = {name: value for name in ("token", "label") if (value := getattr(wish, name)) is not None}
            given: dict[str, Any] = {"query": asked} if method == "GET" else {"json_body": asked}
            return self.program.ask(method, core(wish.call, wish.key), headers=headers, **given)
        if method in ("GET", "DELETE"):
            return self.vendor.ask(method, license_path(wish.key), headers=headers)
        fields = {ON_THE_WIRE.get(name, name): value for name, value in wish.changes}
        new_key = wish.key if wish.call == "create" else wish.new_key
        fields |= {"product_id": self.product} | ({} if new_key is None else {"license_key": new_key})
        path = "licenses" if wish.call == "create" else license_path(wish.key)
        return self.vendor.ask(method, path, headers=headers, json_body=fields)

    def decide(self, wish: Wish, reply: Reply) -> Said:
        """What the model answers; the token of a new place is the server's to choose."""
        is_new = wish.call == "activate" and wish.token is None and reply.status == 200
        new_token = reply.json["data"]["activationData"]["token"] if is_new else ""
        try:
            tokens = CALLS[wish.call](self.sold, wish, new_token)
        except Refused as reason:
            own_words = f"{reason}, {wish.call}"
            name = own_words if own_words in SENTENCES else str(reason)
            self.tally.refusals.add(name)
            code, sentence = SENTENCES[name]
            return 404, code, sentence.format(key=wish.key, token=wish.token)
        if is_new:
            self.compare("a new token", new_token in self.tokens or new_token, A_TOKEN)
            self.tokens.append(new_token)
        if wish.call == "delete":
            return 200, []
        key = wish.new_key or wish.key
        return 200, expected_facts(key, self.sold[key], tokens, wish)

    def compare(self, asked: object, server: object, model: object) -> None:
        if server != model:
            self.has_diverged = True
            self.tally.divergences = 1
            raise Diverged(f"{asked}\nthe server: {server}\nthe model:  {model}")


def said(reply: Reply) -> Said:
    """What an answer says, as far as a model can know it."""
    body = reply.json
    if reply.status != 200:
        return reply.status, body["code"], body["message"]
    return 200, facts(body["data"]) if body["data"] else body["data"]


def facts(written: Json) -> dict[str, Any]:
    """A license as it is written; its activations as (token, label, whether it is active)."""
    found = {name: written[name] for name in WRITTEN if name in written}
    records = found.get("activationData")
    if isinstance(records, list):
        found["activationData"] = [_record(one) for one in records]
    elif records is not None:
        found["activationData"] = _record(records)
    return found


def _record(written: Json) -> tuple[str, str | None, bool]:
    return written["token"], written["label"], written["deactivated_at"] is None


def expected_facts(key: str, one: License, tokens: list[str], wish: Wish = LIST) -> dict[str, Any]:
    """The same as the model has it, with the activations of these tokens."""
    taken = len(one.active())
    expected = {
        "licenseKey": key,
        "status": STATUSES[one.status],
        "expiresAt": one.expires_at,
        "timesActivated": taken,
        "timesActivatedMax": one.limit,
    }
    if wish.call == "validate":
        expected["remainingActivations"] = None if one.limit is None else one.limit - taken
    records = [(token, one.places[token].label, one.places[token].is_active) for token in tokens]
    if wish.call not in ("create", "update"):
        is_one = wish.call == "activate" or (wish.call == "deactivate" and wish.token is not None)
        expected["activationData"] = records[0] if is_one else records
    return expected


def run(
    server: RunningServer, part: str, *, phases: tuple[Phase, ...] = (Phase.generate, Phase.shrink)
) -> None:
    """Compare the server with the model; raises ``Diverged`` where they differ."""
    tally = SaveCounters()
    how = settings(
        max_examples=min(RUNS + 10, AT_A_TIME),
        stateful_step_count=LENGTH,
        phases=phases,
        # Every run is drawn anew; hypothesis' own way makes most of them by copying parts of others.
        backend="hypothesis-urandom",
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        with Client(server) as program, Client(server, server.api_key()) as vendor:
            machine: Any = partial(ServerAgainstModel, program, vendor, tally)
            while tally.runs < RUNS or tally.steps < RUNS * LENGTH:
                run_state_machine_as_test(machine, settings=how)
    finally:
        record("R13", part, {name: getattr(tally, name) for name in ("runs", "steps", "divergences")})
    assert not IS_LONG or tally.refusals == SENTENCES.keys()


@pytest.fixture
def place() -> Iterator[Path]:
    """A data directory to be, in memory where there is a way: what is durable is proved elsewhere."""
    with a_folder() as folder:
        yield Path(folder) / "data"


def test_the_server_answers_what_the_model_answers(database: str, place: Path) -> None:
    with running(place, database, log_level="warning", **NO_LIMITS) as server:
        run(server, database)
        server.assert_consistent()
        assert '"level":"error"' not in server.log


@pytest.mark.parametrize(
    "fault", [faulty.one_place_too_many, faulty.reactivates_what_is_active, faulty.forgets_answers]
)
def test_a_server_with_a_broken_rule_is_found_out(fault: Callable[[], None], place: Path) -> None:
    with running(place, program=faulty.program(fault), **NO_LIMITS) as server:
        what = fault.__name__.replace("_", " ")
        with pytest.raises(Diverged):
            run(server, f"control: {what}", phases=(Phase.generate,))
