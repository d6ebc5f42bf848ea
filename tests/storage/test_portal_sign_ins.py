"""Sign-ins of customers on both databases: valid once, for a limited time, and alike for all addresses."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import count
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import select

from keywright.core.command import Context
from keywright.core.errors import CustomerSignInOver, KeywrightError, NotFound
from keywright.db import Storage, run_read
from keywright.db.schema import mail_outbox, metadata, portal_sign_ins
from keywright.engine.executor import Executor
from keywright.identity.passwords import derive_code, derive_link_token
from keywright.identity.sessions import hash_session_token
from keywright.maintenance.tasks import EraseCustomer
from keywright.provisioning.customers import (
    CreateCustomer,
    CustomerFields,
    DeleteCustomer,
    NewCustomer,
    UpdateCustomer,
)
from keywright.provisioning.portal import rules
from keywright.provisioning.portal.model import (
    AskToSignIn,
    EndPortalSession,
    EnterCode,
    FollowMailedLink,
    FollowPortalLink,
    MailKeys,
    MakePortalLink,
    PurgeSignIns,
    RequestErasure,
)
from keywright.provisioning.portal.store import browser_mark, find_signed_in
from keywright.registry import open_executor
from tests.databases import recorded_statements
from tests.jobs import decide
from tests.makers import KEY_RING, NOW, an_origin
from tests.storage.conftest import ISOLATED, Opener

DATABASES = ("sqlite", *ISOLATED)
EMAIL, STRANGER = "Ada@example.com", "eve@example.com"
MINUTE = timedelta(minutes=1)
_tokens = (f"token {number}" for number in count())


def at(now: datetime = NOW) -> dict[str, Any]:
    return {"context": Context(now, an_origin(actor="visitor"))}


@pytest.fixture
def ada(executor: Executor) -> int:
    made = decide(executor, CreateCustomer(**at(), fields=NewCustomer(id=7, email=EMAIL, name="Ada")))
    return int(made.id)


def ask(
    executor: Executor, sign_in_id: int, email: str = EMAIL, now: datetime = NOW, *, mark: str = ""
) -> int:
    decide(executor, AskToSignIn(**at(now), email=email, sign_in_id=sign_in_id, mark=mark))
    return sign_in_id


def enter(code: str, *asked: int, now: datetime = NOW) -> EnterCode:
    """Enter the code in the browser that requested these sign-ins."""
    return EnterCode(**at(now), sign_in_ids=asked, code=code, token_hash=hash_session_token(next(_tokens)))


def mails(storage: Storage) -> int:
    with storage.read() as tx:
        return len(tx.connection.execute(select(mail_outbox.c.id)).all())


def code_of(sign_in_id: int) -> str:
    return derive_code(KEY_RING, str(sign_in_id))


def follow(sign_in_id: int, token: str | None = None, now: datetime = NOW) -> FollowMailedLink:
    link = derive_link_token(KEY_RING, str(sign_in_id)) if token is None else token
    own = hash_session_token(next(_tokens))
    return FollowMailedLink(**at(now), sign_in_id=sign_in_id, link_token=link, token_hash=own)


def is_refused(executor: Executor, command: Any) -> bool:
    [outcome] = executor.execute([command])
    assert outcome is None or isinstance(outcome, int | CustomerSignInOver), outcome
    return not isinstance(outcome, int)


@pytest.mark.smoke
def test_the_code_of_a_mail_starts_one_session(executor: Executor, storage: Storage, ada: int) -> None:
    code = code_of(ask(executor, 11))
    token = "a token of a browser"
    entered = EnterCode(
        **at(), sign_in_ids=(11,), code=f" {code[:4]} {code[4:]}", token_hash=hash_session_token(token)
    )
    assert decide(executor, entered) == ada
    # Another server's clock may be behind.
    for moment, expected in (
        *((NOW - 30 * MINUTE, None), (NOW - MINUTE, EMAIL)),
        *((NOW, EMAIL), (NOW + 59 * MINUTE, EMAIL), (NOW + 60 * MINUTE, None)),
    ):
        customer = run_read(storage, lambda tx, now=moment: find_signed_in(tx, token, now))  # type: ignore[misc]
        assert (None if customer is None else customer.email) == expected
    assert is_refused(executor, enter(code, 11))
    decide(executor, EndPortalSession(**at(), token_hash=hash_session_token(token)))
    assert run_read(storage, lambda tx: find_signed_in(tx, token, NOW)) is None


def test_a_code_is_good_for_a_quarter_of_an_hour_in_the_browser_that_asked(
    executor: Executor, ada: int
) -> None:
    code = code_of(ask(executor, 11))
    ask(executor, 12)
    for asked in ((), (12,), (99,)):
        assert is_refused(executor, enter(code, *asked))
    assert is_refused(executor, enter(code, 11, now=NOW + 15 * MINUTE))
    assert not is_refused(executor, enter(code, 11, 12, now=NOW + 14 * MINUTE))


def test_five_wrong_codes_end_the_code_of_that_browser_and_no_link(executor: Executor, ada: int) -> None:
    ask(executor, 11)
    ask(executor, 12)
    for _ in range(rules.MAX_WRONG_CODES):
        assert is_refused(executor, enter("0", 11))
    assert is_refused(executor, enter(code_of(11), 11))
    assert not is_refused(executor, enter(code_of(12), 12))
    ask(executor, 13)
    for _ in range(rules.MAX_WRONG_CODES):
        assert is_refused(executor, enter("0", 13))
    assert not is_refused(executor, follow(13))


def test_strangers_get_few_mails_for_an_address_and_keep_its_owner_out_of_nothing(
    executor: Executor, storage: Storage, ada: int
) -> None:
    """A stranger requests a mail every three minutes for a day: mails become rare, the newest link always
    works, and a browser that the owner has used before gets its mail immediately.
    """
    link = ask(executor, 1_000)
    sent, longest = 1, 0
    for minute in range(0, 24 * 60 - 5, 3):
        now, before = NOW + minute * MINUTE, mails(storage)
        ask(executor, 1_001 + minute, now=now)
        if mails(storage) > before:
            link, sent, longest = 1_001 + minute, sent + 1, 0
        longest += 3
        if minute % 48 == 0:
            # Even with a link that was mailed long before, and never used.
            with storage.read() as tx:
                found = tx.connection.execute(select(portal_sign_ins.c.id)).scalars().all()
            assert link in found
            assert longest <= 60
    assert 20 < sent <= 32
    end = NOW + timedelta(hours=24)
    mark = browser_mark(KEY_RING, ada)
    before = mails(storage)
    for other in ("", browser_mark(KEY_RING, ada + 1), mark[:-1], "\ud800"):
        ask(executor, 5_000, now=end - 5 * MINUTE, mark=other)
    assert mails(storage) == before
    ask(executor, 5_001, now=end - 5 * MINUTE, mark=mark)
    assert mails(storage) == before + 1
    assert not is_refused(executor, follow(link, now=end))


def test_a_clock_that_was_ahead_keeps_no_mail_back(executor: Executor, storage: Storage, ada: int) -> None:
    for number in range(11, 20):
        ask(executor, number, now=NOW + timedelta(days=400))
    before = mails(storage)
    ask(executor, 21)
    assert mails(storage) == before + 1


def test_a_link_of_a_mail_works_once(executor: Executor, ada: int) -> None:
    ask(executor, 11)
    assert is_refused(executor, follow(11, "0" * 32))
    assert is_refused(executor, follow(12))
    assert is_refused(executor, follow(11, now=NOW + 90 * MINUTE))
    assert [is_refused(executor, follow(11)) for _ in range(2)] == [False, True]


@pytest.mark.parametrize("kind", ["code", "mailed link", "vendor's link"])
def test_of_many_at_once_one_is_signed_in(
    executor: Executor, open_again: Opener, ada: int, kind: str
) -> None:
    ask(executor, 11)
    decide(executor, MakePortalLink(**at(), customer_id=ada, token="link"))
    start = Barrier(6)

    def sign_in(_: int) -> bool:
        server = open_executor(open_again())
        link = FollowPortalLink(
            **at(), link_hash=hash_session_token("link"), token_hash=hash_session_token(next(_tokens))
        )
        command = {"code": enter(code_of(11), 11), "mailed link": follow(11), "vendor's link": link}[kind]
        start.wait()
        return not is_refused(server, command)

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(sign_in, range(6))) == 1


@pytest.mark.smoke
def test_a_link_for_the_vendor_is_good_once_for_a_day(executor: Executor, ada: int) -> None:
    with pytest.raises(NotFound):
        decide(executor, MakePortalLink(**at(), customer_id=99, token="other"))
    made = decide(executor, MakePortalLink(**at(), customer_id=ada, token="link"))
    assert made.expires_at == NOW + timedelta(hours=24)
    assert "link'" not in repr(made)

    def use(now: datetime) -> bool:
        own = hash_session_token(next(_tokens))
        link = FollowPortalLink(**at(now), link_hash=hash_session_token("link"), token_hash=own)
        return is_refused(executor, link)

    assert use(NOW + timedelta(hours=24))
    assert [use(NOW), use(NOW)] == [False, True]


def test_every_address_costs_the_same_statements(executor: Executor, ada: int) -> None:
    """So the response time does not reveal whether an address is known."""
    seen: dict[str, list[str]] = {}
    for number, email in enumerate((EMAIL, STRANGER), start=11):
        with recorded_statements() as statements:
            ask(executor, number, email)
            assert is_refused(executor, enter("00000000", number))
            decide(executor, MailKeys(**at(), email=email))
        seen[email] = statements
    assert seen[EMAIL] == seen[STRANGER]
    assert len(seen[EMAIL]) > 5


@pytest.mark.smoke
def test_strangers_fill_neither_sign_ins_nor_the_outbox(executor: Executor, storage: Storage) -> None:
    numbers = count(1)
    with storage.read() as tx:
        group = rules.number_of_unknown(tx.key_ring, STRANGER)
    same = [
        name
        for name in (f"x{number}@example.com" for number in range(30_000))
        if rules.number_of_unknown(KEY_RING, name) == group
    ]
    assert len(same) > 5
    for email in same:
        ask(executor, next(numbers), email)
        decide(executor, MailKeys(**at(), email=email))
    with storage.read() as tx:
        # The maximum of one address within this period.
        assert len(tx.connection.execute(select(portal_sign_ins.c.id)).all()) == 3
        assert len(tx.connection.execute(select(mail_outbox.c.id)).all()) == 2


@pytest.mark.smoke
def test_a_mail_is_queued_for_each_sign_in_and_keys_once_in_a_while(
    executor: Executor, storage: Storage, ada: int
) -> None:
    ask(executor, 11)
    ask(executor, 12)
    for minutes in (0, 1, 4 * 60):
        decide(executor, MailKeys(**at(NOW + minutes * MINUTE), email=EMAIL))
    with storage.read() as tx:
        found = tx.connection.execute(select(mail_outbox.c.template, mail_outbox.c.customer_id)).all()
    assert sorted(map(tuple, found)) == [("sign_in_code", ada)] * 2 + [("your_keys", ada)] * 2


ENDS: dict[str, list[Any]] = {
    "another address": [UpdateCustomer(**at(), id=7, fields=CustomerFields(email="new@example.com"))],
    "deletion": [DeleteCustomer(**at(), id=7)],
    "erasure": [RequestErasure(**at(), customer_id=7), EraseCustomer(**at(), customer_id=7)],
    "time": [PurgeSignIns(**at(), before=NOW + timedelta(days=2))],
}


@pytest.mark.smoke
@pytest.mark.parametrize("end", ENDS)
def test_what_ends_sign_ins_links_and_sessions(
    executor: Executor, storage: Storage, ada: int, end: str
) -> None:
    ask(executor, 11)
    decide(executor, follow(11))
    ask(executor, 12)
    decide(executor, MakePortalLink(**at(), customer_id=ada, token="link"))
    for command in ENDS[end]:
        decide(executor, command)
    with storage.read() as tx:
        for table in metadata.sorted_tables:
            if table.name in {"portal_links", "portal_sessions", "portal_sign_ins"}:
                assert tx.connection.execute(table.select()).all() == [], table.name


def test_a_request_for_erasure_is_kept_until_it_is_withdrawn(executor: Executor, ada: int) -> None:
    def change(**fields: Any) -> Any:
        return decide(executor, UpdateCustomer(**at(), id=ada, fields=CustomerFields(**fields)))

    for is_withdrawn, expected in ((False, NOW), (False, NOW), (True, None), (True, None)):
        later = at(NOW if expected else NOW + MINUTE)
        decide(executor, RequestErasure(**later, customer_id=ada, is_withdrawn=is_withdrawn))
        assert change(name=f"Ada {is_withdrawn}").erasure_requested_at == expected
    [outcome] = executor.execute([RequestErasure(**at(), customer_id=99)])
    assert isinstance(outcome, KeywrightError)
