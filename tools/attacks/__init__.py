"""Attacks on the availability of a Keywright server, and an honest caller to measure during them.

``bad_servers`` and ``relay`` attack client programs instead.

The attacks are used by the benchmark, in separate processes, and by tests. They only connect to loopback
addresses, and stop after a given time. Callers use addresses in 127.0.0.0/8, which on Linux all belong to
this machine.
"""

from collections.abc import Sequence

from tools.attacks import callers, histories, sales, strangers
from tools.attacks.stranger import Attack

#: All attacks, sorted by name.
ATTACKS: dict[str, Attack] = dict(
    sorted({**callers.ATTACKS, **histories.ATTACKS, **sales.ATTACKS, **strangers.ATTACKS}.items())
)

#: The default limit of open files and connections per process on most systems.
_DESCRIPTORS = 1024


def with_few_descriptors(program: Sequence[str]) -> list[str]:
    """A command line that runs the program with this limit."""
    return ["sh", "-c", f'ulimit -Sn {_DESCRIPTORS} && exec "$@"', "sh", *program]
