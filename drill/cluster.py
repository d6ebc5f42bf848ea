"""Three nodes that are one database, and what is known about them from outside."""

import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from drill import network, places
from drill.network import Network
from drill.node import Node
from drill.places import Place
from drill.trouble import Trouble, wait_for
from tools.postgres import unprivileged

DATABASE = "keywright"
_NAMES = ["node1", "node2", "node3"]
#: Making the cluster, or becoming whole again after a fault, takes 5 to 25 s on a calm machine.
_TIMEOUT = 120.0
#: In entries of its log, of which there are a few each second.
_ETCD_LAG = 20
_STANDBYS = "SELECT application_name, sync_state FROM pg_stat_replication WHERE state = 'streaming'"


class Cluster:
    """The nodes. ``network`` is None when they are on the loopback interface."""

    def __init__(self, nodes: list[Node], network: Network | None, *, synchronous: bool) -> None:
        self.nodes = nodes
        self.network = network
        self._synchronous = synchronous
        #: Why it was not whole when it was last looked at.
        self._lack = ""

    @property
    def url(self) -> str:
        """Where Keywright finds whichever node takes changes."""
        hosts = ",".join(f"{node.place.outside}:{node.place.ports.postgres}" for node in self.nodes)
        return f"postgresql://keywright@{hosts}/{DATABASE}?target_session_attrs=read-write"

    def start(self) -> None:
        """Start the nodes, and make the database; returns when the cluster is whole."""
        for node in self.nodes:
            node.start()
        primary = self.wait_until_whole()
        primary.execute("CREATE ROLE keywright LOGIN")
        primary.execute(f"CREATE DATABASE {DATABASE} OWNER keywright")

    def wait_until_whole(self) -> Node:
        """Wait for a primary with both standbys at work, and return it."""
        try:
            return wait_for("a whole cluster", self._whole, timeout=_TIMEOUT, pause=0.3)
        except Trouble as problem:
            raise Trouble(f"{problem}: {self._lack}") from problem

    def wait_for_another_primary(self, before: Node) -> Node:
        """Wait until another node than this takes changes, and return it."""
        others = [node for node in self.nodes if node is not before]
        return wait_for("another primary", lambda: _primary(others), timeout=_TIMEOUT)

    def _whole(self) -> Node | None:
        """The primary, if nothing is lacking."""
        for node in self.nodes:
            node.check()
        primaries = [node for node in self.nodes if node.is_primary()]
        self._lack = _primaries_lack(primaries) or self._standbys_lack(primaries[0]) or _etcd_lack(self.nodes)
        return None if self._lack else primaries[0]

    def _standbys_lack(self, primary: Node) -> str:
        """What PostgreSQL and Patroni lack, as both see it: Patroni must know who may be promoted."""
        standbys: dict[str, str] = {}
        with suppress(psycopg.Error):
            standbys = dict(primary.query(_STANDBYS))
        members = _members(primary)
        states = {name: member["state"] for name, member in members.items()}
        expected = {node.name: "running" if node is primary else "streaming" for node in self.nodes}
        chosen = [name for name, member in members.items() if member["role"] == "sync_standby"]
        waited_for = [name for name, sync in standbys.items() if sync == "sync"]
        if len(standbys) < len(self.nodes) - 1 or states != expected:
            return f"{primary.name} streams to {standbys}, Patroni says {states}"
        if chosen != waited_for or len(chosen) != self._synchronous:
            return f"{primary.name} waits for {waited_for}, Patroni would promote {chosen}"
        return ""


@contextmanager
def running(folder: Path, *, synchronous: bool, with_network: bool) -> Iterator[Cluster]:
    """A new cluster below the folder; ``with_network``: in namespaces, where nodes can be cut off."""
    if with_network:
        with network.made(_NAMES) as lan, _running_in(folder, lan.places, lan, synchronous) as cluster:
            yield cluster
    else:
        with _running_in(folder, places.on_loopback(_NAMES), None, synchronous) as cluster:
            yield cluster


@contextmanager
def _running_in(
    folder: Path, where: list[Place], lan: Network | None, synchronous: bool
) -> Iterator[Cluster]:
    nodes = []
    for place in where:
        its_folder = folder / place.name
        _make_folder(its_folder)
        peers = [one for one in where if one is not place]
        nodes.append(Node(place, peers, its_folder, synchronous=synchronous))
    cluster = Cluster(nodes, lan, synchronous=synchronous)
    try:
        cluster.start()
        yield cluster
    finally:
        for node in nodes:
            node.kill()


def _make_folder(folder: Path) -> None:
    """Make a folder for whom PostgreSQL runs as; it insists on nobody else getting in."""
    folder.mkdir(mode=0o700)
    owner = unprivileged()
    if owner:
        os.chown(folder, owner["user"], owner["group"])


def _primary(nodes: list[Node]) -> Node | None:
    return next((node for node in nodes if node.is_primary()), None)


def _members(node: Node) -> dict[str, dict[str, Any]]:
    """What Patroni on this node says about all, by name; nothing when it does not answer."""
    answer = _ask(f"http://{node.place.outside}:{node.place.ports.patroni}/cluster")
    return {member["name"]: member for member in answer.get("members", ())}


def _primaries_lack(primaries: list[Node]) -> str:
    return "" if len(primaries) == 1 else f"{len(primaries)} nodes take changes"


def _etcd_lack(nodes: list[Node]) -> str:
    """What is lacking until all members follow one leader: those that do not are missed later."""
    address = "http://{0.outside}:{0.ports.etcd}/v3/maintenance/status"
    answers = [_ask(address.format(node.place), {}) for node in nodes]
    leaders = {(answer.get("leader"), answer.get("raftTerm")) for answer in answers}
    indexes = [int(answer.get("raftIndex", 0)) for answer in answers]
    if len(leaders) > 1 or (None, None) in leaders or max(indexes) - min(indexes) > _ETCD_LAG:
        return f"the members of etcd follow {leaders}, and are at {indexes}"
    return ""


def _ask(address: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What is there, or what comes of sending this; nothing when nobody answers."""
    content = None if body is None else json.dumps(body).encode()
    with (
        suppress(OSError, ValueError),
        urllib.request.urlopen(  # noqa: S310
            address, content, timeout=2
        ) as answer,
    ):
        found: dict[str, Any] = json.load(answer)
        return found
    return {}
