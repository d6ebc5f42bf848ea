"""Run the tests of a module with each of its mutants: which ones do they notice?

Every trial is a process of its own, forked from one that has loaded everything but Keywright and its tests,
so that it takes hardly longer than the tests themselves. The mutant is put in the module's place when the
tests import it; no file is written.
"""

import importlib
import importlib.util
import math
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple, NoReturn

import psutil

from proofs.mutants import Mutant, mutants_of

#: Who sleeps so long waits for what never comes, in seconds; how busy the machine is makes no difference.
_ASLEEP = 8.0
#: How much processor time a trial may take: so many times what the tests take without a fault, and seconds.
_TIMES, _SECONDS = 5.0, 10.0
#: How much memory, in bytes.
_ROOM = 4 << 30
_NEVER_LOADED, _BROKEN = 98, 99
#: Variables that ask for the long form of a promise, and for a record of it.
_OF_THE_PROOF = ("LONG_PROOFS", "PROOFS_FILE")
#: The modules that declare what may be set.
_DECLARING = ("provisioning.customers", "provisioning.products")


class Name(NamedTuple):
    """What a mutant is known by, wherever in the file it stands."""

    module: str
    where: str
    was: str
    became: str


@dataclass(frozen=True)
class Subject:
    """A module, and what pytest is told to run for it in the folder ``root``."""

    name: str
    module: str
    source: Path
    tests: tuple[str, ...]
    root: Path
    #: What the tests import beside it, so that it is loaded once for all trials.
    warm: tuple[str, ...] = ()


@dataclass
class Findings:
    """What became of the mutants of a module."""

    mutants: int = 0
    killed: int = 0
    #: Of those, the ones that would never have come to an end.
    endless: int = 0
    survivors: list[Name] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The part that was noticed."""
        return self.killed / self.mutants if self.mutants else 1.0


def examine(subject: Subject, *, part: float = 1.0, processes: int = 1) -> Findings:
    """Try this part of the module's mutants. Raises ``RuntimeError`` when the tests fail without a fault."""
    for module in ("hypothesis", "pytest", "pytest_timeout", *subject.warm):
        importlib.import_module(module)
    source = subject.source.read_text()
    seconds = _without_a_fault(subject, source)
    named = names_of(subject.name, source)
    # Chosen by lot, but always the same ones.
    some = random.Random(0).sample(range(len(named)), math.ceil(len(named) * part))
    findings = Findings()
    chosen = [named[index] for index in sorted(some)]
    for name, status in _try_all(subject, chosen, seconds * _TIMES + _SECONDS, processes):
        findings.mutants += 1
        if status == 0:
            findings.survivors.append(name)
        else:
            findings.killed += 1
            findings.endless += status in (-signal.SIGKILL, -signal.SIGXCPU)
    return findings


def names_of(module: str, source: str) -> list[tuple[Name, Mutant]]:
    """Each mutant with its name; where several would have the same one, with a number. Of a module that
    declares fields, those of its functions: its descriptions are for readers, and held by tests of the
    documents; its classes, by those of the nouns.
    """
    named = []
    times: dict[Name, int] = {}
    for one in mutants_of(source):
        if module in _DECLARING and not one.where.rpartition(".")[2].lstrip("_")[:1].islower():
            continue
        name = Name(module, one.where, one.was, one.became)
        times[name] = times.get(name, 0) + 1
        if times[name] > 1:
            name = name._replace(where=f"{one.where} #{times[name]}")
        named.append((name, one))
    return named


def _without_a_fault(subject: Subject, source: str) -> float:
    """How much processor time the tests take."""
    trial = _Trial(subject, source, 600)
    try:
        while not trial.is_over():
            time.sleep(0.02)
    finally:
        trial.abandon()
    if trial.status != 0:
        tests = " ".join(subject.tests)
        raise RuntimeError(f"without a fault, pytest {tests} ends with {trial.status}:\n{trial.output}")
    return trial.seconds


def _try_all(
    subject: Subject, named: Sequence[tuple[Name, Mutant]], seconds: float, processes: int
) -> Iterator[tuple[Name, int]]:
    """The exit status of the tests with each mutant, or minus the signal that made an end of them."""
    waiting = list(reversed(named))
    running: dict[Name, _Trial] = {}
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                name, mutant = waiting.pop()
                running[name] = _Trial(subject, mutant.tree, seconds)
            time.sleep(0.02)
            for name, trial in list(running.items()):
                if trial.is_over():
                    del running[name]
                    yield name, trial.result()
    finally:
        for trial in running.values():
            trial.abandon()


class _Trial:
    """The tests, in a process of their own, with a module as ``code`` has it."""

    def __init__(self, subject: Subject, code: Any, seconds: float) -> None:
        """``seconds``: so much processor time it may take."""
        self._subject = subject
        self._folder = Path(tempfile.mkdtemp(prefix="keywright-mutant-"))
        self._pid = os.fork()
        if self._pid == 0:
            _be_a_trial(subject, code, seconds, self._folder)
        self._process = psutil.Process(self._pid)
        self._worked, self._worked_at = 0.0, time.monotonic()
        self.seconds = 0.0
        self.status: int | None = None
        self.output = ""

    def is_over(self) -> bool:
        """Whether it has come to an end; if it sleeps for ever, it is brought to it."""
        pid, status, usage = os.wait4(self._pid, os.WNOHANG)
        if pid == 0:
            if self._is_asleep():
                os.kill(self._pid, signal.SIGKILL)
            return False
        self.seconds = usage.ru_utime + usage.ru_stime
        self._end(status)
        return True

    def result(self) -> int:
        """0 where the tests passed; minus the signal that made an end of them, if one did."""
        assert self.status is not None
        if self.status in (_NEVER_LOADED, _BROKEN):
            raise RuntimeError(f"{self._subject.module} was not tried ({self.status}):\n{self.output}")
        return self.status

    def abandon(self) -> None:
        """Kill it; its result is not needed."""
        if self.status is None:
            os.kill(self._pid, signal.SIGKILL)
            _, status = os.waitpid(self._pid, 0)
            self._end(status)

    def _end(self, status: int) -> None:
        self.status = os.waitstatus_to_exitcode(status)
        # What the tests have started, if there is anything left of it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        with suppress(FileNotFoundError):
            self.output = (self._folder / "output").read_text(errors="replace")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _is_asleep(self) -> bool:
        used = self._process.cpu_times()
        worked = used.user + used.system
        if worked > self._worked or self._process.status() != psutil.STATUS_SLEEPING:
            self._worked, self._worked_at = worked, time.monotonic()
        return time.monotonic() - self._worked_at > _ASLEEP


def _be_a_trial(subject: Subject, code: Any, seconds: float, folder: Path) -> NoReturn:
    """What the new process does."""
    status = _BROKEN
    try:
        os.setsid()
        for request in (signal.SIGTERM, signal.SIGINT):
            signal.signal(request, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 5))
        resource.setrlimit(resource.RLIMIT_AS, (_ROOM, _ROOM))
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(subject.root)
        loader = _Loader(subject, code)
        sys.meta_path.insert(0, _Finder(subject.module, loader))
        status = _run_tests(subject, folder)
        if not loader.has_begun:
            status = _NEVER_LOADED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run_tests(subject: Subject, folder: Path) -> int:
    import pytest
    from hypothesis import Phase, settings

    # Their short form, also where the long form of a promise is running.
    for name in _OF_THE_PROOF:
        os.environ.pop(name, None)
    sys.modules.pop("tests.proving", None)
    # The same cases for every mutant, and no search for the shortest one.
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", derandomize=True, database=None, deadline=None, phases=phases)
    settings.load_profile("mutants")
    options = ["-x", "-q", "--no-header", "--tb=line", "--timeout", "0", f"--basetemp={folder / 'tests'}"]
    # Without what takes time and is of no use here.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options += ["--assert=plain", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "pytest_timeout"]
    return int(pytest.main([*options, *subject.tests]))


class _Loader(SourceFileLoader):
    """Loads a module from this code instead of its file."""

    def __init__(self, subject: Subject, code: Any) -> None:
        super().__init__(subject.module, str(subject.source))
        self._code = code
        self.has_begun = False

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._code, self.path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        self.has_begun = True
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def __init__(self, module: str, loader: _Loader) -> None:
        self._module, self._loader = module, loader

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        return importlib.util.spec_from_file_location(fullname, self._loader.path, loader=self._loader)
