"""Whatever programs, customers and colleagues write is shown as the text that it is."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import chain
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from keywright.core.command import Command, Origin
from keywright.core.parsing import MAX_LABEL_LENGTH, MAX_USER_AGENT_LENGTH
from keywright.identity.model import CreateUser, IssueApiKey, Permissions, RefuseSignIn, Role, StartSession
from keywright.licensing.activations.model import Activate
from keywright.licensing.licenses.model import CreateLicense, Status, UpdateLicense
from keywright.provisioning.policies.model import CreatePolicy
from keywright.provisioning.products import NameKind, SaveName
from tests.browser.checks import Checks
from tests.browser.payloads import PAYLOADS, check_untripped, set_tripwire
from tests.browser.walking import kind, walk
from tests.browser.watching import Visitor
from tests.http.admin_browser import asked, decide
from tests.server import RunningServer

#: Names may have no control characters in them, as keys may not.
_PRINTABLE = tuple(one for one in PAYLOADS if one.isprintable())
#: Pages that are there to show what others have written.
_TELLING = (
    "/admin/account",
    "/admin/api-keys",
    "/admin/events",
    "/admin/policies",
    "/admin/licenses",
    "/admin/licenses/N",
    "/admin/products",
    "/admin/customers",
    "/admin/users",
)
_KEY = "A-KEY-WITH-MANY-ACTIVATIONS"


@pytest.fixture(scope="module")
def hostile_server(server: RunningServer) -> RunningServer:
    """The same server, with every payload in every text that a user, a shop or a program may choose."""
    decide(server, *_licenses(), *_names(), *_access())
    decide(server, *_events(), *_sessions(server))
    return server


def _licenses() -> Iterator[Command]:
    yield CreateLicense(**asked(key=_KEY, status=Status.ACTIVE, product_id=1, customer_id=1))
    for number, text in enumerate(PAYLOADS, 1):
        origin = Origin("program", "192.0.2.1", text[:MAX_USER_AGENT_LENGTH])
        meta = {text: text, "os": text}
        fields = asked(origin=origin, license=_KEY, label=text[:MAX_LABEL_LENGTH], meta_data=meta)
        yield Activate(**fields)
        if text.isprintable():
            numbers = {"order_id": number, "product_id": number, "customer_id": number}
            yield CreateLicense(**asked(key=text, status=Status.ACTIVE, **numbers))


def _names() -> Iterator[Command]:
    for number, text in enumerate(_PRINTABLE, 1):
        for of_what in NameKind:
            yield SaveName(**asked(kind=of_what, number=number, name=text))
        yield CreateUser(**asked(name=text, role=Role.READER, password_hash="x"))


def _access() -> Iterator[Command]:
    for text in _PRINTABLE:
        yield IssueApiKey(
            **asked(
                name=text,
                permissions=Permissions.READ,
                consumer_key_hash=sha256(text.encode()).hexdigest(),
                secret_hash=bytes(32),
                key_suffix=text[-7:],
            )
        )
        parts = {
            "charset": "ABCDEFGHJK<>&\"'",
            "separator": text[:8],
            "prefix": text,
            "suffix": text[-60:].strip(),
        }
        yield CreatePolicy(**asked(name=text, chunks=4, chunk_length=6, **parts))


def _events() -> Iterator[Command]:
    """Changes that keep what was before, and attempts to sign in."""
    for text in _PRINTABLE:
        origin = Origin("program", "192.0.2.1", text[:MAX_USER_AGENT_LENGTH])
        yield UpdateLicense(**asked(license=text, changes={"key": f"{text}-2", "times_activated_max": 3}))
        yield RefuseSignIn(**asked(name=text, origin=origin))


def _sessions(server: RunningServer) -> Iterator[Command]:
    ((ada,),) = server.sql("SELECT id FROM users WHERE name = 'ada'")
    for text in PAYLOADS:
        origin = Origin("user:1", "192.0.2.1", text[:MAX_USER_AGENT_LENGTH])
        yield StartSession(**asked(origin=origin, user_id=ada, token_hash=sha256(text.encode()).digest()))


def opened_at(page: Page, *addresses: str) -> Iterator[str]:
    """Pages that a walk may not come to."""
    for address in addresses:
        page.goto(address)
        yield address


def test_no_page_runs_what_others_have_written(
    hostile_server: RunningServer, signed_in: Callable[[str], Visitor]
) -> None:
    ada = signed_in("ada")
    set_tripwire(ada.context)
    shown: defaultdict[str, set[str]] = defaultdict(set)
    checks = Checks()
    ((activated,),) = hostile_server.sql("SELECT license_id FROM activations LIMIT 1")
    its_pages = [f"/admin/licenses/{activated}", f"/admin/licenses/{activated}/history"]
    for address in chain(walk(ada.page), opened_at(ada.page, *its_pages)):
        checks.run(check_untripped, ada.page)
        text = ada.page.locator("body").text_content() or ""
        shown[kind(address)[0]] |= {one for one in PAYLOADS if one in text}
    checks.assert_passed()
    for path in _TELLING:
        assert len(shown[path]) > 20, f"{path} shows {len(shown[path])} payloads: are they on another page?"


def test_no_page_runs_what_stands_in_its_address(server: RunningServer, visitor: Visitor) -> None:
    set_tripwire(visitor.context)
    everything = quote("".join(PAYLOADS))
    visitor.watch.expect(403, 404)
    for path in ("/admin/sign-in?next=", "/admin/setup?token=", "/admin/sign-in?next=/admin/"):
        visitor.page.goto(path + everything)
        check_untripped(visitor.page)
