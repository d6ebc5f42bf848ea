"""What must never happen, and which tests show that it does not."""

import re

import msgspec

_PYTEST = ("-m", "pytest", "-q", "-s", "--timeout", "0", "-p", "no:cacheprovider")


class Promise(msgspec.Struct, frozen=True):
    """A promise to those who use Keywright."""

    #: ``R1``; stable.
    sign: str
    title: str
    #: What the whole long form is to show.
    target: str
    #: How it is tested, for a reader who knows nothing of the tests.
    how: str
    #: Files and folders of tests for pytest.
    tests: tuple[str, ...] = ()
    #: Modules that are run instead, or afterwards, in order.
    programs: tuple[str, ...] = ()
    #: The figures that say the most.
    headline: tuple[str, ...] = ()
    has_control: bool = True

    @property
    def heading(self) -> str:
        """Above its section."""
        return f"{self.sign}: {self.title}"

    @property
    def anchor(self) -> str:
        """The name of its section in a link, as GitHub makes it from the heading."""
        return re.sub(r"[^\w\- ]", "", self.heading.lower()).replace(" ", "-")

    @property
    def shown(self) -> tuple[str, ...]:
        """Where a reader finds the tests."""
        return (*self.tests, *(f"{one.replace('.', '/')}.py" for one in self.programs))

    def commands(self) -> list[list[str]]:
        """What Python has to run, in order."""
        tests = [[*_PYTEST, *self.tests]] if self.tests else []
        return [*tests, *(["-m", one] for one in self.programs)]


PROMISES = (
    Promise(
        "R10",
        "The fate of a commit is never guessed",
        "0 doubled, 0 falsely acknowledged in 500 cut commits",
        "A small proxy between Keywright and PostgreSQL reads along and cuts connections just before a "
        "COMMIT, just after it was sent, and just before its answer comes back. Programs write down what "
        "they are told. What the proxy cut before its COMMIT is decided again; where nobody can know, the "
        "answer says so, and a program that repeats its call with the same Idempotency-Key finds out.",
        ("tests/faults/test_cut_commits.py",),
        headline=("cut commits", "doubled", "acknowledged and missing"),
    ),
    Promise(
        "R11",
        "PostgreSQL may restart under load",
        "recovers in 5 s, 0 lost, 50 times",
        "PostgreSQL is stopped at once, killed, and stopped in good order while programs go on calling; "
        "Keywright stays up, answers 503 with Retry-After, and goes on by itself.",
        ("tests/faults/test_restarts.py",),
        headline=("restarts", "acknowledged and missing", "seconds until calls succeed again"),
    ),
    Promise(
        "R12",
        "A failover loses nothing",
        "0 acknowledged changes lost in 50 failovers; no changes for 40 s at most (p95)",
        "Three PostgreSQL nodes under Patroni with etcd, strict synchronous replication, two instances of "
        "Keywright, programs with a journal. The primary is killed, its machine stands still, it is cut off "
        "from everybody, or from the other nodes only. Afterwards the journals are compared with the "
        "database. The control runs the same with asynchronous replication, and must lose something.",
        programs=("proofs.drilled",),
        headline=("failovers", "acknowledged and lost", "doubled", "seconds without changes, p95"),
    ),
)
