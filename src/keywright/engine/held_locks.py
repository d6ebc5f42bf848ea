"""Licenses that another transaction holds: calls about them are refused for a moment instead of waiting.

While a batch waits for one license, it keeps others from those that it has locked already. So it must not
wait twice for a license that is held for long.
"""

from collections.abc import Callable, Collection, Set
from time import monotonic, sleep

#: A license, by key or by id.
Name = str | int

#: A license that is held is not looked at again for this long, in seconds.
HOLD_OFF = 1.0
#: A license counts as held when one transaction holds it at this many looks, this many seconds apart:
#: batches of other server processes hold licenses, too, but only for some milliseconds.
LOOKS, LOOK_INTERVAL = 3, 0.05


class HeldLocks:
    """The licenses of one executor that were seen to be held."""

    def __init__(self, find_holders: Callable[[Collection[Name]], dict[Name, str]]) -> None:
        """``find_holders`` gives, of these licenses, those that another transaction holds, and its number."""
        self._find_holders = find_holders
        self._held: dict[Name, tuple[float, str]] = {}
        #: The licenses that are held.
        self.names: Set[Name] = self._held.keys()

    def add_long_held(self, names: Collection[Name]) -> None:
        """Add those of these licenses that one transaction keeps holding."""
        found = self._find_holders(names)
        for _ in range(LOOKS - 1):
            if not found:
                return
            sleep(LOOK_INTERVAL)
            now = self._find_holders(names)
            found = {name: holder for name, holder in found.items() if now.get(name) == holder}
        until = monotonic() + HOLD_OFF
        self._held.update({name: (until, holder) for name, holder in found.items()})

    def refresh(self) -> None:
        """Forget licenses whose time is over, unless the same transaction holds them still."""
        now = monotonic()
        over = {name: holder for name, (until, holder) in self._held.items() if until <= now}
        for name, holder in self._find_holders(over).items() if over else ():
            if holder == over[name]:
                self._held[name] = (now + HOLD_OFF, holder)
        for name in [name for name, (until, _) in self._held.items() if until <= now]:
            del self._held[name]
