"""Compare calls of v3 with calls of v2, and calls with and without complex terms: ratios of rates that are
measured alternately on one server.
"""

import http.client
import json
import statistics
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from benchmarks import servers, wrk
from benchmarks.installations import Filled, copied

_CONNECTIONS = 64
#: The minimum number of pairs; medians are reported.
_MIN_PAIRS = 5
_LICENSES, _LEASES = 50, 20
_PLAIN: Mapping[str, Any] = {"max_activations": 3}
_FULL: Mapping[str, Any] = {
    **_PLAIN,
    "max_leases": _LEASES,
    "entitlements": [f"feature-{number}" for number in range(50)],
    "meters": {f"meter-{n}": {"limit": 1000, "per": "year", "overage": "refuse"} for n in range(5)},
}


class V3Ratio(msgspec.Struct, frozen=True):
    """Medians over pairs of alternating runs: both rates, their ratio (first ÷ second), and the ratio of
    processor time per response.
    """

    name: str
    rates: tuple[float, float]
    ratio: float
    processor_ratio: float | None
    failed: int


class _Case(NamedTuple):
    """A case for wrk, and its installation."""

    name: str
    filled: Filled


def measure(filled: Filled, seconds: int, rounds: int, say: Callable[[str], None]) -> list[V3Ratio]:
    """Measure each pair on one copy of the installation."""
    with copied(filled) as copy, servers.running(copy) as server:
        for prefix, terms in (("PLAIN", _PLAIN), ("FULL", _FULL)):
            _make_licenses(server, copy, prefix, terms)
        plain, full = (
            _Case("v3_validate_some", copy._replace(constant_key=prefix, places=_LICENSES))
            for prefix in ("PLAIN", "FULL")
        )
        pairs = {
            "validate over v3 ÷ v2": (_Case("v3_validate", copy), _Case("validate", copy)),
            "signed validate ÷ unsigned": (_Case("v3_validate_signed", copy), _Case("v3_validate", copy)),
            "activate over v3 ÷ v2": (_Case("v3_activate", copy), _Case("activate", copy)),
            "validate with 50 entitlements, 5 meters, 20 leases ÷ plain": (full, plain),
        }
        return [
            _compare(server, name, pair, seconds=seconds, pairs=max(rounds, _MIN_PAIRS), say=say)
            for name, pair in pairs.items()
        ]


def _compare(
    server: servers.Server,
    name: str,
    pair: tuple[_Case, _Case],
    *,
    seconds: int,
    pairs: int,
    say: Callable[[str], None],
) -> V3Ratio:
    loads: tuple[list[wrk.Load], list[wrk.Load]] = ([], [])
    server.wait_until_idle()
    for number in range(pairs):
        # Swap the order in every other pair.
        for place in (0, 1) if number % 2 else (1, 0):
            case = pair[place]
            loads[place].append(wrk.drive(server, case.filled, case.name, _CONNECTIONS, seconds))
    rates = [[one.per_second for one in some] for some in loads]
    failed = sum(one.failed for some in loads for one in some)
    ratio = statistics.median(one / other for one, other in zip(*rates, strict=True))
    say(f"{name}: {ratio:.2f}")
    medians = statistics.median(rates[0]), statistics.median(rates[1])
    return V3Ratio(name, medians, ratio, wrk.processor_ratio(*loads), failed)


def _make_licenses(server: servers.Server, filled: Filled, prefix: str, terms: Mapping[str, Any]) -> None:
    """Create licenses with these terms, all leases taken and all meters used."""
    token = f"kw_{filled.consumer_key[3:]}{filled.consumer_secret[3:]}"
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)

    def post(path: str, body: Mapping[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", f"/v3/{path}", json.dumps(body), headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status not in (200, 201):
            raise RuntimeError(f"{path}: {answer.decode()}")

    for number in range(1, _LICENSES + 1):
        key = f"{prefix}-{number}"
        post("licenses", {"key": key, "terms": terms})
        for meter in terms.get("meters", ()):
            post("usage", {"license_key": key, "meter": meter})
        for holder in range(terms.get("max_leases", 0)):
            post("leases", {"license_key": key, "holder": f"user-{holder}"})
    connection.close()
