"""Run the tests of a module with each of its mutants, to find out which they notice.

Each trial is a separate process, forked from one that has loaded everything except Keywright and its tests,
so that it takes hardly longer than the tests themselves. An import hook replaces the module by the mutant; no
file is written.
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

#: A trial that sleeps this long, in seconds, waits forever; the machine's load does not matter.
_ASLEEP = 8.0
#: The limit of a trial's processor time: a multiple of that without a fault, plus some seconds.
_TIMES, _SECONDS = 5.0, 10.0
#: The limit of a trial's memory, in bytes.
_ROOM = 4 << 30
_NEVER_LOADED, _BROKEN = 98, 99
#: The environment variables that request the long form of a promise, and a record of it.
_OF_THE_PROOF = ("LONG_PROOFS", "PROOFS_FILE")
#: The modules that declare fields of nouns.
_DECLARING = ("provisioning.customers", "provisioning.products")


class Name(NamedTuple):
    """Identifies a mutant, independent of its line."""

    module: str
    where: str
    was: str
    became: str


@dataclass(frozen=True)
class Subject:
    """A module, and the tests that pytest runs for it in the folder ``root``."""

    name: str
    module: str
    source: Path
    tests: tuple[str, ...]
    root: Path
    #: Other modules that the tests import, to load once for all trials.
    warm: tuple[str, ...] = ()


@dataclass
class Findings:
    """The outcomes of a module's mutants."""

    mutants: int = 0
    killed: int = 0
    #: How many of the killed would never have ended.
    endless: int = 0
    survivors: list[Name] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of mutants that were killed."""
        return self.killed / self.mutants if self.mutants else 1.0


def examine(subject: Subject, *, part: float = 1.0, processes: int = 1) -> Findings:
    """Try this share of the module's mutants. Raises ``RuntimeError`` if the tests fail without a fault."""
    for module in ("hypothesis", "pytest", "pytest_timeout", *subject.warm):
        importlib.import_module(module)
    source = subject.source.read_text()
    seconds = _without_a_fault(subject, source)
    named = names_of(subject.name, source)
    # A random sample with a fixed seed.
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
    """List the mutants with their names; numbers distinguish equal names. Of a module that declares fields,
    only mutants in functions are included: tests of the documents cover its descriptions, and tests of the
    nouns its classes.
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
    """Run the tests without a fault, and return their processor time."""
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
    """Yield the exit status of the tests with each mutant, or minus the signal that ended them."""
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
    """The tests in a separate process, with ``code`` instead of the module's source."""

    def __init__(self, subject: Subject, code: Any, seconds: float) -> None:
        """``seconds`` limits the processor time."""
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
        """Whether the trial has ended; kill it if it sleeps forever."""
        pid, status, usage = os.wait4(self._pid, os.WNOHANG)
        if pid == 0:
            if self._is_asleep():
                os.kill(self._pid, signal.SIGKILL)
            return False
        self.seconds = usage.ru_utime + usage.ru_stime
        self._end(status)
        return True

    def result(self) -> int:
        """The exit status: 0 if the tests passed; minus the signal that ended them, if one did."""
        assert self.status is not None
        if self.status in (_NEVER_LOADED, _BROKEN):
            raise RuntimeError(f"{self._subject.module} was not tried ({self.status}):\n{self.output}")
        return self.status

    def abandon(self) -> None:
        """Kill the trial; its result is not needed."""
        if self.status is None:
            os.kill(self._pid, signal.SIGKILL)
            _, status = os.waitpid(self._pid, 0)
            self._end(status)

    def _end(self, status: int) -> None:
        self.status = os.waitstatus_to_exitcode(status)
        # Kill remaining processes that the tests started.
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
    """Run the trial in the forked process."""
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

    # Run the short form of the tests, even within the long form of a promise.
    for name in _OF_THE_PROOF:
        os.environ.pop(name, None)
    sys.modules.pop("tests.proving", None)
    # Use the same cases for all mutants, and do not shrink failures.
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", derandomize=True, database=None, deadline=None, phases=phases)
    settings.load_profile("mutants")
    options = ["-x", "-q", "--no-header", "--tb=line", "--timeout", "0", f"--basetemp={folder / 'tests'}"]
    # Disable plugins and features that take time and are not needed.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options += ["--assert=plain", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "pytest_timeout"]
    return int(pytest.main([*options, *subject.tests]))


class _Loader(SourceFileLoader):
    """Loads a module from code instead of its file."""

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
