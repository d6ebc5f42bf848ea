"""``keywright serve --demo``: something to try the server with."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from msgspec import structs

from keywright.cli import demo_data, output
from keywright.cli.installation import Installation
from keywright.cli.options import DemoKind
from keywright.config import Settings
from keywright.config.installation import open_installation
from keywright.core.standard_webhooks import decode_secret
from keywright.db import run_read
from keywright.identity.api_keys import new_secrets
from keywright.identity.commands import IssueApiKey
from keywright.identity.model import ApiKey, Permissions
from keywright.identity.store import list_api_keys
from keywright.licensing.activations.model import FindLicenses, LicenseRecord
from keywright.licensing.licenses.keys import UNAMBIGUOUS
from keywright.licensing.licenses.model import LicenseFilter, LicenseSource, Status
from keywright.provisioning.policies.model import CreatePolicy, GenerateLicenses, Policy
from keywright.provisioning.shops.commands import AddConnection, ListConnections, OpenConnection
from keywright.provisioning.shops.model import (
    ANY_PRODUCT,
    Connection,
    MappedProduct,
    OpenedConnection,
    Shop,
)

_API_KEY_NAME = _CONNECTION_NAME = "demo"
#: The number of the first connection.
_CONNECTION_ID = 1
_PLACES = 3
# sed is everywhere, jq is not.
_KEEP_TOKEN = (
    "printf '%s\\n' \"$ANSWER\"",
    r"""TOKEN=$(printf '%s' "$ANSWER" | sed -n 's/.*"token": *"\([0-9a-f]*\)".*/\1/p')""",
)


@dataclass(frozen=True)
class Demo:
    """A license to try; the credentials are known only when they were made just now."""

    license_key: str
    credentials: str | None = None
    #: What the connection signs with to which the made-up shop sends its sales.
    shop_secret: str | None = None


def prepare(settings: Settings, kind: DemoKind) -> Demo | None:
    """Add an API key, a policy and a license to a database that has no licenses and no API keys, and,
    for a full demo, the sales of a made-up vendor.

    In one that has, find the license that was added then; None when it is gone.
    """
    # The server's own storage is the server's alone.
    storage = open_installation(settings)
    try:
        here = Installation(storage, settings)
        first, api_keys = _first_license(here), run_read(storage, list_api_keys)
        if first is not None or api_keys:
            return _find(here, first, api_keys)
        demo = _make(here)
        if kind is DemoKind.FULL:
            demo_data.fill(storage, here.now)
        return demo
    finally:
        storage.close()


def _find(here: Installation, first: LicenseRecord | None, api_keys: Sequence[ApiKey]) -> Demo | None:
    # A license does not say that it is for show, but this one says which API key it came with.
    ours = {one.id for one in api_keys if one.name == _API_KEY_NAME}
    if first is None or first.license.source != LicenseSource.GENERATOR:
        return None
    if first.license.created_by not in ours:
        return None
    return Demo(first.license.key, shop_secret=_find_shop_secret(here))


def _find_shop_secret(here: Installation) -> str | None:
    """The secret of the demo's connection; None when it was removed."""
    connections: list[Connection] = here.ask(ListConnections())
    ours = [one for one in connections if one.name == _CONNECTION_NAME and one.shop is Shop.GENERIC]
    if not ours or ours[0].id != _CONNECTION_ID:
        return None
    opened: OpenedConnection = here.ask(OpenConnection(connection_id=_CONNECTION_ID))
    return opened.secret


def print_calls(demo: Demo, api_url: str, curl: str) -> None:
    """Print the calls to try the demo license with, for a shell; each begins with ``curl``."""
    key = quote(demo.license_key, safe="")
    activate, deactivate, validate = (
        f"{api_url}/licenses/{call}/{key}" for call in ("activate", "deactivate", "validate")
    )
    output.print_heading(f"A license with three places to try:  {demo.license_key}")
    for what, *lines in (
        ("Activate it, and keep the token of the answer:", f"ANSWER=$({curl} '{activate}')", *_KEEP_TOKEN),
        ("Validate it:", f"{curl} '{validate}'; echo"),
        ("Deactivate that place:", f'{curl} "{deactivate}?token=$TOKEN"; echo'),
        ("Reactivate it:", f'{curl} "{activate}?token=$TOKEN"; echo'),
    ):
        output.print_line("\n  ".join([f"\n{what}", *lines]))


def print_device_calls(demo: Demo, v3_url: str, curl: str) -> None:
    """Print the calls of the client libraries: take a place for a device, and ask whether it may run."""
    body = json.dumps({"license_key": demo.license_key, "fingerprint": "device-1"})
    output.print_line("\nOver v3, as the client libraries do, for a device in place of a token:")
    for call in ("activate", "validate"):
        output.print_line(f"  {curl} '{v3_url}/{call}' -d '{body}'; echo")


def print_sale(demo: Demo, base_url: str) -> None:
    """Print the call with which a shop tells of a sale: signed when it is pasted, for a signature is good for
    five minutes.
    """
    if demo.shop_secret is None:
        return
    body = (
        """{"type":"order.paid","timestamp":"'$(date -u +%Y-%m-%dT%H:%M:%SZ)'","""
        """"data":{"order":"demo-'$AT'","""
        """"customer":{"email":"ada@example.com","name":"Ada"},"lines":[{"product":"pro","quantity":1}]}}"""
    )
    key = decode_secret(demo.shop_secret).hex()
    signature = f"openssl dgst -sha256 -mac HMAC -macopt hexkey:{key} -binary | openssl base64 -A"
    headers = (
        """-H "webhook-id: demo-$AT" -H "webhook-timestamp: $AT" -H "webhook-signature: v1,$SIGNATURE\""""
    )
    output.print_line("\nSell a license, as a shop does: every time this is pasted, there is one more:")
    for line in (
        "AT=$(date +%s)",
        f"BODY='{body}'",
        f"SIGNATURE=$(printf '%s' \"demo-$AT.$AT.$BODY\" | {signature})",
        f"curl -sS {headers} -d \"$BODY\" '{base_url}/in/generic/{_CONNECTION_ID}'; echo",
    ):
        output.print_line(f"  {line}")


def print_management_call(demo: Demo, api_url: str, another: str) -> None:
    """Print a call to manage licenses, or, when its credentials are known no more, how to get ``another``."""
    if demo.credentials is None:
        output.print_line(
            "\nThe secret of the demo's API key was shown when it was made, and only then. Another:"
        )
        output.print_line(f"  {another}")
    else:
        output.print_line("\nList the licenses; this API key is shown now, and never again:")
        output.print_line(f"  curl -sS -u '{demo.credentials}' '{api_url}/licenses'; echo")


def _first_license(here: Installation) -> LicenseRecord | None:
    found: tuple[LicenseRecord, ...] = here.ask(FindLicenses(where=LicenseFilter(), after_id=0, limit=1))
    return found[0] if found else None


def _make(here: Installation) -> Demo:
    new = new_secrets()
    api_key: ApiKey = here.change(
        IssueApiKey(
            context=here.context, name=_API_KEY_NAME, permissions=Permissions.READ_WRITE, **new.hash_fields()
        )
    )
    by_api_key = structs.replace(here.context, by=api_key.id)
    policy: Policy = here.change(
        CreatePolicy(
            context=by_api_key,
            name="Demo",
            charset=UNAMBIGUOUS,
            chunks=5,
            chunk_length=5,
            separator="-",
            terms={"max_activations": _PLACES},
        )
    )
    records: tuple[LicenseRecord, ...] = here.change(
        GenerateLicenses(
            context=by_api_key,
            policy_id=policy.id,
            amount=1,
            status=Status.ACTIVE,
        )
    )
    connection = Connection(
        id=_CONNECTION_ID,
        shop=Shop.GENERIC,
        name=_CONNECTION_NAME,
        mapping=(MappedProduct(ANY_PRODUCT, policy.id),),
        created_at=here.now,
        updated_at=here.now,
    )
    opened: OpenedConnection = here.change(AddConnection(context=by_api_key, connection=connection))
    credentials = f"{new.consumer_key}:{new.consumer_secret}"
    return Demo(records[0].license.key, credentials, opened.secret)
