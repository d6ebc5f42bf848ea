"""Meters and allowances as short texts: ``exports=100/month``, ``3/30``. Pure."""

import re
from typing import Any

from keywright.licensing.terms.model import Allowance, Meter, Overage

_METER = re.compile(r"([^=\s]+)\s*=\s*(\d+)\s*/\s*(\w+)(?:\s*:\s*(allow|refuse))?")
_ALLOWANCE = re.compile(r"(\d+)\s*/\s*(\d+)")


def parse_meter(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the members of ``NAME=LIMIT/PERIOD`` or ``NAME=LIMIT/PERIOD:allow``. Raises
    ``ValueError``.
    """
    match = _METER.fullmatch(text.strip())
    if match is None:
        raise ValueError("must look like exports=100/month, with :allow at its end if more is allowed")
    name, limit, period, overage = match.groups()
    meter = {"limit": int(limit), "per": period}
    return name, meter | ({"overage": overage} if overage else {})


def write_meter(name: str, meter: Meter) -> str:
    """The text that ``parse_meter`` reads."""
    return f"{name}={meter.limit}/{meter.per}" + (":allow" if meter.overage is Overage.ALLOW else "")


def parse_allowance(text: str) -> dict[str, int]:
    """The members of ``COUNT/DAYS``. Raises ``ValueError``."""
    match = _ALLOWANCE.fullmatch(text.strip())
    if match is None:
        raise ValueError("must look like 3/30: so many within so many days")
    return {"count": int(match[1]), "per_days": int(match[2])}


def write_allowance(allowance: Allowance | None) -> str:
    """The text that ``parse_allowance`` reads; "" for None."""
    return "" if allowance is None else f"{allowance.count}/{allowance.per_days}"
