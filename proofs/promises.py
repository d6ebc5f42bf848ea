"""What must never happen, and which tests show that it does not."""

import re

import msgspec

from proofs.modules import TESTS

_PYTEST = ("-m", "pytest", "-q", "-s", "--timeout", "0", "-p", "no:cacheprovider")


class Bound(msgspec.Struct, frozen=True):
    """The highest value that a figure may have."""

    figure: str
    highest: float
    #: The only part that it holds for; empty: all of them.
    part: str = ""


class Promise(msgspec.Struct, frozen=True):
    """A promise to the users of Keywright."""

    #: ``R1``; stable.
    sign: str
    title: str
    #: What the whole long form has to show.
    target: str
    #: How it is tested, for a reader who knows nothing of the tests.
    how: str
    #: Files and folders of tests for pytest.
    tests: tuple[str, ...] = ()
    #: Files and folders that its tests need, and do not import.
    files: tuple[str, ...] = ()
    #: Modules that are run instead, or afterwards, in order.
    programs: tuple[str, ...] = ()
    #: The figures for the summary, shown for each part.
    headline: tuple[str, ...] = ()
    #: The figures for the summary that are shown for all parts together.
    totals: tuple[str, ...] = ()
    #: What the target says about single figures; a figure above its bound is marked on the page.
    bounds: tuple[Bound, ...] = ()
    has_control: bool = True

    @property
    def heading(self) -> str:
        """The heading of its section."""
        return f"{self.sign}: {self.title}"

    @property
    def anchor(self) -> str:
        """The name of its section in a link, as GitHub makes it from the heading."""
        return re.sub(r"[^\w\- ]", "", self.heading.lower()).replace(" ", "-")

    @property
    def shown(self) -> tuple[str, ...]:
        """The files and folders in which a reader finds the tests."""
        return (*self.tests, *(f"{one.replace('.', '/')}.py" for one in self.programs))

    def commands(self, seed: str) -> list[list[str]]:
        """The arguments of Python that run it, in order; what tests draw depends on the seed."""
        tests = [[*_PYTEST, "--seed", seed, *self.tests]] if self.tests else []
        return [*tests, *(["-m", one] for one in self.programs)]

    def bound_of(self, figure: str, part: str) -> float | None:
        """The highest value that this figure may have in this part; None: no bound is promised."""
        bounds = (one.highest for one in self.bounds if one.figure == figure and one.part in ("", part))
        return min(bounds, default=None)


def _none(*figures: str) -> tuple[Bound, ...]:
    """Bounds for figures that must be zero."""
    return tuple(Bound(one, 0) for one in figures)


PROMISES = (
    Promise(
        "R1",
        "The limit is never exceeded",
        "0 over the limit in 1,000,000 attempts on each database",
        "200 license keys with five places each, 64 connections, and more attempts than places, all at once "
        "over HTTP; on PostgreSQL also with four server processes. Exactly as many attempts succeed as there "
        "are places, and the database's CHECK on the counter never fires. Devices over v3 do the same, and "
        "sites of WordPress over /edd, a third of them on hosts that take no place. The controls are servers "
        "whose limit is off by one, and that have no limit of the latter. Full licenses that heal themselves "
        "are in R20.",
        ("tests/concurrency/test_selling.py", "tests/concurrency/test_devices_over_http.py"),
        headline=("attempts", "successes over the limit"),
        bounds=_none("successes over the limit", "check fired"),
    ),
    Promise(
        "R2",
        "Every success counts exactly once",
        "0 bad of 10,000 histories, with kills",
        "Several programs activate, deactivate, reactivate, validate and change the same license at the same "
        "time, over v2 and, by the fingerprints of devices, over v3, and "
        "record when they asked and what they were told; servers are killed meanwhile. A checker "
        "then looks for one order of all calls that explains every answer and fits the times "
        "(linearizability, after Wing and Gong, with Lowe's memory of what was tried). A call whose answer "
        "was lost may have happened or not. Evidence is the `timesActivated` in each answer. The checker is "
        "itself given histories that are broken on purpose.",
        ("tests/histories/test_checker.py", "tests/histories/test_histories.py"),
        headline=("histories", "bad histories"),
        bounds=_none("bad histories"),
    ),
    Promise(
        "R3",
        "Acknowledged changes survive a killed server",
        "0 missing in 1,000 kills on each database; ready again in 2 s (SQLite), 10 s (PostgreSQL)",
        "The server is killed (`kill -9`) at a random moment under load, and started again. Everything that "
        "programs were told is compared with the database. The control is a server that answers before it "
        "commits.",
        ("tests/faults/test_kills.py",),
        headline=("kills", "acknowledged and missing", "seconds until ready"),
        bounds=(
            *_none("acknowledged and missing"),
            Bound("seconds until ready", 2, "sqlite"),
            Bound("seconds until ready", 10, "postgresql"),
        ),
    ),
    Promise(
        "R4",
        "Acknowledged changes survive a power loss",
        "0 missing, 0 corrupt at 100,000 crash points",
        "A simulated disk under the real SQL and settings of Keywright on SQLite records what was synced. At "
        "a crash point, what was not synced is kept, lost, torn or written in another order; then SQLite "
        "opens what is left. The control is `synchronous=NORMAL`, which must lose something. On a real "
        "server, `strace` shows that the sync has returned before the answer leaves.",
        ("tests/power",),
        headline=("crash points", "acknowledged changes missing", "corrupt databases"),
        bounds=_none("acknowledged changes missing", "corrupt databases"),
    ),
    Promise(
        "R5",
        "An SQLite file has one writer at a time",
        "a second writer waits or is refused; two never interleave",
        "Two servers and commands use one file; the lock file is removed while they run; the process that "
        "holds the lock is killed, or stopped. Every transaction is logged from inside, and no two may "
        "overlap. The control runs without the lock.",
        ("tests/faults/test_two_writers.py", "tests/storage/test_one_writer.py"),
        totals=("transactions", "interleaved"),
        bounds=_none("interleaved"),
    ),
    Promise(
        "R6",
        "A failing disk causes no false success",
        "no success after a failed commit; after a failed sync the file is closed and opened again",
        "Two of a hundred syncs, writes, or both fail under load (libfiu). Changes are answered with 503, "
        "validations go on, and what was acknowledged is there. The control acknowledges what could not be "
        "committed.",
        ("tests/faults/test_io_errors.py",),
        totals=("commits failed", "acknowledged and not there"),
        bounds=_none("acknowledged and not there"),
    ),
    Promise(
        "R7",
        "A full disk refuses changes, and recovers",
        "changes are answered with 503, validations work; recovered 5 s after there is space",
        "A file system of 8 MB is filled under load, and then given space again.",
        ("tests/faults/test_full_disk.py",),
        totals=("changes refused with 503", "acknowledged and not there", "seconds until it heals"),
        bounds=(*_none("acknowledged and not there"), Bound("seconds until it heals", 5)),
    ),
    Promise(
        "R8",
        "The clock may jump by 400 days",
        "no stored date changes, no answer is 5xx, rate limits keep working",
        "The clock of a running server jumps forward, back, and back beyond its start, while programs call "
        "(libfaketime).",
        ("tests/faults/test_clock_jumps.py",),
        totals=("jumps", "answers 5xx", "expiries rewritten", "limits forgotten", "limits stuck"),
        bounds=_none("answers 5xx", "expiries rewritten", "limits forgotten", "limits stuck"),
    ),
    Promise(
        "R9",
        "A repeated call has one effect",
        "100 parallel calls with one Idempotency-Key: one effect, one answer; kept for 24 h",
        "A hundred programs repeat one call at the same time, with GET and POST, on several servers, with a "
        "kill in the middle. Other parameters under the same Idempotency-Key are refused (422). The control "
        "sends no Idempotency-Key.",
        ("tests/histories/test_retries.py", "tests/http/test_idempotency.py"),
        headline=("calls", "effects too many", "answers unlike the first"),
        bounds=_none("effects too many", "answers unlike the first"),
    ),
    Promise(
        "R10",
        "The fate of a commit is never guessed",
        "0 doubled, 0 falsely acknowledged in 500 cut commits",
        "A small proxy between Keywright and PostgreSQL reads along and cuts connections just before a "
        "COMMIT, just after it was sent, and just before its answer arrives. Programs record what they are "
        "told. A call cut before its COMMIT is decided again; where the fate cannot be known, the answer "
        "says so, and a program that repeats its call with the same Idempotency-Key finds out.",
        ("tests/faults/test_cut_commits.py",),
        headline=("cut commits", "doubled", "acknowledged and missing"),
        bounds=_none("doubled", "acknowledged and missing"),
    ),
    Promise(
        "R11",
        "PostgreSQL may restart under load",
        "recovers in 5 s, 0 lost, 50 times",
        "PostgreSQL is stopped at once, killed, and shut down in good order while programs go on calling; "
        "Keywright stays up, answers 503 with Retry-After, and recovers by itself.",
        ("tests/faults/test_restarts.py",),
        headline=("restarts", "acknowledged and missing", "seconds until calls succeed again"),
        bounds=(*_none("acknowledged and missing"), Bound("seconds until calls succeed again", 5)),
    ),
    Promise(
        "R12",
        "A failover loses nothing",
        "0 acknowledged changes lost in 50 failovers; no changes for 40 s at most (p95)",
        "Three PostgreSQL nodes under Patroni with etcd, strict synchronous replication, two instances of "
        "Keywright, and programs that keep a journal. The primary is killed, its machine is frozen, it is "
        "cut off from everything, or from the other nodes only. Afterwards the journals are compared with "
        "the database. The control uses asynchronous replication, and must lose something.",
        programs=("proofs.drilled",),
        headline=("failovers", "acknowledged and lost", "doubled", "seconds without changes, p95"),
        bounds=(*_none("acknowledged and lost", "doubled"), Bound("seconds without changes, p95", 40)),
    ),
    Promise(
        "R13",
        "The server agrees with a ten-line model",
        "0 divergences in 5,000 runs of 100 steps over v2, and 5,000 over v2 and v3, on each database",
        "Random calls go over HTTP and to a model that fits on a screen; every answer is compared. The same "
        "with calls of v2 and v3 about one license. The "
        "controls are servers with a rule broken on purpose.",
        ("tests/http/test_model.py", "tests/http/test_v3_model.py"),
        headline=("runs", "steps", "divergences"),
        bounds=_none("divergences"),
    ),
    Promise(
        "R14",
        "Every input gets a well-formed answer",
        "0 answers 5xx in 100,000 generated requests over every route; of v2 and v3, always JSON in the "
        "contract's shape",
        "Requests are generated from the OpenAPI documents of v2 and v3 (schemathesis), for every page and "
        "every other address, calls of EDD and of update frameworks by hand, and every parser of input from "
        "outside is fuzzed, guided by coverage (atheris).",
        (
            *("tests/http/test_openapi.py", "tests/http/test_v3_openapi.py", "tests/http/test_edd.py"),
            *("tests/http/test_every_door.py", "tests/http/test_hostile_input.py"),
            "tests/fuzzing",
        ),
        totals=("cases", "answers 5xx", "answers out of shape", "inputs", "crashes"),
        bounds=_none("answers 5xx", "answers out of shape", "crashes"),
    ),
    Promise(
        "R15",
        "A rolling restart fails no request",
        "0 failed requests in 10 restarts",
        "Two instances on one PostgreSQL stand behind each of the proxies of deploy/; programs ask once and "
        "never retry; shops report sales, and webhooks every event; one instance after the other is "
        "stopped in good order and started. The same without a proxy. The control kills them instead.",
        ("tests/deploy/test_rolling_restart.py",),
        headline=("restarts", "requests", "failed requests", "doubled"),
        bounds=_none("failed requests", "doubled", "sales lost", "sales doubled", "events left out"),
        files=("deploy",),
    ),
    Promise(
        "R16",
        "A backup is a state that existed",
        "restored, everything from before is there, and nothing from after",
        "`keywright backup` under load, and `keywright restore` elsewhere: what programs were told before "
        "the backup began is there, what they asked for after its end is not. The control is a plain copy "
        "of the files. Backups and restores are also killed halfway: then the old state is there, or the "
        "new one.",
        (
            "tests/faults/test_backup_under_load.py",
            "tests/faults/test_backup_broken_off.py",
            "tests/faults/test_upgrades_killed.py",
            "tests/storage/test_backup.py",
            "tests/storage/test_backup_altered.py",
            "tests/storage/test_backup_sqlite.py",
            "tests/storage/test_backup_postgres.py",
            "tests/cli/test_backup.py",
            "tests/cli/test_backup_sqlite.py",
        ),
        headline=("backups under load", "acknowledged before and missing", "asked for later and present"),
        bounds=_none("acknowledged before and missing", "asked for later and present"),
    ),
    Promise(
        "R17",
        "It runs for hours without degrading",
        "over 2 h on each database: memory grows less than 5 %, SQLite's log ends below 64 MB, p99 drifts "
        "less than 10 %",
        "A steady mixed load for hours (v2, leases, sales of a shop, webhooks, pages of the portal and of "
        "administrators), with every answer known in advance, while readers keep a "
        "transaction open for half a minute at a time. SQLite's write-ahead log grows with what is written "
        "while a reader has one open, and shrinks again. The drift compares p99 of the last third with "
        "that of the first. The controls are a server that leaks, and a reader that does not let go.",
        ("tests/soak",),
        headline=("calls", "failed calls", "seconds", "memory growth %", "WAL MiB", "p99 drift %"),
        bounds=(
            *_none("failed calls"),
            Bound("memory growth %", 5),
            Bound("WAL MiB", 64),
            Bound("p99 drift %", 10),
        ),
    ),
    Promise(
        "R18",
        "The tests would notice a mistake",
        "all branches of the core covered; 90 % of its mutants killed",
        "Every branch of errors, model, rules, keys, licensing and desk is run by tests. Then small faults "
        "are put into these modules, one after the other, and the tests must fail. The survivors are "
        "listed with a reason in `proofs/survivors.toml`.",
        programs=("proofs.coverage", "proofs.mutation"),
        totals=("branches", "branches not covered", "mutants", "killed"),
        bounds=_none("branches not covered", "surviving without a reason"),
        has_control=False,
        files=(*(test for tests in TESTS.values() for test in tests), "tests/storage/conftest.py"),
    ),
    Promise(
        "R19",
        "One caller cannot stop the others",
        "no call of an honest caller fails beside any attack; the server needs at most 50 MB more; "
        "histories, answers and guesses stay bounded",
        "An honest caller validates every 50 ms and changes something every second, beside one attack after "
        "the other: headers full of backslashes, a history that grows and is asked for, refusals to be "
        "kept, large bodies, callers who never read or never ask, 250 connections that guess, a stranger "
        "at the same address, passwords guessed from everywhere, 64 downloads that are read slowly, forged, "
        "large and endless events of shops, a flood of sign-ins to the portal, calls that wait for events, "
        "forged requests for license files, downloads, update tokens and calls of EDD, and a user who "
        "searches and exports without a pause; beside those of shops and the portal, an honest shop tells of "
        "sales and an honest customer asks for a code. The cost of an attack is "
        "measured: memory, bytes of an answer, rows, guesses that were looked up. The controls have no "
        'limits. The honest caller\'s latency is measured by `make bench ARGS="--only attacks"`.',
        ("tests/http/test_beside_attacks.py",),
        headline=("attacks", "calls", "failed calls"),
        bounds=(*_none("failed calls"), Bound("memory growth MiB", 50)),
    ),
    Promise(
        "R20",
        "No lease, trial or unit of usage too many, none lost",
        "none over the limit in 200,000 attempts, none doubled; none lost or counted twice over 100 kills; "
        "per database",
        "64 programs, with four servers on PostgreSQL, take, renew and release leases of licenses with 5: "
        "exactly as many are given as there are, and never more are held at a moment. Each device starts its "
        "trial at all servers at once, and gets one; each unit of usage is sent four times with the same "
        "Idempotency-Key, and counted once. Then the server is killed under load, and the journals of the "
        "programs are compared with the database. Full licenses heal themselves: new devices come while old "
        "ones ask again; none is replaced that has a signed yes, may still run, or is one of v2, and no user "
        "removes more than the terms allow. The controls do not count leases, forget trials, ignore "
        "Idempotency-Keys, answer before the commit, and record no answers.",
        (
            "tests/concurrency/test_leases.py",
            "tests/concurrency/test_full_licenses.py",
            "tests/faults/test_kills_of_v3.py",
        ),
        headline=("attempts", "kills", "calls"),
        bounds=_none(
            "over the limit",
            "doubled",
            "counted twice",
            "usage missing",
            "usage counted twice",
            "leases missing",
            "leases doubled",
            "trials missing",
            "trials doubled",
            "replaced before their time",
            "removals too many",
            "other answers",
        ),
    ),
    Promise(
        "R21",
        "Every event, once and in order",
        "none of 1,000,000 events left out or seen twice by a reader that stops and starts again",
        "Four writers on PostgreSQL make events at the same time, so that these are committed in another "
        "order than they are numbered, and some numbers never. A reader follows the cursor, is ended and "
        "started again all the time, and is compared with the log. The control reads whatever is committed.",
        ("tests/concurrency/test_event_feed.py",),
        headline=("events", "readers"),
        bounds=_none("missing", "doubled"),
    ),
    Promise(
        "R22",
        "No signed answer but ours is believed",
        "no wrong acceptance by any client: shared cases, every bit of a good answer altered",
        "The clients in all languages read the same cases, good and bad, and a good answer of which one bit "
        "after the other is altered. The Python client is fuzzed, too: see R14.",
        ("tests/clients/test_vectors.py",),
        headline=("cases", "altered bits"),
        bounds=_none("wrongly accepted"),
        has_control=False,
        files=("clients", "tests/clients/drivers"),
    ),
    Promise(
        "R23",
        "No sale lost, none doubled",
        "each sale acknowledged to a shop has its licenses, once; over 100 kills and 20 restarts "
        "of the database; 0 sets of events that end in other licenses in another order",
        "Shops send sales, renewals and refunds, each twice and in any order, to a server, or on PostgreSQL "
        "to one of two, while these are killed and the database restarts. Every sale that was accepted must "
        "have its licenses and its mail, each once, with the expiry that was paid for. Beside that, the pure "
        "rules take recorded and random events of each shop (sales, renewals, refunds, disputes, lines of "
        "subscriptions that change) in every order, and repeated: the same live licenses of each line, by "
        "number, policy, limits and expiry, must come of it, over HTTP, too. Shops, hands and policies "
        "change the same licenses at once over four servers. Licenses change hands, under kills and in any "
        "order with refunds, disputes, undo and new keys, against a model and beside a twin that does not. "
        "The control goes by the time of arrival.",
        (
            "tests/unit/test_shop_permutations.py",
            "tests/faults/test_shops_killed.py",
            "tests/faults/test_transfers_killed.py",
            "tests/concurrency/test_shop_sales.py",
            "tests/storage/test_ownership_model.py",
        ),
        headline=("kills", "restarts", "orders", "permutations"),
        bounds=_none("sales lost", "licenses doubled", "sets with another end"),
        files=("tests/data/shops",),
    ),
    Promise(
        "R24",
        "Every mail, once",
        "none lost over 100 kills; none sent twice but where the answer of the SMTP server was cut off, and "
        "these are counted",
        "The server is killed while it sends mails to an SMTP server that breaks off some of its own "
        "answers. What arrived is compared with the outbox by Message-ID.",
        ("tests/faults/test_mails_killed.py",),
        headline=("kills", "mails"),
        bounds=_none("lost", "sent twice and not counted"),
        has_control=False,
    ),
    Promise(
        "R25",
        "Webhooks report every event, in the order of each license",
        "none left out, none after a later one of its license, over 100 kills of two servers",
        "Two servers deliver to a receiver that fails now and then; one after the other is killed and "
        "started again. What arrived is compared with the log. How long after its commit an event is "
        "delivered, at 400 a second with missing ids and beside an import, is measured by "
        '`make bench ARGS="--database postgresql --processes 4 --only following"`.',
        ("tests/concurrency/test_webhooks_killed.py",),
        headline=("kills", "deliveries"),
        bounds=_none("left out"),
        has_control=False,
    ),
    Promise(
        "R26",
        "A closed period of usage is what was acknowledged, closed once, and never altered",
        "no difference over 100 kills of four servers, per database",
        "Sixteen programs count usage; meters get other periods, and time passes: the rows of all periods "
        "are set back by weeks. One server after the other is killed and started again. The journals of the "
        "programs are compared with all periods, and the closed periods with their events. "
        "The control alters the rows.",
        ("tests/faults/test_usage_killed.py", "tests/storage/test_usage.py"),
        headline=("kills", "calls", "periods"),
        bounds=_none(
            "usage missing",
            "usage counted twice",
            "closed twice",
            "closed without an event",
            "altered after the close",
        ),
    ),
    Promise(
        "R27",
        "A wrong clock destroys nothing",
        "0 tables that differ after a start or a jump by 400 days, and back",
        "A server is started with its clock 400 days ahead, and behind, on a database with something in "
        "every table; the clock of another one jumps there and back (libfaketime). Every table is compared, "
        "whole, but for leases and the counters of days, and nothing may have been sent. The control "
        "believes every clock.",
        ("tests/faults/test_wrong_clock.py",),
        headline=("tables that differ",),
        bounds=_none("tables that differ"),
    ),
    Promise(
        "R28",
        "Nobody gets a release that the license does not cover",
        "0 wrong answers of 1,000,000 generated cases, and 0 half uploads published over 100 kills, per "
        "database",
        "Releases, licenses, devices and programs are drawn; what the gate offers is compared with a model "
        "that is written otherwise: the newest covered release, or none. A server is killed in the middle of "
        "uploads; what has come is not published, and can be uploaded again.",
        ("tests/unit/test_update_gate.py", "tests/faults/test_upload_killed.py"),
        headline=("wrong answers", "half uploads published"),
        bounds=_none("wrong answers", "half uploads published"),
        has_control=False,
    ),
    Promise(
        "R29",
        "A client library always returns, and believes only the answer to its own question",
        "0 hangs, and 0 changes of what is kept: every library that makes calls, with every bad server, "
        "forged and foreign answer",
        "The libraries for Python, JavaScript, Go, PHP and C# ask servers that hang, drip, never end, "
        "redirect, break off, lie about their length, have a bad certificate, or have a name that is never "
        "resolved (but PHP's, which waits for the system): each call returns within its deadline, reads "
        "little, and leaves what is kept as it is. Then a relay between the library and a real server asks "
        "about another license key, device, product, entitlement or call, or adds an API key, and hands over "
        "what is signed: nothing of it is believed. Where nothing can be kept, no place is taken. The "
        "verifier in C makes no calls; it has the same cases in R22.",
        (
            "tests/clients/test_bad_servers.py",
            "tests/clients/test_forged_answers.py",
            "tests/clients/test_kept_files.py",
            "tests/clients/test_networks.py",
        ),
        headline=("calls", "forged and foreign answers"),
        bounds=(*_none("wrong", "changes"), Bound("seconds beyond the deadline", 0.5)),
        has_control=False,
        files=("clients", "tests/clients/drivers"),
    ),
    Promise(
        "R30",
        "A year of a vendor's life adds up",
        "no difference from an outside model's books after 400 days, three different years per database",
        "Two servers whose clock is set live through a vendor's days: a shop's sales, renewals, other seats "
        "and refunds, some reported twice; programs that activate, deactivate, validate, count usage, take "
        "leases and look for updates; places given by hand, releases, sign-ins of staff and customers, "
        "reminders and expiries. Every night, one server is killed or ends in good order. The books are a "
        "plain program of the tests that knows the documents, and nothing of Keywright's code. Each answer "
        "is compared with them at once; at the end of each month licenses, places, usage with its closed "
        "periods, mails and webhooks in the order of each license are, and the doctor finds nothing; at the "
        "end, a backup that is restored elsewhere is, too. The control is a server that forgets renewals.",
        ("tests/year",),
        headline=("days", "licenses", "webhooks", "mails", "periods", "differences"),
        bounds=_none("differences"),
    ),
    Promise(
        "R31",
        "An upgrade from the first release loses nothing",
        "0 rows lost of 200,000 licenses, with 10 migrations killed in the middle, per database",
        "The first release's own code, from the history of the repository, fills a database and serves "
        "programs that keep a journal. Beside it, servers of this version begin to migrate and are killed in "
        "the middle; then one comes to the end, and the old server goes on with the new schema. All rows "
        "from before and all that programs were told are there, and the doctor finds nothing; the same for "
        "the old release's backup, restored elsewhere. The control deletes a row.",
        ("tests/faults/test_first_release_upgraded.py",),
        headline=(
            "licenses",
            "migrations killed",
            "calls",
            "failed calls",
            "rows lost",
            "seconds to migrate",
        ),
        bounds=_none("rows lost"),
    ),
)
