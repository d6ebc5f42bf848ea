"""``keywright webhook listen``: deliveries to a receiver under development."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keywright.cli import output, webhooks
from keywright.cli.events import follow
from keywright.cli.installation import Installation, InstallationOptions, open_here
from keywright.cli.options import WrongUsage, command, with_options
from keywright.core.crypto import mask
from keywright.core.standard_webhooks import new_secret, parse_secret
from keywright.db import run_read
from keywright.delivery.webhooks.addresses import parse_address
from keywright.delivery.webhooks.model import Payload
from keywright.delivery.webhooks.rules import TESTED, show_license, write_body, write_headers
from keywright.events.feed import ListFeed
from keywright.events.model import Event
from keywright.licensing.licenses.store import find_licenses_by_id

if TYPE_CHECKING:
    import httpx

#: ``keywright webhook``, to which this module adds a command.
app = webhooks.app

_TIMEOUT, _WAIT_SECONDS = 10.0, 20
#: The members of a license that are the same in a delivery and in the management API.
_SAME_MEMBERS = (
    *("id", "product_id", "policy_id", "customer_id", "order", "status", "state", "expires_at"),
    *("activations", "metadata", "external_id"),
)


_Forward = Annotated[
    str,
    typer.Option(
        metavar="URL", parser=parse_address, help="The receiver's address, such as http://localhost:9000."
    ),
]
_Server = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        parser=parse_address,
        help="Fetch the events from this server; needs an API key that may read.",
    ),
]
_ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", metavar="kw_…", envvar="KEYWRIGHT_API_KEY", help="The API key's token."),
]
_Secret = Annotated[
    str | None,
    typer.Option(
        metavar="whsec_…",
        parser=parse_secret,
        help="The secret that signs the deliveries. Default: a new one.",
    ),
]


@command(
    app,
    "keywright webhook listen --forward http://localhost:9000",
    "keywright webhook listen --forward http://localhost:9000 --server https://licenses.example",
)
@with_options
def listen(
    options: InstallationOptions,
    *,
    forward: _Forward,
    server: _Server = None,
    api_key: _ApiKey = None,
    secret: _Secret = None,
) -> None:
    """Forward new events to a receiver under development, until Ctrl-C.

    Requests are signed like deliveries, but failed ones are not retried. Each answer is printed. The events
    come from the database here or, with --server, from the management API of a server.
    """
    if server is not None and not api_key:
        raise WrongUsage("--server needs --api-key, or KEYWRIGHT_API_KEY")
    known = secret or new_secret()
    with ExitStack() as stack:
        # Every event that happens after the secret is printed must be forwarded.
        since = datetime.now(UTC).replace(microsecond=0)
        if server is None:
            events = _follow_here(stack.enter_context(open_here(options, is_made=False)), since)
        else:
            events = _follow_server(server, api_key or "", since)
        output.print_line(f"Deliveries are signed with {known}")
        client = stack.enter_context(_client())
        with suppress(KeyboardInterrupt):
            for event_id, body in events:
                output.print_line(_send(client, forward, event_id, body, known))


def _client() -> "httpx.Client":
    import httpx

    return httpx.Client(timeout=_TIMEOUT + _WAIT_SECONDS, follow_redirects=False)


def _send(client: "httpx.Client", url: str, event_id: int, body: bytes, secret: str) -> str:
    """Send one delivery; return a line with the result."""
    import httpx

    headers = write_headers(f"msg_0_{event_id}", body, datetime.now(UTC), [secret], None)
    try:
        came = str(client.post(url, content=body, headers=headers).status_code)
    except httpx.HTTPError as problem:
        came = str(problem) or type(problem).__name__
    return output.printable(f"{event_id}  {json.loads(body)['type']}  {came}")


def _follow_here(here: Installation, since: datetime) -> Iterator[tuple[int, bytes]]:
    for one in follow(here, ListFeed(now=here.now, limit=100, since=since)):
        if one.event.name != TESTED:
            license = _find_license(here, one.event.license_id)
            yield one.id, write_body(one.id, one.event, license, Payload.FULL)


def _find_license(here: Installation, license_id: int) -> dict[str, Any] | None:
    found = run_read(here.storage, lambda tx: find_licenses_by_id(tx, [license_id])).get(license_id)
    return None if found is None else show_license(found, here.now)


def _follow_server(server: str, api_key: str, since: datetime) -> Iterator[tuple[int, bytes]]:
    root = f"{server.rstrip('/')}/v3"
    asked: dict[str, Any] = {"since": since.isoformat(), "limit": 100}
    with _client() as client:
        client.headers["authorization"] = f"Bearer {api_key}"
        while True:
            answer = client.get(f"{root}/events", params=asked)
            if answer.status_code != 200:
                raise WrongUsage(f"the server answered {answer.status_code}: {answer.text[:200]}")
            page = answer.json()
            for one in page["items"]:
                if one["type"] != TESTED:
                    found = client.get(f"{root}/licenses/{one['license_id']}")
                    license = _license_of(found.json()) if found.status_code == 200 else None
                    yield one["id"], write_body(one["id"], _event_of(one), license, Payload.FULL)
            asked |= {"cursor": page["next_cursor"], "wait_seconds": _WAIT_SECONDS}


def _license_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a license of the management API to that of a delivery."""
    own = {"key": mask(found["key"]), "max_activations": found["terms"]["max_activations"], "customer": None}
    return {name: found[name] for name in _SAME_MEMBERS} | own


def _event_of(one: Mapping[str, Any]) -> Event:
    at = datetime.fromisoformat(one["at"])
    return Event(at, one["type"], one["license_id"] or 0, None, one["actor"], "", one["details"])
