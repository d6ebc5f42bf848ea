"""Tasks in child processes: one at a time, and their outcome is stored."""

import os
import sys
from pathlib import Path
from queue import Queue

import pytest

from keywright.maintenance.tasks import State, Task, TaskRunner
from tests.tables import each_row

_TIMEOUT = 60


class Tasks:
    """A task runner, and the tasks that have ended."""

    def __init__(self, folder: Path) -> None:
        self.runner = TaskRunner(folder)
        self.ended: Queue[Task] = Queue()

    def start(self, program: str, kind: str = "backup", **environment: str) -> bool:
        command = (sys.executable, "-c", program)
        return self.runner.start(kind, command, {**os.environ, **environment}, self.ended.put)

    def run(self, program: str, **environment: str) -> Task:
        assert self.start(program, **environment)
        return self.ended.get(timeout=_TIMEOUT)


@pytest.fixture
def tasks(tmp_path: Path) -> Tasks:
    return Tasks(tmp_path / "tasks")


def test_the_output_of_a_task_is_kept(tasks: Tasks) -> None:
    task = tasks.run("import os; print('one\\n\\n  two  '); print(os.environ['MARK'])", MARK="…")
    assert (task.state, task.status) == (State.ENDED, 0)
    assert (task.lines, task.omitted_lines, task.last_line) == (("one", "two", "…"), 0, "…")
    assert task.error_output == ""
    assert task.ended_at is not None
    assert task.ended_at >= task.started_at
    assert tasks.runner.find("backup") == task
    assert tasks.runner.find("examination") is None
    assert not tasks.runner.is_busy()


@each_row(
    ("program", "status", "lines", "error_output"),
    [
        ("print('x'); sys.exit('the disk is full: \\udcff')", 1, ("x",), "the disk is full: \\udcff"),
        # Output that is not text does no harm.
        ("sys.stdout.buffer.write(b'\\xff\\xfe\\n')", 0, ("\ufffd\ufffd",), ""),
        ("sys.stderr.buffer.write(b'\\xff')", 0, (), "\ufffd"),
        ("os.kill(os.getpid(), 9)", -9, (), ""),
        # A task has a low priority.
        ("\nwhile not os.nice(0): time.sleep(0.001)\nprint(os.nice(0) > 0)", 0, ("True",), ""),
    ],
)
def test_a_task_ends_with_its_status_and_what_it_says(
    tasks: Tasks, program: str, status: int, lines: tuple[str, ...], error_output: str
) -> None:
    task = tasks.run(f"import os, sys, time; {program}")
    assert (task.state, task.status, task.lines) == (State.ENDED, status, lines)
    assert task.error_output.strip() == error_output


def test_without_a_task_there_is_no_folder(tmp_path: Path) -> None:
    runner = TaskRunner(tmp_path / "tasks")
    assert runner.find("backup") is None
    assert not runner.is_busy()
    assert not (tmp_path / "tasks").exists()


def test_of_a_long_output_the_first_lines_and_the_last_one_are_kept(tasks: Tasks) -> None:
    program = "[print(number) for number in range(50_000)]; print('x' * 100_000); print('the end')"
    task = tasks.run(program)
    assert task.lines == tuple(map(str, range(100)))
    assert task.omitted_lines > 49_900
    assert task.last_line == "the end"
    task = tasks.run("import sys; sys.stderr.write('x' * 1_000_000)")
    assert len(task.error_output) == 4_000


def test_one_task_runs_at_a_time(tasks: Tasks, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    assert tasks.start(f"open({str(gate)!r}).read(); print('back')")
    assert tasks.runner.is_busy()
    found = tasks.runner.find("backup")
    assert found is not None
    assert found.state is State.RUNNING
    assert not tasks.start("print('never')", kind="examination")
    # Another server process on this machine sees the same.
    assert TaskRunner(tmp_path / "tasks").is_busy()
    gate.write_text("go on")
    assert tasks.ended.get(timeout=_TIMEOUT).last_line == "back"
    assert tasks.start("print('now')", kind="examination")
    assert tasks.ended.get(timeout=_TIMEOUT).last_line == "now"


def test_a_program_that_does_not_exist_is_reported(tasks: Tasks) -> None:
    assert tasks.runner.start("backup", ("/no/such/program",), {}, tasks.ended.put)
    task = tasks.ended.get(timeout=_TIMEOUT)
    assert (task.status, task.error_output) == (1, "No such file or directory")


@pytest.mark.parametrize("text", ["", "{", '{"kind":1}', '{"kind":"backup","state":"odd","started_at":"x"}'])
def test_a_file_that_cannot_be_read_counts_as_no_task(tasks: Tasks, tmp_path: Path, text: str) -> None:
    tasks.run("print()")
    (tmp_path / "tasks" / "backup.json").write_text(text)
    assert tasks.runner.find("backup") is None


def test_a_task_whose_server_stopped_is_lost(tasks: Tasks, tmp_path: Path) -> None:
    tasks.run("print()")
    (tmp_path / "tasks" / "backup.json").write_text(
        '{"kind":"backup","state":"running","started_at":"2026-01-15T12:30:45Z"}'
    )
    found = tasks.runner.find("backup")
    assert found is not None
    assert (found.state, found.ended_at) == (State.LOST, None)
    assert tasks.run("print('again')").last_line == "again"
