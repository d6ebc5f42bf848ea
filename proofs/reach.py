"""Find the files that a promise uses, by the imports of its tests, and how many have changed since a commit.

Templates, catalogs, static files and documents do not count; other files count if the promise names them. A
change of only comments or docstrings does not count.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from proofs.promises import Promise
from proofs.results import Changes

ROOT = Path(__file__).parents[1]
#: The folders with packages of Keywright.
_FOLDERS = ("src/", "converter/", "clients/python/", "")
#: Matches a text that names a module, like the table of commands (``server.add_to``), or a folder, like
#: Alembic (``keywright.db:migrations``).
_NAMED = re.compile(r"[a-z]\w*([.:]\w+)+")
#: The text in test modules that start a Keywright process, and the module that this process imports.
_PROGRAM, _COMMANDS = "keywright", "keywright.cli"
#: Files that all promises use.
_ALWAYS = ("requirements.lock", "tests/conftest.py")


def find_commit() -> str:
    """The abbreviated commit that is checked out, with ``+`` if code is modified; ``unknown`` without git."""
    with suppress(OSError, subprocess.CalledProcessError):
        altered = _git("status", "--porcelain", "--", ".", ":!proofs/results", ":!docs")
        return _git("rev-parse", "--short", "HEAD").strip() + ("+" if altered else "")
    return "unknown"


def find_changes(promise: Promise, commit: str) -> Changes:
    """Count the promise's files that have changed since this commit: None if the commit is not in the
    history, or its code was modified.
    """
    files = files_of(promise)
    try:
        _git("merge-base", "--is-ancestor", commit, "HEAD")
        changed = _git("diff", "--name-only", "--no-renames", commit, "HEAD").splitlines()
    except (OSError, subprocess.CalledProcessError):
        return Changes(None, len(files))
    head = _git("rev-parse", "HEAD").strip()
    return Changes(sum(_is_changed(file, commit, head) for file in files.intersection(changed)), len(files))


@cache
def files_of(promise: Promise) -> frozenset[str]:
    """All files that a promise uses, by their paths in git."""
    names = (*promise.shown, *promise.files, *_ALWAYS)
    waiting = [
        file
        for file in _all_files()
        if any(file == one or file.startswith(f"{one}/") for one in names) and not file.endswith(".md")
    ]
    found: set[str] = set()
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _list_imported(file) if file.endswith(".py") else ()
    return frozenset(found)


@cache
def _is_changed(file: str, before: str, after: str) -> bool:
    """Whether a file differs between two commits; for a module, whether its statements do."""
    try:
        old, new = (_git("show", f"{commit}:{file}") for commit in (before, after))
    except subprocess.CalledProcessError:
        return True
    return not file.endswith(".py") or _statements(old) != _statements(new)


def _statements(module: str) -> str:
    """The statements of a module, without its docstrings."""
    tree = ast.parse(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            ast.get_docstring(node, clean=False) is not None
        ):
            del node.body[0]
    return ast.dump(tree)


@cache
def _all_files() -> frozenset[str]:
    return frozenset(_git("ls-files").splitlines())


@cache
def _list_imported(file: str) -> tuple[str, ...]:
    """The files that a module imports, including inside functions, or names in a text."""
    package, _, _ = file.rpartition("/")
    above, _, name = package.rpartition("/")
    found: list[str] = []
    for node in ast.walk(ast.parse((ROOT / file).read_bytes())):
        match node:
            case ast.Import():
                found += (one for alias in node.names for one in _list_module(alias.name))
            case ast.ImportFrom():
                found += (one for alias in node.names for one in _list_module(f"{node.module}.{alias.name}"))
            case ast.Constant(value=str(text)) if text == _PROGRAM and not file.startswith("src/"):
                found += _list_module(_COMMANDS)
            case ast.Constant(value=str(text)) if _NAMED.fullmatch(text):
                found += _list_module(text, (*_FOLDERS, f"{package}/"))
            case ast.Name(id="__path__"):
                found += _list_module(f"{name}:", (f"{above}/",))
    return tuple(found)


@cache
def _list_module(name: str, folders: tuple[str, ...] = _FOLDERS) -> tuple[str, ...]:
    """The files that importing this module executes: those of its packages, and its own. The last part may be
    a name in a module; a part after a colon is a folder, in which all modules count.
    """
    return tuple(file for folder in folders for file in _in_folder(name, folder) if file in _all_files())


def _in_folder(name: str, path: str) -> Iterator[str]:
    name, colon, below = name.partition(":")
    for part in name.split("."):
        path += part
        yield f"{path}.py"
        path += "/"
        yield f"{path}__init__.py"
    # ``-m`` runs this, unlike an import of another module in the package.
    yield f"{path}__main__.py"
    if colon:
        yield from (one for one in _all_files() if one.startswith(path + below) and one.endswith(".py"))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout
