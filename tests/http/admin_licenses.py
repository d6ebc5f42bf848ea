"""Licenses for tests of their pages, and their state in the database afterwards."""

import json
import re
import secrets
from itertools import count
from typing import Any, cast

import httpx

from keywright.core.command import Origin
from keywright.jobs import store as job_store
from keywright.jobs.model import Job, JobState
from keywright.licensing.activations.model import Activate, Activation
from keywright.licensing.licenses.model import CreateLicense, License, Status
from keywright.search import license_pages, projector
from tests.http.admin_browser import Visitor, asked, decide, look_up, said, wait_for_job
from tests.http.asking import CANARY
from tests.server import RunningServer, wait_until

_numbers = count(10_000)


def a_number() -> int:
    """An ID of an order, a product or a customer that no other test uses."""
    return next(_numbers)


def a_key() -> str:
    """A license key, which no log may contain."""
    return f"{CANARY}-{secrets.token_hex(8).upper()}"


def make(server: RunningServer, **fields: Any) -> License:
    """Create a license, by default active."""
    defaults = {"key": a_key(), "status": Status.ACTIVE}
    (record,) = decide(server, CreateLicense(**asked(**defaults | fields)))
    license: License = record.license
    return license


def activate(server: RunningServer, license: License, **fields: Any) -> Activation:
    """Activate the license, as a program at 192.0.2.77."""
    program = Origin("program", "192.0.2.77", "Studio/4.2")
    (record,) = decide(server, Activate(**asked(**{"origin": program, "license": license.id} | fields)))
    activation: Activation = record.activations[0]
    return activation


def found(server: RunningServer, license: License) -> License:
    """The current license in the database."""
    return cast(License, look_up(server, lambda tx: license_pages.get_license(tx, license.id)).license)


def is_there(server: RunningServer, license: License) -> bool:
    """Whether the license is in the database."""
    return look_up(server, lambda tx: license_pages.get_license(tx, license.id)) is not None


def events(server: RunningServer, license: License) -> list[tuple[str, str, Any]]:
    """The events of the license, oldest first: name, actor and details."""
    rows = server.sql("SELECT name, actor, details FROM events WHERE license_id = ? ORDER BY id", license.id)
    return [(name, actor, None if details is None else json.loads(details)) for name, actor, details in rows]


def names_of(server: RunningServer, license: License) -> list[str]:
    """The names of the license's events, oldest first."""
    return [name.removeprefix("license.") for name, _, _ in events(server, license)]


def last_event(visitor: Visitor, name: str) -> str:
    """The details of the latest event with this name."""
    query = "SELECT details FROM events WHERE name = ? ORDER BY id DESC LIMIT 1"
    return str(visitor.server.sql(query, name)[0][0])


def ended_job(server: RunningServer, number: int) -> Job:
    """Wait until the job is done, and return it."""
    wait_for_job(server, number)
    job: Job = look_up(server, lambda tx: job_store.find_job(tx, number))
    assert job.state is JobState.DONE, job.messages
    return job


def followed(visitor: Visitor, answer: httpx.Response) -> str:
    """The text of the page that a form redirects to; without a redirect, that of the response."""
    place = answer.headers.get("location")
    return said(answer if place is None else visitor.get(place.removeprefix("/admin")))


def follow(server: RunningServer) -> None:
    """Wait until all events are searchable."""
    wait_until(lambda: look_up(server, projector.lag).is_complete, "the search to follow the events")


def list_of_devices(bob: Visitor, text: str) -> str:
    """The address below /admin of the list of licenses whose devices a text finds."""
    found = re.search(r'href="/admin(/licenses\?found=[^"]*)"', bob.post("/find", text=text).text)
    assert found is not None
    return found[1]


def where_to(answer: httpx.Response) -> str:
    """The address below /admin that the response redirects to."""
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).removeprefix("/admin")
