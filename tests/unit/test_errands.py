"""Child processes that are sent by a page: one at a time, and what has become of each."""

import os
import sys
from pathlib import Path
from queue import Queue

import pytest

from keywright.core.errors import NoSuchAddress
from keywright.http.admin.backups import Backups, pieces_of
from keywright.http.admin.tasks import Errand, Errands, State
from tests.makers import NOW

_PATIENCE = 60


class Office:
    """Errands, and a queue of those that have ended."""

    def __init__(self, folder: Path) -> None:
        self.errands = Errands(folder)
        self.ended: Queue[Errand] = Queue()

    def send(self, program: str, kind: str = "backup", **environment: str) -> bool:
        command = (sys.executable, "-c", program)
        return self.errands.begin(kind, command, {**os.environ, **environment}, self.ended.put)

    def done(self, program: str, **environment: str) -> Errand:
        assert self.send(program, **environment)
        return self.ended.get(timeout=_PATIENCE)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "errands")


def test_what_it_says_is_kept(office: Office) -> None:
    errand = office.done("import os; print('one\\n\\n  two  '); print(os.environ['MARK'])", MARK="…")
    assert (errand.state, errand.status) == (State.ENDED, 0)
    assert (errand.lines, errand.unkept, errand.verdict) == (("one", "two", "…"), 0, "…")
    assert errand.complaint == ""
    assert errand.ended_at is not None
    assert errand.ended_at >= errand.began_at
    assert office.errands.find("backup") == errand
    assert office.errands.find("examination") is None
    assert not office.errands.is_busy()


def test_nothing_was_done_where_nobody_was_sent(tmp_path: Path) -> None:
    errands = Errands(tmp_path / "errands")
    assert errands.find("backup") is None
    assert not errands.is_busy()
    assert not (tmp_path / "errands").exists()


def test_a_complaint_is_kept(office: Office) -> None:
    errand = office.done("import sys; print('x'); sys.exit('the disk is full: \\udcff')")
    assert errand.status == 1
    assert errand.complaint.startswith("the disk is full")
    assert errand.lines == ("x",)


def test_of_very_much_the_first_and_the_last_is_kept(office: Office) -> None:
    program = "[print(number) for number in range(50_000)]; print('x' * 100_000); print('the end')"
    errand = office.done(program)
    assert errand.lines == tuple(map(str, range(100)))
    assert errand.unkept > 49_900
    assert errand.verdict == "the end"
    errand = office.done("import sys; sys.stderr.write('x' * 1_000_000)")
    assert len(errand.complaint) == 4_000


def test_what_is_no_text_does_no_harm(office: Office) -> None:
    errand = office.done(
        "import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.stderr.buffer.write(b'\\xff')"
    )
    assert errand.lines == ("\ufffd\ufffd",)
    assert errand.complaint == "\ufffd"


def test_one_is_on_the_way_at_a_time(office: Office, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    assert office.send(f"open({str(gate)!r}).read(); print('back')")
    assert office.errands.is_busy()
    found = office.errands.find("backup")
    assert found is not None
    assert found.state is State.RUNNING
    assert not office.send("print('never')", kind="examination")
    # Another server process on this machine sees the same.
    assert Errands(tmp_path / "errands").is_busy()
    gate.write_text("go on")
    assert office.ended.get(timeout=_PATIENCE).verdict == "back"
    assert office.send("print('now')", kind="examination")
    assert office.ended.get(timeout=_PATIENCE).verdict == "now"


def test_whoever_is_killed_has_ended(office: Office) -> None:
    errand = office.done("import os; os.kill(os.getpid(), 9)")
    assert (errand.state, errand.status) == (State.ENDED, -9)


def test_it_is_said_when_there_is_no_program(office: Office) -> None:
    assert office.errands.begin("backup", ("/no/such/program",), {}, office.ended.put)
    errand = office.ended.get(timeout=_PATIENCE)
    assert (errand.status, errand.complaint) == (1, "No such file or directory")


def test_others_go_before_it(office: Office) -> None:
    program = "import os, time\nwhile not os.nice(0): time.sleep(0.001)\nprint(os.nice(0) > 0)"
    assert office.done(program).verdict == "True"


@pytest.mark.parametrize("text", ["", "{", '{"kind":1}', '{"kind":"backup","state":"odd","began_at":"x"}'])
def test_a_file_that_cannot_be_read_tells_nothing(office: Office, tmp_path: Path, text: str) -> None:
    office.done("print()")
    (tmp_path / "errands" / "backup.json").write_text(text)
    assert office.errands.find("backup") is None


def test_what_nobody_saw_end_is_lost(office: Office, tmp_path: Path) -> None:
    office.done("print()")
    (tmp_path / "errands" / "backup.json").write_text(
        '{"kind":"backup","state":"running","began_at":"2026-01-15T12:30:45Z"}'
    )
    found = office.errands.find("backup")
    assert found is not None
    assert (found.state, found.ended_at) == (State.LOST, None)
    assert office.done("print('again')").verdict == "again"


def test_backups_are_the_files_of_their_names(tmp_path: Path) -> None:
    backups = Backups(tmp_path / "backups")
    assert backups.all() == []
    assert backups.unfinished() == 0
    path = backups.prepare(NOW)
    assert path == tmp_path / "backups" / "keywright-20260115-123045.tar"
    path.write_bytes(b"x" * 3_000_000)
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))
    (tmp_path / "backups" / "keywright-20250101-000000.tar").write_bytes(b"older")
    (tmp_path / "backups" / "keywright-copy.tar").write_bytes(b"")
    (tmp_path / "backups" / ".keywright-1").mkdir()
    (tmp_path / "backups" / ".keywright-1" / "payload").write_bytes(b"12345")
    assert [one.name for one in backups.all()] == [path.name, "keywright-20250101-000000.tar"]
    assert backups.all()[0][1:] == (3_000_000, NOW, None)
    assert backups.unfinished() == 5
    assert backups.find(path.name) == path
    assert [len(one) for one in pieces_of(path)] == [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]


def test_copies_of_the_database_are_the_files_of_their_names(tmp_path: Path) -> None:
    database = tmp_path / "our.data" / "a.b (1).db"
    copies = Backups(tmp_path / "backups", database)
    assert copies.all() == []
    folder = copies.folder_of_copies
    assert folder == database.parent / "backups"
    folder.mkdir(parents=True)
    names = [f"a.b (1)-schema-{one}-2026011{one[-1]}T000000Z.db" for one in ("0001", "0002")]
    for name in [*names, "a.b (1)-schema-0003.db", "aXb (1)-schema-0001-20260111T000000Z.db", "a.b (1).db"]:
        (folder / name).write_bytes(b"x")
    (folder / "a.b (1)-schema-0003-20260113T000000Z.db").mkdir()
    assert [(one.name, one.schema) for one in copies.all()] == [(names[1], "0002"), (names[0], "0001")]
    assert copies.find(names[0]) == folder / names[0]
    for name in ("a.b (1).db", "../a.b (1).db", "a.b (1)-schema-0003-20260113T000000Z.db"):
        with pytest.raises(NoSuchAddress):
            copies.find(name)
    # The database may be anywhere, and not all there is beside it is ours.
    assert Backups(tmp_path / "backups").all() == []


def test_backups_and_copies_are_listed_by_when_they_were_made(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    names = [
        "keywright-20260301-000000.tar",
        "keywright-schema-0002-20260201T000000Z.db",
        "keywright-20260101-000000.tar",
    ]
    for name in names:
        (folder / name).touch()
    assert [one.name for one in Backups(folder, tmp_path / "keywright.db").all()] == names


@pytest.mark.parametrize(
    "name", ["", "..", "../secret", "keywright-copy.tar", "keywright-20260101-000000.tar"]
)
def test_nothing_else_is_a_backup(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("mine")
    backups = Backups(tmp_path / "backups")
    backups.prepare(NOW)
    (tmp_path / "backups" / "keywright-copy.tar").write_bytes(b"")
    with pytest.raises(NoSuchAddress):
        backups.find(name)
