"""What happens to the primary, and what ends it."""

from collections.abc import Callable
from typing import NamedTuple

from drill.cluster import Cluster
from drill.network import Network
from drill.node import Node

_Deed = Callable[[Cluster, Node], None]


class Fault(NamedTuple):
    """``begin`` it, ``end`` it; ``needs_network``: only with namespaces."""

    words: str
    begin: _Deed
    end: _Deed
    needs_network: bool = False


def _lan(cluster: Cluster) -> Network:
    assert cluster.network is not None
    return cluster.network


def _kill(_: Cluster, node: Node) -> None:
    node.kill()


def _shut_down(_: Cluster, node: Node) -> None:
    node.begin_stop()


def _start_after_stop(_: Cluster, node: Node) -> None:
    node.end_stop()
    node.start()


def _start(_: Cluster, node: Node) -> None:
    node.start()


def _cut(cluster: Cluster, node: Node) -> None:
    _lan(cluster).close(node.name, "inside", "outside")


def _split(cluster: Cluster, node: Node) -> None:
    _lan(cluster).close(node.name, "inside")


def _join(cluster: Cluster, node: Node) -> None:
    _lan(cluster).open(node.name)


FAULTS = {
    "kill": Fault("all processes of the primary are killed at once", _kill, _start),
    "stop": Fault("the primary is shut down properly", _shut_down, _start_after_stop),
    "cut": Fault("nobody reaches the primary any more", _cut, _join, needs_network=True),
    "split": Fault(
        "Keywright reaches the primary, the other nodes do not", _split, _join, needs_network=True
    ),
}
