"""The checker of traces finds answers that go out too early."""

import pytest

from tests.power.wire import SystemCall, find_answers, find_commits, find_syncs, read_trace, syncs, too_early

TOKEN = "0123456789abcdef0123456789abcdef01234567"
OTHER = TOKEN[::-1]

WRITE = (
    rf'10 12:00:00.000001 pwrite64(16</data/keywright.db-wal>, "\r\0\0\178{TOKEN}7\0"..., 4096, 32) = 4096'
)
SYNC = "10 12:00:00.000002 fdatasync(16</data/keywright.db-wal>) = 0"
HEAD = r'10 12:00:00.000003 write(14<socket:[7]>, "HTTP/1.1 200 OK\r\n\r\n", 19) = 19'
BODY = rf'10 12:00:00.000004 write(14<socket:[7]>, "{{\"token\":\"{TOKEN}\"}}", 90) = 90'

INSERT = rf'11 12:00:00.000001 sendto(3<socket:[5]>, "P\0\0{TOKEN}\0", 99, MSG_NOSIGNAL, NULL, 0) = 99'
COMMIT = r'11 12:00:00.000002 sendto(3<socket:[5]>, "Q\0\0\0\vCOMMIT\0", 12, MSG_NOSIGNAL, NULL, 0) = 12'
DONE = r'11 12:00:00.000003 recvfrom(3<socket:[5]>, "C\0\0\0\vCOMMIT\0Z\0\0\0\5I", 16384, 0, NULL, NULL) = 18'


def early(*lines: str) -> list[str]:
    calls = list(read_trace(lines))
    return too_early(find_answers(calls), find_syncs(calls))


def early_on_postgresql(*lines: str) -> list[str]:
    calls = list(read_trace(lines))
    return too_early(find_answers(calls), find_commits(calls))


def test_a_write_a_sync_and_an_answer_are_in_order() -> None:
    assert early(WRITE, SYNC, HEAD, BODY) == []


@pytest.mark.parametrize(
    "lines",
    [
        (WRITE, HEAD, BODY),
        (WRITE, HEAD, SYNC, BODY),
        (WRITE, HEAD, BODY, SYNC),
        (SYNC, WRITE, HEAD, BODY),
        (SYNC, HEAD, BODY),
        (WRITE, SYNC.replace("= 0", "= -1 EIO (Input/output error)"), HEAD, BODY),
        (WRITE, SYNC.replace("-wal", ""), HEAD, BODY),
        (WRITE.replace("-wal", ""), SYNC, HEAD, BODY),
        (WRITE.replace("= 4096", "= -1 ENOSPC (No space left on device)"), SYNC, HEAD, BODY),
        (WRITE.replace(TOKEN, OTHER), SYNC, HEAD, BODY),
    ],
)
def test_an_answer_without_a_sync_before_it_is_found(lines: tuple[str, ...]) -> None:
    assert early(*lines) == [TOKEN]


BEGIN_OF_SYNC = "12 12:00:00.000002 fdatasync(16</data/keywright.db-wal> <unfinished ...>"
END_OF_SYNC = "12 12:00:00.000002 <... fdatasync resumed>) = 0"


def test_a_sync_in_another_thread_counts_from_its_end() -> None:
    assert early(WRITE, BEGIN_OF_SYNC, END_OF_SYNC, HEAD, BODY) == []
    assert early(WRITE, BEGIN_OF_SYNC, HEAD, END_OF_SYNC, BODY) == [TOKEN]


def test_a_sync_that_had_begun_before_a_write_does_not_count_for_it() -> None:
    assert early(BEGIN_OF_SYNC, WRITE, END_OF_SYNC, HEAD, BODY) == [TOKEN]


def test_an_answer_goes_out_when_it_begins_to() -> None:
    begin, end = HEAD.replace(") = 19", " <unfinished ...>"), "10 12:00:00.000009 <... write resumed>) = 19"
    assert early(WRITE, BEGIN_OF_SYNC, begin, END_OF_SYNC, end, BODY) == [TOKEN]
    assert early(WRITE, BEGIN_OF_SYNC, END_OF_SYNC, begin, end, BODY) == []


def test_each_connection_has_its_own_answers() -> None:
    head, body = (one.replace("[7]", "[8]").replace(TOKEN, OTHER) for one in (HEAD, BODY))
    other = WRITE.replace(TOKEN, OTHER)
    assert early(WRITE, SYNC, HEAD, other, head, SYNC, BODY, body) == [OTHER]


def test_the_word_of_postgresql_that_a_transaction_is_committed_is_read_before_the_answer() -> None:
    assert early_on_postgresql(INSERT, COMMIT, DONE, HEAD, BODY) == []


@pytest.mark.parametrize(
    "lines",
    [
        (INSERT, COMMIT, HEAD, BODY, DONE),
        (INSERT, COMMIT, HEAD, DONE, BODY),
        (INSERT, COMMIT, HEAD, BODY),
        (DONE, INSERT, COMMIT, HEAD, BODY),
        (INSERT, COMMIT, DONE.replace("[5]", "[6]"), HEAD, BODY),
        (INSERT, COMMIT, DONE.replace(r"\vCOMMIT", r"\rROLLBACK"), HEAD, BODY),
        (COMMIT, DONE, HEAD, BODY),
    ],
)
def test_an_answer_before_that_word_is_found(lines: tuple[str, ...]) -> None:
    assert early_on_postgresql(*lines) == [TOKEN]


def test_what_is_no_call_is_passed_over() -> None:
    others = (
        "10 12:00:00.000001 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER} ---",
        "10 12:00:00.000001 +++ exited with 0 +++",
        "10 12:00:00.000001 recvfrom(3<socket:[5]>, 0x7, 9, 0, NULL, NULL) = -1 EAGAIN (Try again)",
        "10 12:00:00.000001 recvfrom(3<socket:[5]>,  <unfinished ...>) = ?",
        "strace: Process 12 attached",
    )
    assert [call.result for call in read_trace(others)] == [-1, -1]
    assert syncs(read_trace([*others, SYNC])) == ["/data/keywright.db-wal"]


def test_a_call_knows_what_it_is_about() -> None:
    (call,) = read_trace([SYNC])
    assert call == SystemCall("fdatasync", "/data/keywright.db-wal", "16</data/keywright.db-wal>", 0, 0, 0)
