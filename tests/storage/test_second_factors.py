"""Second factors: when and how often codes are accepted; and nothing of them is readable in the database."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pyotp
import pytest
from sqlalchemy import select

from keywright.core.command import Context
from keywright.core.errors import UnknownUser
from keywright.db import Storage, run_read
from keywright.db.schema import second_factors as table
from keywright.engine.executor import Executor
from keywright.identity import second_factors, sessions, store
from keywright.identity.model import DisableSecondFactor, RenewRecoveryCodes, Session
from keywright.identity.second_factors import MAX_FAILURES, MAX_KNOWN_FAILURES, hash_recovery_code
from keywright.identity.store import find_user_by_id
from keywright.registry import open_executor
from tests.jobs import decide, events_of
from tests.makers import (
    NOW,
    RECOVERY_CODES,
    SECRET_OF_APP,
    TOKEN,
    an_origin,
    change_user,
    create_user,
    enable_second_factor,
    start_session,
)
from tests.storage.conftest import Opener
from tests.storage.test_secrecy import Everything, everything

DATABASES = ("sqlite",)

__all__ = ["everything"]

ALICE = 1
STEP = timedelta(seconds=30)


def code(at: datetime = NOW) -> str:
    """The code that Alice's app shows."""
    return pyotp.TOTP(SECRET_OF_APP).at(at)


def disable(**fields: Any) -> DisableSecondFactor:
    context = Context(fields.pop("now", NOW), an_origin())
    return DisableSecondFactor(context=context, user_id=fields.pop("user_id", ALICE), **fields)


def renew(code: str, hashes: tuple[bytes, ...], now: datetime) -> RenewRecoveryCodes:
    return RenewRecoveryCodes(context=Context(now, an_origin()), user_id=ALICE, code=code, code_hashes=hashes)


def sign_in(
    executor: Executor, code: str | None, now: datetime = NOW + 10 * STEP, *, is_known: bool = False
) -> Session | None:
    """Sign in with this code; return the session, None if refused."""
    command = start_session(ALICE, sessions.new_session_token(), code=code, now=now, is_known=is_known)
    return decide(executor, command)  # type: ignore[no-any-return]


def list_event_names(storage: Storage) -> list[str]:
    return [one.name for one in events_of(storage, 0)]


@pytest.fixture
def alice(executor: Executor) -> None:
    """Alice, whose second factor was just set up."""
    decide(executor, create_user("alice"))
    assert decide(executor, enable_second_factor(ALICE))


def test_the_codes_are_those_of_rfc_6238() -> None:
    """Appendix B, but with six digits, as in apps."""
    secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
    for seconds, shown in ((59, "287082"), (1111111109, "081804"), (20000000000, "353130")):
        at = datetime.fromtimestamp(seconds, NOW.tzinfo)
        step = second_factors._find_step(secret, shown, at, after=0)
        assert step == seconds // 30


def test_a_second_factor_is_set_up_with_the_code_that_the_app_shows(
    executor: Executor, storage: Storage
) -> None:
    decide(executor, create_user("alice"))
    assert not decide(executor, enable_second_factor(ALICE, code=code(NOW + 5 * STEP)))
    assert not run_read(storage, lambda tx: store.has_factor(tx, ALICE))
    assert decide(executor, enable_second_factor(ALICE))
    factor = run_read(storage, lambda tx: store.find_factor(tx, ALICE))
    assert factor is not None
    assert (factor.secret, factor.enabled_at, factor.failed_attempts) == (SECRET_OF_APP, NOW, 0)
    assert list_event_names(storage) == ["user.created", "user.second_factor_enabled"]


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("steps", range(-2, 3))
def test_a_code_is_good_in_its_time_step_and_beside_it(executor: Executor, steps: int) -> None:
    now = NOW + 10 * STEP
    assert (sign_in(executor, code(now + steps * STEP), now) is not None) is (abs(steps) < 2)


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("typed", ["", None, "12345", "1234567", "abcdef", "１２３４５６", "000000"])
def test_what_is_no_code_is_refused(executor: Executor, storage: Storage, typed: str | None) -> None:
    assert sign_in(executor, typed) is None
    assert list_event_names(storage)[-1] == "user.code_refused"
    assert events_of(storage, 0)[-1].actor == "visitor"


@pytest.mark.usefixtures("alice")
def test_a_code_is_good_once_and_so_is_an_earlier_one(executor: Executor) -> None:
    # The code that it was set up with is used up.
    assert sign_in(executor, code(), NOW) is None
    now = NOW + 10 * STEP
    assert sign_in(executor, f" {code(now)[:3]} {code(now)[3:]} ", now) is not None
    assert sign_in(executor, code(now), now) is None
    assert sign_in(executor, code(now - STEP), now) is None
    assert sign_in(executor, code(now + STEP), now) is not None


@pytest.mark.usefixtures("alice")
def test_of_many_at_the_same_moment_one_signs_in(open_again: Opener) -> None:
    now = NOW + 10 * STEP

    def attempt(number: int) -> bool:
        command = start_session(ALICE, token=f"{TOKEN}{number}", code=code(now), now=now)
        return decide(open_executor(open_again()), command) is not None

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(attempt, range(4))) == [False, False, False, True]


@pytest.mark.usefixtures("alice")
def test_a_clock_that_was_far_ahead_does_not_lock_anybody_out(executor: Executor) -> None:
    ahead = NOW + timedelta(days=400)
    assert sign_in(executor, code(ahead), ahead) is not None
    assert sign_in(executor, code(NOW + 10 * STEP)) is not None


@pytest.mark.usefixtures("alice")
def test_after_many_wrong_codes_only_a_recovery_code_is_taken(executor: Executor) -> None:
    for _ in range(MAX_FAILURES):
        assert sign_in(executor, "wrong") is None
    now = NOW + 10 * STEP
    assert sign_in(executor, code(now), now) is None
    assert sign_in(executor, RECOVERY_CODES[0], now) is not None
    assert sign_in(executor, code(now), now) is not None


@pytest.mark.usefixtures("alice")
def test_wrong_codes_from_elsewhere_keep_no_known_browser_out(executor: Executor) -> None:
    def fail(times: int, *, is_known: bool) -> None:
        """Enter wrong codes, in one batch."""
        wrong = start_session(ALICE, sessions.new_session_token(), code="wrong", now=now, is_known=is_known)
        assert executor.execute([wrong] * times) == [None] * times

    now = NOW + 10 * STEP
    fail(MAX_KNOWN_FAILURES + 1, is_known=False)
    assert sign_in(executor, code(now), now) is None
    fail(MAX_KNOWN_FAILURES - MAX_FAILURES - 1, is_known=True)
    assert sign_in(executor, code(now), now, is_known=True) is not None
    fail(MAX_KNOWN_FAILURES, is_known=True)
    assert sign_in(executor, code(now + 2 * STEP), now + 2 * STEP, is_known=True) is None


@pytest.mark.smoke
@pytest.mark.usefixtures("alice")
def test_another_password_gives_all_attempts_again(executor: Executor) -> None:
    for _ in range(MAX_FAILURES):
        assert sign_in(executor, "wrong") is None
    decide(executor, change_user(ALICE, password_hash="another"))
    assert sign_in(executor, code(NOW + 10 * STEP)) is not None


@pytest.mark.usefixtures("alice")
def test_a_recovery_code_is_good_once_however_it_is_typed(executor: Executor, storage: Storage) -> None:
    assert sign_in(executor, RECOVERY_CODES[3].upper().replace("-", " ")) is not None
    assert sign_in(executor, RECOVERY_CODES[3]) is None
    assert run_read(storage, lambda tx: store.count_codes(tx, ALICE)) == len(RECOVERY_CODES) - 1
    (used,) = [one for one in events_of(storage, 0) if one.name == "user.recovery_code_used"]
    assert used.details == {"user_id": ALICE, "user": "alice", "left": len(RECOVERY_CODES) - 1}


@pytest.mark.smoke
@pytest.mark.usefixtures("alice")
def test_new_recovery_codes_end_the_old_ones_and_need_a_code(executor: Executor, storage: Storage) -> None:
    later = NOW + 10 * STEP
    new = (hash_recovery_code("brand-new"),)
    assert not decide(executor, renew("123", new, later))
    assert decide(executor, renew(code(later), new, later))
    assert sign_in(executor, RECOVERY_CODES[0]) is None
    assert sign_in(executor, "brand-new") is not None


@pytest.mark.usefixtures("alice")
def test_it_is_turned_off_with_a_code_or_by_somebody_else(executor: Executor, storage: Storage) -> None:
    later = NOW + 10 * STEP
    assert not decide(executor, disable(code="123", now=later))
    assert decide(executor, disable(code=code(later), now=later))
    assert sign_in(executor, None) is not None
    assert decide(executor, enable_second_factor(ALICE))
    assert sign_in(executor, None) is None
    assert decide(executor, disable())
    assert sign_in(executor, None) is not None
    assert decide(executor, disable())
    assert list_event_names(storage).count("user.second_factor_disabled") == 2
    (outcome,) = executor.execute([disable(user_id=99)])
    assert isinstance(outcome, UnknownUser)


def test_with_a_new_second_factor_the_session_has_another_token_and_the_others_end(
    executor: Executor, storage: Storage
) -> None:
    decide(executor, create_user("alice"))
    for token in (TOKEN, "another"):
        decide(executor, start_session(ALICE, token))
    assert decide(executor, enable_second_factor(ALICE))
    with storage.read() as tx:
        found = [sessions.find_signed_in(tx, token, NOW) for token in (TOKEN, "another", "new")]
    assert [one is not None for one in found] == [False, False, True]


@pytest.mark.usefixtures("alice")
def test_the_database_tells_neither_the_secret_nor_a_recovery_code(everything: Everything) -> None:
    for name, held in everything().items():
        for text in (SECRET_OF_APP, *RECOVERY_CODES, RECOVERY_CODES[0].replace("-", "")):
            assert text.encode() not in held, name


@pytest.mark.usefixtures("alice")
def test_a_secret_is_good_for_its_user_only(executor: Executor, storage: Storage) -> None:
    decide(executor, create_user("bob"))
    with storage.read() as tx:
        (row,) = tx.connection.execute(select(table))
        assert tx.key_ring.unseal(row.sealed_secret, b"user:1").decode() == SECRET_OF_APP
        with pytest.raises(ValueError, match="sealed"):
            tx.key_ring.unseal(row.sealed_secret, b"user:2")


def test_recovery_codes_are_ten_and_of_many_bits() -> None:
    codes = second_factors.new_recovery_codes()
    assert len({*codes}) == second_factors.RECOVERY_CODES
    assert {len(one.replace("-", "")) for one in codes} == {16}


# --- between password and code --------------------------------------------------------------------


@pytest.mark.usefixtures("alice")
def test_a_ticket_is_good_for_its_user_browser_password_and_five_minutes(
    executor: Executor, storage: Storage
) -> None:
    def find(ticket: str, browser: str = "b", now: datetime = NOW) -> bool:
        with storage.read() as tx:
            return second_factors.find_ticket_user(tx, ticket, browser, now) is not None

    with storage.read() as tx:
        user = find_user_by_id(tx, ALICE)
        assert user is not None
        ticket = second_factors.new_ticket(tx, user, "b", NOW)
    assert find(ticket)
    assert not find(ticket, "another browser")
    assert not find(ticket, now=NOW + timedelta(minutes=5))
    assert find(ticket, now=NOW + timedelta(minutes=4, seconds=59))
    assert not find(ticket, now=NOW - timedelta(minutes=2))
    assert not find("2" + ticket[1:])
    assert not find(ticket[:-1] + ("0" if ticket[-1] != "0" else "1"))
    assert not find("")
    decide(executor, change_user(ALICE, password_hash="another"))
    assert not find(ticket)
