"""A user of the administration pages without a browser: cookies, forms and their tokens."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from html import unescape
from time import monotonic, sleep
from typing import Any, Self

import httpx

from keywright.config import Settings
from keywright.config.installation import open_installation
from keywright.core.command import Command, Context, Origin
from keywright.core.errors import KeywrightError, StoreBusy
from keywright.db import ReadTransaction, Storage, run_read
from keywright.identity.model import CreateUser, Role
from keywright.registry import open_executor
from tests.makers import a_cheap_hash
from tests.server import RunningServer, wait_until

#: The users of a server for tests, and their password. No log may contain it.
ROLES = {"ada": Role.ADMINISTRATOR, "bob": Role.SUPPORT, "carol": Role.READER}
PASSWORD = "correct horse CANARY staple"

_FORM_TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]+)"')
_TITLE = re.compile(r"<title>(.*?) · Keywright</title>")


@contextmanager
def opened(server: RunningServer) -> Iterator[Storage]:
    """Open the server's database, beside the server."""
    place: dict[str, Any] = {"database_url": server.settings.get("database_url")}
    with closing(open_installation(Settings(data_dir=server.data_dir, **place))) as storage:
        yield storage


def decide(server: RunningServer, *commands: Command) -> list[Any]:
    """The outcomes of these commands, run beside the server; raises refusals and faults. Commands that do not
    wait while the server is writing are run again.
    """
    end = monotonic() + 30
    with opened(server) as storage:
        executor = open_executor(storage)
        outcomes = executor.execute(commands)
        while outcomes and all(type(one) is StoreBusy for one in outcomes) and monotonic() < end:
            sleep(0.02)
            outcomes = executor.execute(commands)
    for one in outcomes:
        if isinstance(one, KeywrightError):
            raise one
    return outcomes


def look_up(server: RunningServer, question: Callable[[ReadTransaction], Any]) -> Any:
    """Read from the server's database."""
    with opened(server) as storage:
        return run_read(storage, question)


def wait_for_job(server: RunningServer, number: int) -> None:
    """Return when the job has ended. One query each time: to open the database costs more than the job."""
    query = "SELECT 1 FROM jobs WHERE id = ? AND finished_at IS NOT NULL"
    wait_until(lambda: server.sql(query, number), "the end of the job")


def asked(**fields: Any) -> dict[str, Any]:
    """The fields that every command has, and these."""
    origin = Origin("cli:tests", "192.0.2.7", "")
    now, by = fields.pop("now", None) or datetime.now(UTC).replace(microsecond=0), fields.pop("by", None)
    return {"context": Context(now, fields.pop("origin", origin), by)} | fields


def make_users(server: RunningServer, *names: str) -> None:
    """Create Ada, Bob and Carol, or these of them, unless they exist."""
    there = {name for (name,) in server.sql("SELECT name FROM users")}
    new = [name for name in names or ROLES if name not in there]
    decide(
        server,
        *(
            CreateUser(
                **asked(name=name, role=ROLES.get(name, Role.READER), password_hash=a_cheap_hash(PASSWORD))
            )
            for name in new
        ),
    )


class Visitor:
    """A browser without a window. ``get`` and ``post`` take paths below /admin, and follow no redirects;
    ``post`` sends what a form of the pages would: the form's token, the browser's cookies and its Origin.
    """

    def __init__(self, server: RunningServer, **headers: str) -> None:
        self.server = server
        self.name = ""
        self._form_tokens: dict[str, str] = {}
        # Without TLS: to read the certificates of this machine takes longer than most tests.
        self.http = httpx.Client(base_url=server.base_url, headers=headers, timeout=60, verify=False)  # noqa: S501

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def get(self, path: str, **headers: str) -> httpx.Response:
        answer = self.http.get(f"/admin{path}", headers=headers)
        if (found := _FORM_TOKEN.search(answer.text)) is not None:
            self._form_tokens[self.token] = found[1]
        return answer

    def post(self, path: str, *, headers: Any = None, **fields: Any) -> httpx.Response:
        """Send a form. A list is several checkboxes of one name; ``name_`` is the field ``name``."""
        named = {name.rstrip("_"): value for name, value in fields.items()}
        form = {"csrf_token": self.form_token} | named
        origin = {"Origin": self.server.base_url, "Sec-Fetch-Site": "same-origin"}
        return self.http.post(f"/admin{path}", data=form, headers=origin | (headers or {}))

    def upload(self, path: str, file_name: str, content: bytes | str, **fields: str) -> httpx.Response:
        """Send a form with a file in the field ``table``."""
        form = {"csrf_token": self.form_token} | fields
        origin = {"Origin": self.server.base_url, "Sec-Fetch-Site": "same-origin"}
        files = {"table": (file_name, content, "text/csv")}
        return self.http.post(f"/admin{path}", data=form, files=files, headers=origin)

    @property
    def form_token(self) -> str:
        """The token that forms of this session contain."""
        if self.token not in self._form_tokens and self.get("/account").status_code == 303:
            self.get("/sign-in")
        return self._form_tokens.get(self.token, "")

    @property
    def token(self) -> str:
        """The token in the session cookie."""
        return self.http.cookies.get("keywright") or self.http.cookies.get("__Host-keywright") or ""

    def sign_in(self, name: str, password: str = PASSWORD) -> Self:
        answer = self.post("/sign-in", name=name, password=password)
        assert answer.status_code == 303, said(answer)
        return self

    def is_signed_in(self) -> bool:
        return self.get("/account").status_code == 200


def said(answer: httpx.Response) -> str:
    """The texts of a page, without its tags."""
    body = re.sub(r"<(script|svg|title)\b.*?</\1>", " ", answer.text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body))).strip()


def title(answer: httpx.Response) -> str:
    """The title of the page; "" for other answers."""
    found = _TITLE.search(answer.text)
    return "" if found is None else unescape(found[1])
