"""What a server does, in the order in which it does it, as ``strace`` sees it.

A system call that has returned before another one begins stands before it in the trace, whichever threads
they are of: strace holds a thread at both ends of each call.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deploy.programs import is_required, program

_CALLS = "fdatasync,fsync,pwrite64,write,sendto,sendmsg,writev,recvfrom,recvmsg"
_OPTIONS = ("-D", "-f", "--seccomp-bpf", "-tt", "-y", "-s", "262144", "-e", f"trace={_CALLS}")

_LINE = re.compile(r"(?P<thread>\d+) +[\d:.]+ (?P<rest>.*)")
_WHOLE = re.compile(r"(?P<name>\w+)\((?P<text>.*)\) += (?P<result>-?\d+|\?)")
_BEGUN = re.compile(r"(?P<text>\w+\(.*) <unfinished \.\.\.>$")
_ENDED = re.compile(r"<\.\.\. \w+ resumed>(?P<text>.*)")
_WHAT = re.compile(r"\d+<(?P<what>[^>]*)>")
# What stands before and after a token in a file may look like a part of it.
_TOKENS = re.compile(r"(?=([0-9a-f]{40}))")
_SENDING = frozenset({"write", "sendto", "sendmsg", "writev"})
_RECEIVING = frozenset({"recvfrom", "recvmsg"})
_SYNCING = frozenset({"fdatasync", "fsync"})


class SystemCall(NamedTuple):
    """A call that has returned. ``what`` is the file or socket; ``began`` and ``ended`` are its places in the
    trace.
    """

    name: str
    what: str
    text: str
    result: int
    began: int
    ended: int

    @property
    def tokens(self) -> list[str]:
        """Everything in it that could be a token."""
        return _TOKENS.findall(self.text)


def tracing_command(trace: Path, *command: str) -> tuple[str, ...]:
    """The command that runs this one and writes what it does into a file. Skips the test where that cannot be
    done, or fails it if that must not be.
    """
    strace = program("strace")
    tried = subprocess.run([strace, *_OPTIONS, "-o", "/dev/null", "true"], capture_output=True, check=False)
    if tried.returncode:
        said = f"strace may not be used here: {tried.stderr.decode().strip()}"
        (pytest.fail if is_required("strace") else pytest.skip)(said)
    return strace, *_OPTIONS, "-o", str(trace), *command


def has_ended(trace: Path, pid: int) -> bool:
    """Whether all is in the file, also the end of the process."""
    with trace.open("rb") as file:
        file.seek(max(0, trace.stat().st_size - 4096))
        return re.search(rf"(?m)^{pid} .*\+\+\+ exited".encode(), file.read()) is not None


def read_trace(lines: Iterable[str]) -> Iterator[SystemCall]:
    """The calls in the order of their ends."""
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        found = _LINE.match(line)
        if found is None:
            continue
        thread, rest = found["thread"], found["rest"]
        if unfinished := _BEGUN.match(rest):
            begun[thread] = number, unfinished["text"]
            continue
        began = number
        if resumed := _ENDED.match(rest):
            began, text = begun.pop(thread)
            rest = text + resumed["text"]
        if whole := _WHOLE.match(rest):
            what = _WHAT.match(whole["text"])
            result = -1 if whole["result"] == "?" else int(whole["result"])
            yield SystemCall(
                whole["name"], what["what"] if what else "", whole["text"], result, began, number
            )


def find_answers(calls: Iterable[SystemCall]) -> dict[str, int]:
    """Where the first byte of the answer that names a token went out, by token."""
    answers: dict[str, int] = {}
    found: dict[str, int] = {}
    for call in calls:
        if call.name not in _SENDING or not call.what.startswith("socket:"):
            continue
        if '"HTTP/1.1 ' in call.text:
            answers[call.what] = call.began
        if call.what in answers:
            for token in call.tokens:
                found.setdefault(token, answers[call.what])
    return found


def find_syncs(calls: Iterable[SystemCall]) -> dict[str, int]:
    """Where a sync of SQLite's log returned that had begun after a token was written there, by token."""
    written: dict[str, int] = {}
    found: dict[str, int] = {}
    for call in calls:
        if not call.what.endswith("-wal") or call.result < 0:
            continue
        if call.name == "pwrite64":
            for token in call.tokens:
                if token not in found:
                    written.setdefault(token, call.ended)
        elif call.name in _SYNCING:
            safe = [token for token, ended in written.items() if ended < call.began]
            found |= dict.fromkeys(safe, call.ended)
            for token in safe:
                del written[token]
    return found


def find_commits(calls: Iterable[SystemCall]) -> dict[str, int]:
    """Where it was read that PostgreSQL has committed what holds a token, by token."""
    sent: dict[str, dict[str, int]] = {}
    found: dict[str, int] = {}
    for call in calls:
        if not call.what.startswith("socket:") or call.result < 0:
            continue
        if call.name in _SENDING and '"HTTP/1.1 ' not in call.text:
            on_its_way = sent.setdefault(call.what, {})
            for token in call.tokens:
                on_its_way.setdefault(token, call.ended)
        elif call.name in _RECEIVING and r"\0\vCOMMIT\0" in call.text:
            for token in sent.pop(call.what, {}):
                found.setdefault(token, call.ended)
    return found


def too_early(told: Mapping[str, int], durable: Mapping[str, int]) -> list[str]:
    """The tokens that were told before they were durable."""
    return [token for token, place in told.items() if token not in durable or durable[token] > place]


def syncs(calls: Iterable[SystemCall]) -> list[str]:
    """What was synced, in this order."""
    return [call.what for call in calls if call.name in _SYNCING and call.result == 0]
