"""Who works with the pages."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

from playwright.sync_api import Page, expect

from keywright.config import Settings, open_installation
from keywright.core.command import Command, Context, Origin
from keywright.core.errors import KeywrightError
from keywright.db import Storage
from keywright.identity.commands import CreateUser
from keywright.identity.model import Role, User
from keywright.registry import open_executor
from tests.makers import a_cheap_hash
from tests.server import RunningServer

#: The users of a server for tests, and what they all sign in with.
ROLES = {"ada": Role.ADMINISTRATOR, "bob": Role.SUPPORT, "carol": Role.READER}
PASSWORD = "correct horse battery staple"
ORIGIN = Origin("cli:tests", "192.0.2.7", "")


@contextmanager
def opened(server: RunningServer) -> Iterator[Storage]:
    """The server's database, beside it."""
    place: dict[str, Any] = {"database_url": server.settings.get("database_url")}
    with closing(open_installation(Settings(data_dir=server.data_dir, **place))) as storage:
        yield storage


def decide(server: RunningServer, commands: Sequence[Command]) -> list[Any]:
    """What became of each; refusals and faults are raised."""
    with opened(server) as storage:
        outcomes = open_executor(storage).execute(commands)
    for one in outcomes:
        if isinstance(one, KeywrightError):
            raise one
    return outcomes


def asked(**fields: Any) -> dict[str, Any]:
    """What every command has, and these fields."""
    now, by = fields.pop("now", None) or datetime.now(UTC).replace(microsecond=0), fields.pop("by", None)
    return {"context": Context(now, fields.pop("origin", ORIGIN), by)} | fields


def make_users(server: RunningServer) -> list[User]:
    """Ada, Bob and Carol."""
    password_hash = a_cheap_hash(PASSWORD)
    return decide(
        server,
        [
            CreateUser(**asked(name=name, role=role, password_hash=password_hash))
            for name, role in ROLES.items()
        ],
    )


def sign_in(
    page: Page,
    name: str,
    password: str = PASSWORD,
    *,
    path: str | None = "/admin/sign-in",
    is_right: bool = True,
) -> None:
    """Sign in as this user, at this address or on the page that is open; the page that comes next is open
    then.
    """
    if path is not None:
        page.goto(path)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    if is_right:
        expect(page.get_by_role("button", name="Sign out", exact=True)).to_be_visible()
    else:
        expect(page.get_by_role("alert")).to_be_visible()
