"""Two networks of our own, made of namespaces: the nodes among themselves, and Keywright to the nodes.

A namespace holds two bridges; each node is a namespace with a port on both; this namespace, where
Keywright and its clients run, has a port on the outer one. A port that is closed drops every frame
without a word, as a broken switch does: no connection is refused, nothing is reset.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from drill.places import Place, Ports
from drill.trouble import Trouble

_PORTS = Ports(postgres=5432, patroni=8008, etcd=2379, etcd_peers=2380)
#: RFC 2544 keeps 198.18.0.0/15 for tests of networks: nobody's machines are there.
_OUTSIDE, _INSIDE = "198.18", "198.19"
#: The last part of our own address; nodes count from 1.
_HERE = 254
# IEEE 802.1D states of a bridge's port.
_CLOSED, _OPEN = "0", "3"


def why_not() -> str | None:
    """Why there can be no namespaces here, if so."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("bridge") is None:
        return "the commands ip and bridge are missing (Debian and Ubuntu: apt install iproute2)"
    name = f"{_prefix(os.getpid())}probe"
    try:
        _ip("netns", "add", name)
        _ip("netns", "delete", name)
    except Trouble as problem:
        return f"network namespaces cannot be made here: {problem}"
    return None


class Network:
    """The namespaces of these nodes. Numbers of nodes count from 1, in the order of the names."""

    def __init__(self, names: list[str]) -> None:
        self._prefix = _prefix(os.getpid())
        self._names = names
        self._third = _free_third()
        self._lan = f"{self._prefix}lan"

    @property
    def places(self) -> list[Place]:
        """Where the nodes run."""
        return [
            Place(
                name,
                inside=f"{_INSIDE}.{self._third}.{number}",
                outside=f"{_OUTSIDE}.{self._third}.{number}",
                listen="0.0.0.0",  # noqa: S104
                ports=_PORTS,
                prefix=("ip", "netns", "exec", self._prefix + name),
            )
            for number, name in enumerate(self._names, 1)
        ]

    def make(self) -> None:
        """Make the namespaces and connect them."""
        _ip("netns", "add", self._lan)
        for bridge in ("inside", "outside"):
            _ip("-n", self._lan, "link", "add", bridge, "type", "bridge")
            _ip("-n", self._lan, "link", "set", bridge, "up")
        for number, name in enumerate(self._names, 1):
            namespace = self._prefix + name
            _ip("netns", "add", namespace)
            _ip("-n", namespace, "link", "set", "lo", "up")
            for bridge, net in (("inside", _INSIDE), ("outside", _OUTSIDE)):
                self._connect(bridge, number, bridge, netns=namespace)
                self._name_end(bridge, number, net, where=("-n", namespace), device=bridge)
        here = f"kwdrill{os.getpid()}"
        self._connect("outside", _HERE, here, netns=str(os.getpid()))
        self._name_end("outside", _HERE, _OUTSIDE, where=(), device=here)
        self._make_known(here)

    def close(self, name: str, *bridges: str) -> None:
        """Cut a node off from these bridges: ``inside``, ``outside``."""
        self._set_ports(name, bridges, _CLOSED)

    def open(self, name: str) -> None:
        """Connect it again."""
        self._set_ports(name, ("inside", "outside"), _OPEN)

    def _set_ports(self, name: str, bridges: tuple[str, ...], state: str) -> None:
        number = self._names.index(name) + 1
        for bridge in bridges:
            _run("bridge", "-n", self._lan, "link", "set", "dev", _port(bridge, number), "state", state)

    def _connect(self, bridge: str, number: int, device: str, *, netns: str) -> None:
        """Lead a cable from the bridge's port of this number to a device there."""
        port = _port(bridge, number)
        peer = ("peer", "name", device, "netns", netns)
        _ip("-n", self._lan, "link", "add", port, "type", "veth", *peer)
        _ip("-n", self._lan, "link", "set", port, "master", bridge, "up")

    def _name_end(self, bridge: str, number: int, net: str, *, where: tuple[str, ...], device: str) -> None:
        """Give the device at the other end its addresses."""
        _ip(*where, "link", "set", device, "address", _mac(bridge, number), "up")
        _ip(*where, "address", "add", f"{net}.{self._third}.{number}/24", "dev", device)

    def _make_known(self, here: str) -> None:
        """Tell everybody the others' hardware addresses.

        Between real machines there are routers: who is gone is not found out by asking for its
        hardware address in vain, after which connecting fails at once.
        """
        numbers = range(1, len(self._names) + 1)
        for number, name in enumerate(self._names, 1):
            where = ("-n", self._prefix + name)
            for other in (*numbers, _HERE):
                if other not in (number, _HERE):
                    self._know(where, "inside", "inside", _INSIDE, other)
                if other != number:
                    self._know(where, "outside", "outside", _OUTSIDE, other)
        for number in numbers:
            self._know((), here, "outside", _OUTSIDE, number)

    def _know(self, where: tuple[str, ...], device: str, bridge: str, net: str, other: int) -> None:
        address, hardware = f"{net}.{self._third}.{other}", _mac(bridge, other)
        _ip(*where, "neighbour", "replace", address, "lladdr", hardware, "dev", device, "nud", "permanent")


@contextmanager
def made(names: list[str]) -> Iterator[Network]:
    """The network, for as long as the block runs. Raises ``Trouble`` where there can be none."""
    reason = why_not()
    if reason is not None:
        raise Trouble(reason)
    network = Network(names)
    try:
        network.make()
        yield network
    finally:
        remove(os.getpid())


def remove(pid: int) -> None:
    """Remove the namespaces that this process made, and with them their cables."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return
    for line in _ip("netns", "list").splitlines():
        name = line.split()[0]
        if name.startswith(_prefix(pid)):
            with suppress(Trouble):
                _ip("netns", "delete", name)


def _prefix(pid: int) -> str:
    return f"keywright-drill-{pid}-"


def _port(bridge: str, number: int) -> str:
    return f"{bridge}{number}"


def _mac(bridge: str, number: int) -> str:
    return f"02:4b:57:00:{'01' if bridge == 'inside' else '02'}:{number:02x}"


def _free_third() -> int:
    """The third part of addresses that this machine does not use."""
    interfaces: list[dict[str, Any]] = json.loads(_ip("-json", "-4", "address"))
    used = {one["local"].rpartition(".")[0] for interface in interfaces for one in interface["addr_info"]}
    candidates = ((os.getpid() + step) % 256 for step in range(256))
    free = (third for third in candidates if f"{_OUTSIDE}.{third}" not in used)
    third = next(free, None)
    if third is None:
        raise Trouble(f"all of {_OUTSIDE}.0.0/16 is in use")
    return third


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Trouble(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
