"""Make calls with the client library for Python; see ``tests.clients.library``."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

from keywright_client import Keywright, KeywrightError

timeout, public_key, calls = float(sys.argv[1]), sys.argv[2], json.load(sys.stdin)


def make(call: dict[str, Any]) -> dict[str, Any]:
    began = monotonic()
    options: dict[str, Any] = {"public_keys": [public_key], "product": "editor", "timeout": timeout}
    path = Path(call["file"])
    keywright = Keywright(
        call["url"], folder=path.parent, ca_file=call["ca_file"] or None, named_by="environment", **options
    )
    valid, state, detail = run(keywright, call)
    return {"valid": valid, "state": state, "detail": detail, "seconds": monotonic() - began}


def run(keywright: Keywright, call: dict[str, Any]) -> tuple[bool, str, str]:
    if call["call"] in ("lease", "take", "watch"):
        try:
            return lease(keywright, call)
        except KeywrightError as error:
            return False, error.code, str(error)
    if call["call"] == "choose":
        full = keywright.activate(call["license_key"])
        chosen = keywright.activate(call["license_key"], remove=full.devices[0]["id"])
        return chosen.valid, f"{full.state} {chosen.state}", str(full.devices[0]["name"])
    if call["call"] == "trial":
        status = keywright.start_trial()
    else:
        status = keywright.check() if call["call"] == "check" else keywright.activate(call["license_key"])
    return status.valid, status.state, status.detail


def lease(keywright: Keywright, call: dict[str, Any]) -> tuple[bool, str, str]:
    taken = keywright.lease(call["holder"] or None, None, call["license_key"] or None)
    taken.__enter__()
    if call["call"] == "take":
        return taken.is_held, "held", ""
    taken.renew()
    status, was_held = keywright.check(), taken.is_held
    taken.__exit__()
    return status.valid and was_held and not taken.is_held, status.state, status.detail


with ThreadPoolExecutor(max(1, len(calls))) as threads:
    print(json.dumps(list(threads.map(make, calls))))
