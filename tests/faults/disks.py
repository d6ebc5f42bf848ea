"""A disk so small that a test can fill it: a file system in memory (tmpfs).

Root mounts it where everybody sees it. Others mount it in a namespace of their own (unshare(1)): what is on
it is there only for who enters, so whatever touches it goes through ``Disk``.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.programs import REQUIRED, is_required
from tests.server import wait_until

_FILLER = "filler"
_PAGE = 4096
_IN_A_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")


class Disk:
    """A mounted file system; ``enter`` is what to put before a program that works on it."""

    def __init__(self, folder: Path, enter: Sequence[str] = ()) -> None:
        self.folder = folder
        self.enter = tuple(enter)

    def fill(self, *, leaving: int = 0) -> None:
        """Leave no more than that many bytes free."""
        pages = self.free // _PAGE - leaving // _PAGE + (0 if leaving else 1)
        if pages > 0:
            filler = f"of={self.folder / _FILLER}"
            more = ("oflag=append", "conv=notrunc")
            # It ends with an error when the disk is full.
            self._try("dd", "if=/dev/zero", filler, f"bs={_PAGE}", f"count={pages}", *more)
        assert self.free <= leaving

    def make_room(self) -> None:
        """Take back what ``fill`` has done."""
        self.run("rm", self.folder / _FILLER)

    def grow(self, megabytes: int) -> None:
        """Let it be so large from now on."""
        self.run("mount", "-o", f"remount,size={megabytes}m", self.folder)

    @property
    def free(self) -> int:
        """How many bytes are free."""
        return int(self.run("stat", "--file-system", "--format=%a", self.folder)) * _PAGE

    def put(self, folder: Path) -> None:
        """Copy what is in a folder onto the disk."""
        self.run("cp", "--archive", f"{folder}/.", self.folder)

    def take(self, folder: Path) -> Path:
        """Copy all that is on the disk into a new folder."""
        self.run("cp", "--archive", self.folder, folder)
        return folder

    def run(self, *command: str | Path) -> str:
        """Run a program that sees the disk; what it prints."""
        done = self._try(*command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _try(self, *command: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*self.enter, *command], capture_output=True, check=False, text=True)


@contextmanager
def a_disk(folder: Path, megabytes: int = 8) -> Iterator[Disk]:
    """A new disk in this folder, which is made.

    Skips the test where nothing may be mounted, or fails it if that must not be.
    """
    folder.mkdir()
    options = f"size={megabytes}m,mode=700"
    if _is_mounted(folder, options):
        try:
            yield Disk(folder)
        finally:
            _unmount(folder)
        return
    with _mount_in_namespace(folder, options) as enter:
        yield Disk(folder, enter)


@contextmanager
def move_to_disk(folder: Path, megabytes: int) -> Iterator[Disk]:
    """A folder's content is moved to a new disk in its place, where its owner may write. Only for root.

    It is all gone after the block.
    """
    before = folder.rename(folder.with_name(f"{folder.name}-before"))
    owner = before.stat()
    folder.mkdir()
    options = f"size={megabytes}m,mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    if os.geteuid() != 0 or not _is_mounted(folder, options):
        folder.rmdir()
        before.rename(folder)
        _skip("only root can give PostgreSQL a small disk")
    try:
        disk = Disk(folder)
        disk.put(before)
        shutil.rmtree(before)
        yield disk
    finally:
        _unmount(folder)


def _is_mounted(folder: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _unmount(folder: Path) -> None:
    # Whoever is still there loses it.
    subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def _mount_in_namespace(folder: Path, options: str) -> Iterator[list[str]]:
    words = f'mount -t tmpfs -o {options} tmpfs "$0" && echo mounted && exec sleep infinity'
    try:
        keeper = subprocess.Popen([*_IN_A_NAMESPACE, words, folder], stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        _skip("there is no unshare on this machine")
    with keeper:
        try:
            assert keeper.stdout is not None
            if keeper.stdout.readline() != "mounted\n":
                _skip("this user may not mount anything")
            keep = ("--user", "--mount", "--preserve-credentials")
            yield ["nsenter", *keep, "--target", str(keeper.pid), "--"]
        finally:
            keeper.kill()
            wait_until(lambda: keeper.poll() is not None, "the end of the namespace")


def _skip(why: str) -> None:
    if is_required("tmpfs"):
        pytest.fail(f"{why}, and {REQUIRED} asks for a tmpfs")
    pytest.skip(why)
