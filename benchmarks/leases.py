"""Measure lease renewals: the maximum rate, and the latency when 50,000 leases are renewed each minute."""

import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks import servers, wrk
from benchmarks.installations import Filled, copied, key_of, opened
from keywright.core.command import Context, Origin
from keywright.db import Storage
from keywright.licensing.leases.model import TakeLease
from keywright.licensing.licenses.model import UpdateLicense
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import to_text
from keywright.registry import open_executor

_LICENSES, _OF_EACH = 500, 100
LEASES = _LICENSES * _OF_EACH
_CONNECTIONS = 64
#: With this many connections and this mean pause, about 833 leases are renewed per second: each once a
#: minute. There are many connections so that a response time of 10 ms hardly reduces the rate.
_PACED_CONNECTIONS, _PAUSE_MS = 500, 590


class Leases(msgspec.Struct, frozen=True):
    """Alternately measured rates of renewals and of v2 activations; and renewals at a realistic pace."""

    renewed_per_second: float
    activated_per_second: float
    #: The processor time per response of renewals, divided by that of activations.
    processor_ratio: float | None
    paced: wrk.Load

    @property
    def ratio(self) -> float:
        """The rate of renewals, divided by that of activations."""
        return self.renewed_per_second / self.activated_per_second


def measure(filled: Filled, seconds: int, rounds: int, say: Callable[[str], None]) -> Leases:
    """Renew random leases as fast as possible, and then as often as programs would."""
    say(f"{LEASES:,} leases …")
    with copied(filled, "leases") as copy:
        file = copy.data_dir / "leases.txt"
        with opened(copy.data_dir, copy.database) as storage:
            _take_leases(storage, file, filled.constant_key)
        renewed = copy._replace(places_file=file, places=LEASES)
        with servers.running(renewed) as server:
            loads: dict[str, list[wrk.Load]] = {"renew": [], "activate": []}
            server.wait_until_idle()
            for case in (*loads, *reversed(loads)) * rounds:
                loads[case].append(wrk.drive(server, renewed, case, _CONNECTIONS, seconds))
            server.wait_until_idle()
            paced = wrk.drive(server, renewed, "renew", _PACED_CONNECTIONS, 4 * seconds, pause_ms=_PAUSE_MS)
    rates = {case: statistics.median(one.per_second for one in some) for case, some in loads.items()}
    ratio = wrk.processor_ratio(loads["renew"], loads["activate"])
    return Leases(rates["renew"], rates["activate"], ratio, paced)


def _take_leases(storage: Storage, file: Path, unchanged_key: str) -> None:
    """Take the leases of some licenses, and write lines of key and lease ID. The license of the constant
    response is not changed.
    """
    context = Context(datetime.now(UTC).replace(microsecond=0), Origin("cli:bench", "", ""))
    terms = {"terms": to_text(Terms(max_leases=_OF_EACH, lease_seconds=86_400))}
    executor = open_executor(storage)
    keys = [key for key in map(key_of, range(_LICENSES + 1)) if key != unchanged_key][:_LICENSES]
    with file.open("w") as lines:
        for key in keys:
            takes = [TakeLease(context=context, license=key, holder=str(one)) for one in range(_OF_EACH)]
            _, *taken = executor.execute([UpdateLicense(context=context, license=key, changes=terms), *takes])
            lines.writelines(f"{key} {one.leased.lease.lease_id}\n" for one in taken)
