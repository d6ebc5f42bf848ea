"""Attacks on the availability of a Keywright server, and an honest caller to be measured beside them.

``bad_servers`` and ``relay`` attack the programs that call it.

For the benchmark, in processes of their own, and for tests. Everything goes to loopback addresses and ends
by itself. Callers come from addresses of 127.0.0.0/8, all of which are this machine's on Linux.
"""

from collections.abc import Sequence

from tools.attacks import callers, histories, sales, strangers
from tools.attacks.stranger import Attack

#: By the point of the work that each attack stands for, in order.
ATTACKS: dict[str, Attack] = dict(
    sorted({**callers.ATTACKS, **histories.ATTACKS, **sales.ATTACKS, **strangers.ATTACKS}.items())
)

#: How many files and connections most systems let a process open at first.
_DESCRIPTORS = 1024


def with_few_descriptors(program: Sequence[str]) -> list[str]:
    """The program's command line, as such a system starts it."""
    return ["sh", "-c", f'ulimit -Sn {_DESCRIPTORS} && exec "$@"', "sh", *program]
