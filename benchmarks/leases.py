"""Renewals of leases: how many a second, and how late those of 50,000 that are renewed every minute."""

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
#: So many connections with this mean pause renew about 833 a second: each of the leases once a minute. They
#: are many, so that an answer that takes 10 ms is no reason for fewer renewals.
_PACED_CONNECTIONS, _PAUSE_MS = 500, 590


class Leases(msgspec.Struct, frozen=True):
    """Rates of renewals and of activations over v2, by turns; and renewals as they come in a minute."""

    renewed_per_second: float
    activated_per_second: float
    #: Processor time per answer, of renewals divided by activations.
    processor_ratio: float | None
    paced: wrk.Load

    @property
    def ratio(self) -> float:
        """The rate of renewals divided by that of activations."""
        return self.renewed_per_second / self.activated_per_second


def measure(filled: Filled, seconds: int, rounds: int, say: Callable[[str], None]) -> Leases:
    """Renew random leases as fast as answers come, and then as often as their programs would."""
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
    """Take the leases of some licenses, and write lines of key and id. The license that answers are compared
    with stays as it is.
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
