"""Verify a delivery of Keywright (Standard Webhooks), with the standard library alone.

python3 webhook.py SECRET WEBHOOK-ID WEBHOOK-TIMESTAMP WEBHOOK-SIGNATURE < body
"""

import base64
import hashlib
import hmac
import json
import sys
import time


def verify(secret: str, id: str, timestamp: str, signature: str, body: bytes) -> dict:
    """The delivery. Raises ValueError for one that is not Keywright's, or is older than five minutes."""
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > 300:
        raise ValueError("too old")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{id}.{timestamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    # While a secret is replaced, there are several signatures.
    if not any([hmac.compare_digest(expected.encode(), one.encode()) for one in signature.split(" ")]):
        raise ValueError("not signed with this secret")
    return json.loads(body)


if __name__ == "__main__":
    try:
        delivery = verify(*sys.argv[1:5], sys.stdin.buffer.read())
    except ValueError as problem:
        sys.exit(f"refused: {problem}")
    print(delivery["type"], delivery["data"]["license_id"])
