"""Where a node of the cluster runs: its addresses, its ports, and how a program is started there."""

import random
import socket
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from drill.trouble import Trouble

LOOPBACK = "127.0.0.1"
#: Where Linux begins to choose the ports of outgoing connections, unless it is told otherwise.
_FIRST_EPHEMERAL = 32768
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Ports(NamedTuple):
    """What a node listens on."""

    postgres: int
    patroni: int
    etcd: int
    etcd_peers: int


class Place(NamedTuple):
    """The other nodes reach this one at ``inside``, Keywright at ``outside``.

    ``listen`` is what servers are told to listen on, ``prefix`` the command that starts a program there.
    """

    name: str
    inside: str
    outside: str
    listen: str
    ports: Ports
    prefix: tuple[str, ...] = ()


def on_loopback(names: list[str]) -> list[Place]:
    """A place for each name on 127.0.0.1, with ports of its own."""
    ports = _quiet_ports(len(names) * len(Ports._fields))
    return [
        Place(name, LOOPBACK, LOOPBACK, LOOPBACK, Ports(*(ports.pop() for _ in Ports._fields)))
        for name in names
    ]


def _quiet_ports(number: int) -> list[int]:
    """Free ports below those of outgoing connections: while a node is down nobody else takes its ports."""
    end = _FIRST_EPHEMERAL
    with suppress(OSError):
        end = int(_RANGE.read_text().split()[0])
    found: set[int] = set()
    for port in random.sample(range(max(1024, end // 2), end), min(2000, end // 4)):
        if len(found) == number:
            return list(found)
        if _is_free(port):
            found.add(port)
    raise Trouble("there are no free ports on this machine")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
