"""What shops send and what their APIs answer: files made after each shop's documentation (tests/data/shops).

Each file names the page and the day it was read. Files called ``api_*`` are answers; they name the request.
"""

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from keywright.core import standard_webhooks
from keywright.provisioning.shops.model import Shop

FOLDER = Path(__file__).parent / "data" / "shops"
#: The secret of each shop's connection in tests.
SECRETS: Mapping[Shop, str] = {
    Shop.STRIPE: "whsec_for-tests-only",
    Shop.PADDLE: "pdl_ntfset_for-tests-only",
    Shop.WOOCOMMERCE: "a secret of tests & nothing else",
    Shop.LEMONSQUEEZY: "for-tests-only",
    Shop.GENERIC: "whsec_" + base64.b64encode(b"for tests only, of 24 bytes").decode(),
}


@dataclass(frozen=True)
class Recorded:
    """One file: what was sent, and the headers that do not depend on the secret."""

    page: str
    read_on: str
    contents: Any
    headers: Mapping[str, str]
    request: str | None
    answer_headers: Mapping[str, str]

    @property
    def body(self) -> bytes:
        """The bytes that the shop sends."""
        if isinstance(self.contents, str):
            return self.contents.encode()
        return json.dumps(self.contents, separators=(",", ":")).encode()


def recorded(shop: Shop, name: str) -> Recorded:
    """The file with this name."""
    found = json.loads((FOLDER / shop / f"{name}.json").read_text(encoding="utf-8"))
    headers = {key.lower(): value for key, value in found.get("headers", {}).items()}
    return Recorded(
        page=found["page"],
        read_on=found["read_on"],
        contents=found["body"],
        headers=headers,
        request=found.get("request"),
        answer_headers=found.get("answer_headers", {}),
    )


def names(shop: Shop, *, answers: bool = False) -> list[str]:
    """The names of a shop's files: what it sends, or what its API answers."""
    found = sorted(file.stem for file in (FOLDER / shop).glob("*.json"))
    return [name for name in found if name.startswith("api_") is answers]


def sign(shop: Shop, body: bytes, secret: str, at: datetime | None = None) -> dict[str, str]:
    """The headers with which this shop signs a body."""
    seconds = int((at or datetime.now(UTC)).timestamp())
    key = secret.encode()
    match shop:
        case Shop.STRIPE:
            mac = hmac.digest(key, b"%d." % seconds + body, "sha256").hex()
            return {"stripe-signature": f"t={seconds},v1={mac}"}
        case Shop.PADDLE:
            mac = hmac.digest(key, b"%d:" % seconds + body, "sha256").hex()
            return {"paddle-signature": f"ts={seconds};h1={mac}"}
        case Shop.WOOCOMMERCE:
            mac = base64.b64encode(hmac.digest(key, body, "sha256")).decode()
            return {"x-wc-webhook-signature": mac}
        case Shop.LEMONSQUEEZY:
            return {"x-signature": hmac.digest(key, body, "sha256").hex()}
        case Shop.GENERIC:
            message = f"msg_{hmac.digest(key, body, 'sha256').hex()[:16]}"
            signature = standard_webhooks.sign(message, seconds, body, [secret])
            return {
                "webhook-id": message,
                "webhook-timestamp": str(seconds),
                "webhook-signature": signature,
            }


def sent(shop: Shop, name: str, *, at: datetime | None = None) -> tuple[dict[str, str], bytes]:
    """The headers and the body with which this shop sends the event in a file, signed with its secret."""
    found = recorded(shop, name)
    signed = {} if name == "ping" else sign(shop, found.body, SECRETS[shop], at)
    return {"content-type": "application/json", **found.headers, **signed}, found.body
