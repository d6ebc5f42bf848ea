"""A round: clients at work, a fault, a new primary, the cluster whole again; then what is true is compared
with what was told."""

import random
import time
from collections import Counter
from collections.abc import Iterable

import msgspec

from drill import load
from drill.cluster import DATABASE, Cluster
from drill.faults import FAULTS
from drill.instances import Instances
from drill.journal import Journal
from drill.judge import Counted, Findings, Kept, Row, judge
from drill.load import Load
from drill.node import Node
from drill.outages import outage

#: So long is everything as usual before and after, in seconds; before up to twice as long by chance, so
#: that faults meet Patroni at any point of its loop.
_CALM = 2.0
#: How long Keywright may take to work again after the cluster does.
_TIMEOUT = 60.0
#: Enough for a minute; then the limited licenses begin again and refuse everybody.
_LIMITED, _UNLIMITED = 1500, 100

_LICENSES = "SELECT id, times_activated, times_activated_max FROM licenses"
_ACTIVATIONS = "SELECT license_id, id, token, coalesce(label, ''), deactivated_at IS NULL FROM activations"
_EVENTS = "SELECT license_id, count(*) FROM events WHERE name = 'license.activated' GROUP BY license_id"
#: A commit that leaves nothing behind; it waits for the standby like any other.
_PROBE = "SELECT pg_logical_emit_message(true, 'drill', '')"


class Round(msgspec.Struct):
    """What became of a round. Outages are in seconds."""

    kind: str
    #: From the fault until the cluster itself acknowledged a commit again.
    cluster_outage: float
    write_outage: float
    read_outage: float
    #: The longest that anybody waited for an answer, whatever it was; clients give up after 10 s.
    longest_wait: float
    acknowledged: int
    unknown: int
    troubles: Counter[str]
    findings: Findings


class Drill:
    """Rounds on one cluster, and their journals."""

    def __init__(self, cluster: Cluster, instances: Instances, *, writers: int, calm: float = _CALM) -> None:
        self._cluster = cluster
        self._instances = instances
        self._writers = writers
        self._calm = calm
        self._journals: list[Journal] = []
        self.rounds: list[Round] = []

    def play(self, kind: str) -> Round:
        """One round of this kind of fault. Raises ``Trouble``."""
        primary = self._cluster.wait_until_whole()
        journal = Journal(self._instances.make_licenses(_LIMITED, _UNLIMITED))
        ports = self._instances.ports
        with load.running(journal, ports, writers=self._writers) as clients:
            fault_at, cluster_outage = self._make_fault(kind, primary, clients)
            ended_at = time.monotonic()
        everybody = range(len(ports))
        played = Round(
            kind,
            cluster_outage,
            outage(journal, "write", fault_at, ended_at, everybody),
            outage(journal, "read", fault_at, ended_at, everybody),
            longest_wait=max(answer.took for answer in journal.answers),
            acknowledged=_acknowledged(journal),
            unknown=_unknown(journal),
            troubles=journal.troubles(),
            findings=judge(journal, read(self._cluster.wait_until_whole())),
        )
        self._journals.append(journal)
        self.rounds.append(played)
        return played

    def judge_again(self) -> None:
        """Judge all rounds by what the database holds now: later faults can lose what earlier ones left."""
        kept = read(self._cluster.wait_until_whole())
        for played, journal in zip(self.rounds, self._journals, strict=True):
            played.findings |= judge(journal, kept)

    def _make_fault(self, kind: str, primary: Node, clients: Load) -> tuple[float, float]:
        """Make the fault, mend it, and return its moment and how long the cluster was away."""
        fault = FAULTS[kind]
        clients.wait_for_success(time.monotonic(), _TIMEOUT)
        time.sleep(self._calm * random.uniform(1, 2))
        fault_at = time.monotonic()
        fault.begin(self._cluster, primary)
        self._cluster.wait_for_another_primary(primary).execute(_PROBE)
        back_at = time.monotonic()
        clients.wait_for_success(back_at, _TIMEOUT)
        fault.end(self._cluster, primary)
        self._cluster.wait_until_whole()
        self._instances.check()
        time.sleep(self._calm)
        clients.wait_for_success(time.monotonic(), _TIMEOUT)
        return fault_at, back_at - fault_at


def read(primary: Node) -> Kept:
    """What the database holds."""
    licenses, activations, events = primary.query_at_once(DATABASE, _LICENSES, _ACTIVATIONS, _EVENTS)
    return Kept([Counted(*row) for row in licenses], [Row(*row) for row in activations], dict(_pairs(events)))


def _pairs(rows: Iterable[tuple[int, ...]]) -> Iterable[tuple[int, int]]:
    return ((row[0], row[1]) for row in rows)


def _acknowledged(journal: Journal) -> int:
    return sum((one.fate == "done") + (one.given_up == "done") for one in journal.activations)


def _unknown(journal: Journal) -> int:
    return sum("unknown" in (one.fate, one.given_up) for one in journal.activations)
