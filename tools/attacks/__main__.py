"""An attacker, or the honest caller, in a process of its own: ``python -m tools.attacks WHAT SECONDS``.

WHAT is the name of an attack, or ``honest``. The first line of standard input is a ``Target`` as JSON. The
process prepares, prints ``ready``, starts at the next line, and prints as one line of JSON what came of it:
how often an attacker was answered with what, or the honest caller's ``Figures``.
"""

import asyncio
import os
import resource
import signal
import sys

import msgspec

from tools.attacks import ATTACKS
from tools.attacks.honest import Figures, Honest
from tools.attacks.stranger import Stranger
from tools.attacks.wire import Target

HONEST = "honest"
#: Attackers shall not have the processor that the server and the honest caller need.
_NICENESS = 10
#: An attack ends so many seconds after its time, whatever it waits for.
_MOST_OVERTIME = 30


async def _be_honest(target: Target, seconds: float) -> Figures:
    caller = Honest(target)
    await caller.prepare()
    _wait_for_the_start()
    try:
        return await caller.call(seconds)
    finally:
        caller.close()


async def _attack(name: str, target: Target, seconds: float) -> dict[str, int]:
    attack = ATTACKS[name]
    stranger = Stranger(target, seconds, attack.address)
    if attack.prepare is not None:
        await attack.prepare(stranger)
    _wait_for_the_start()
    stranger.begin()
    async with asyncio.timeout(seconds + _MOST_OVERTIME):
        await attack.strike(stranger)
    return dict(stranger.outcomes)


def _wait_for_the_start() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def main() -> None:
    """Read what to do, do it, and print what came of it."""
    # On Ctrl-C, the process that started this one ends it, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    what, seconds = sys.argv[1], float(sys.argv[2])
    target = msgspec.json.decode(sys.stdin.readline(), type=Target)
    if what == HONEST:
        outcome: object = asyncio.run(_be_honest(target, seconds))
    else:
        os.nice(_NICENESS)
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        outcome = asyncio.run(_attack(what, target, seconds))
    print(msgspec.json.encode(outcome).decode())


if __name__ == "__main__":
    main()
