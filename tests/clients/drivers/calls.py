"""Make calls with the client library for Python; see ``tests.clients.library``."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

from keywright_client import Keywright

timeout, public_key, calls = float(sys.argv[1]), sys.argv[2], json.load(sys.stdin)


def make(call: dict[str, Any]) -> dict[str, Any]:
    began = monotonic()
    options: dict[str, Any] = {"public_keys": [public_key], "product": "editor", "timeout": timeout}
    path = Path(call["file"])
    keywright = Keywright(
        call["url"], folder=path.parent, ca_file=call["ca_file"] or None, named_by="environment", **options
    )
    status = keywright.check() if call["call"] == "check" else keywright.activate(call["license_key"])
    seconds = monotonic() - began
    return {"valid": status.valid, "state": status.state, "detail": status.detail, "seconds": seconds}


with ThreadPoolExecutor(max(1, len(calls))) as threads:
    print(json.dumps(list(threads.map(make, calls))))
