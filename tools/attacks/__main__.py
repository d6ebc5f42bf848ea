"""Run an attacker or the honest caller in a separate process: ``python -m tools.attacks WHAT SECONDS``.

WHAT is the name of an attack, or ``honest``. The first line of standard input is a ``Target`` as JSON. The
process prepares, prints ``ready``, and starts when it reads the next line. It prints the result as one line
of JSON: an attacker's outcomes with their counts, or the honest caller's ``Figures``.
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
#: A low priority, so that attackers leave the processor to the server and the honest caller.
_NICENESS = 10
#: The timeout for an attack after its time is over, in seconds.
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
    """Read the target, run the attacker or the caller, and print the result."""
    # On Ctrl-C, the parent process stops this one.
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
