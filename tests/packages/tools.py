"""What the tests here run beside Keywright: programs of npm, and of PyPI in an environment of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from tests.deploy.programs import give_up

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
NODE_MODULES = HERE / "node_modules"
_ENVIRONMENT = HERE / ".venv"
#: In seconds; a busy machine is no reason to fail.
_TIMEOUT = 300


def npm_program(name: str) -> str:
    """The path of a program that ``package.json`` names; npm installs it if it is missing."""
    return _installed(f".bin/{name}")


def npm_package(name: str) -> str:
    """The folder of a package that ``package.json`` names; npm installs it if it is missing."""
    return _installed(name)


def _installed(name: str) -> str:
    path = NODE_MODULES / name
    with FileLock(HERE / "node_modules.lock"):
        if not path.exists() and shutil.which("npm") is not None:
            subprocess.run(["npm", "ci"], cwd=HERE, check=False, capture_output=True, timeout=_TIMEOUT)
    if not path.exists():
        give_up("packages", f"no {name} here: npm ci --prefix tests/packages")
    return str(path)


def python_program(name: str) -> str:
    """The path of a program in the environment of ``requirements.lock``; pip makes it if it is missing."""
    ready = _ENVIRONMENT / ".ready"
    lock = HERE / "requirements.lock"
    with FileLock(HERE / "venv.lock"):
        if not ready.exists() or ready.stat().st_mtime < lock.stat().st_mtime:
            subprocess.run([sys.executable, "-m", "venv", "--clear", _ENVIRONMENT], check=True)
            pip = [str(_ENVIRONMENT / "bin" / "python"), "-m", "pip", "--quiet", "install"]
            install = [*pip, "--require-hashes", "-r", str(lock)]
            done = subprocess.run(install, check=False, capture_output=True, text=True, timeout=_TIMEOUT)
            if done.returncode != 0:
                give_up("packages", f"pip cannot install what the tests run: {done.stderr[-500:]}")
            ready.touch()
    return str(_ENVIRONMENT / "bin" / name)


def run(command: list[str], folder: Path, **environment: str) -> str:
    """The standard output of the program. Raises ``AssertionError`` with its words if it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout
