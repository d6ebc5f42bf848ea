"""``keywright webhook listen``: deliveries to a receiver that is being written."""

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
from keywright.core.standard_webhooks import new_secret, parse_secret, sign
from keywright.delivery.webhooks.addresses import parse_target
from keywright.events.feed import FeedEvent, ListFeed, subject_of

if TYPE_CHECKING:
    import httpx

#: ``keywright webhook``, with this command, too.
app = webhooks.app

_TIMEOUT, _WAIT_SECONDS = 10.0, 20


def _parse_target(text: str) -> str:
    parse_target(text)
    return text


_Forward = Annotated[
    str,
    typer.Option(metavar="URL", parser=_parse_target, help="The receiver, such as http://localhost:9000."),
]
_Server = Annotated[
    str | None,
    typer.Option(metavar="URL", parser=_parse_target, help="A server, asked with an API key that may read."),
]
_ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", metavar="kw_…", envvar="KEYWRIGHT_API_KEY", help="The token of that API key."),
]
_Secret = Annotated[
    str | None,
    typer.Option(
        metavar="whsec_…", parser=parse_secret, help="The secret that signs. Without it: a new one."
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
    """Forward what happens from now on to a receiver that you are writing, signed like a delivery, and print
    each answer, until Ctrl-C. Nothing is sent again.

    Events come from the database here, or with --server over its management API.
    """
    if server is not None and not api_key:
        raise WrongUsage("--server needs --api-key, or KEYWRIGHT_API_KEY")
    known = secret or new_secret()
    with ExitStack() as stack:
        # What happens once the secret is printed is forwarded.
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


def _send(client: "httpx.Client", url: str, event_id: int, body: Mapping[str, Any], secret: str) -> str:
    """Send one delivery; returns the line that says what came of it."""
    import httpx

    content, message_id = json.dumps(body).encode(), f"msg_0_{event_id}"
    timestamp = int(datetime.now(UTC).timestamp())
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(message_id, timestamp, content, [secret]),
    }
    try:
        came = str(client.post(url, content=content, headers=headers).status_code)
    except httpx.HTTPError as problem:
        came = str(problem) or type(problem).__name__
    return output.printable(f"{event_id}  {body['type']}  {came}")


def _follow_here(here: Installation, since: datetime) -> Iterator[tuple[int, dict[str, Any]]]:
    for one in follow(here, ListFeed(now=here.now, limit=100, since=since)):
        yield one.id, _body_of(one)


def _body_of(one: FeedEvent) -> dict[str, Any]:
    event, subject = one.event, subject_of(one.event)
    told = {
        "event_id": one.id,
        "subject": {"type": subject.kind, "id": subject.id},
        "license_id": event.license_id or None,
        "actor": event.actor,
        "details": dict(event.details or {}),
        "license": None,
    }
    return {"type": event.name, "timestamp": event.occurred_at.isoformat(), "data": told}


def _follow_server(server: str, api_key: str, since: datetime) -> Iterator[tuple[int, dict[str, Any]]]:
    headers = {"authorization": f"Bearer {api_key}"}
    asked: dict[str, Any] = {"since": since.isoformat(), "limit": 100}
    with _client() as client:
        while True:
            answer = client.get(f"{server.rstrip('/')}/v3/events", params=asked, headers=headers)
            if answer.status_code != 200:
                raise WrongUsage(f"the server answered {answer.status_code}: {answer.text[:200]}")
            page = answer.json()
            for one in page["items"]:
                yield one["id"], _body_of_json(one)
            asked |= {"cursor": page["next_cursor"], "wait_seconds": _WAIT_SECONDS}


def _body_of_json(one: Mapping[str, Any]) -> dict[str, Any]:
    names = ("subject", "license_id", "actor", "details")
    told = {"event_id": one["id"], **{name: one[name] for name in names}, "license": None}
    return {"type": one["type"], "timestamp": one["at"], "data": told}
