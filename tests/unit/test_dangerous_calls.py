"""Keywright's code never runs texts as code or in a shell, unpickles objects, or writes values into SQL."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import keywright

SOURCE = Path(keywright.__file__).parent
#: Calls that run their argument, or create arbitrary objects from it.
_RUNNING = {"eval", "exec", "compile", "__import__", "system", "popen"}
_LOADING = {"pickle", "marshal", "shelve", "dill", "xml", "lxml", "yaml"}
_SQL = {"text", "exec_driver_sql", "execute", "executemany", "executescript"}
#: Only modules that match are parsed.
_SUSPECT = re.compile(
    r"\b(eval|exec|compile|__import__|system|popen)\(|shell|import .*(pickle|marshal|dill|xml|yaml)"
)
_SUSPECT_SQL = re.compile(r"\b(text|exec_driver_sql|execute\w*)\(\s*f?[\"']")
#: Modules that write table names and the operator's file names into SQL, but no caller's values.
_OF_OPERATORS = ("db/", "maintenance/", "demo")
#: What scripts may not do: run texts, store secrets, listen to other windows.
_SCRIPT = re.compile(
    r"\beval\(|new Function|document\.write|sessionStorage|indexedDB|postMessage|\(.message.,|__proto__"
)


def _name_of(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def list_dangers(source: str) -> Iterator[str]:
    """List the calls and imports of a module that could run or load a caller's data."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.removeprefix("os.") in _RUNNING:
                yield called
            if any(one.arg == "shell" for one in node.keywords):
                yield "shell"
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (one for one in names if one.partition(".")[0] in _LOADING)


def list_sql_of_values(source: str) -> Iterator[str]:
    """List the SQL statements that a function builds from its arguments."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                is_sql = isinstance(node, ast.Call) and _name_of(node) in _SQL and node.args
                if is_sql and isinstance(node.args[0], ast.JoinedStr | ast.BinOp):  # type: ignore[attr-defined]
                    yield ast.unparse(node)


def modules_with(suspect: re.Pattern[str]) -> dict[str, str]:
    files = {one.relative_to(SOURCE).as_posix(): one.read_text() for one in SOURCE.rglob("*.py")}
    found = {name: text for name, text in files.items() if suspect.search(text)}
    assert found
    return found


def test_no_code_runs_or_loads_what_it_is_sent() -> None:
    found = {name: [*list_dangers(text)] for name, text in modules_with(_SUSPECT).items()}
    assert {name: some for name, some in found.items() if some} == {}


def test_no_value_is_written_into_sql() -> None:
    found = {
        name: [*list_sql_of_values(text)]
        for name, text in modules_with(_SUSPECT_SQL).items()
        if not name.startswith(_OF_OPERATORS)
    }
    assert {name: some for name, some in found.items() if some} == {}


def test_what_is_dangerous_is_found() -> None:
    planted = "import pickle\nimport xml.etree as e\neval(x)\nos.system(x)\nrun(x, shell=True)\n"
    assert [*list_dangers(planted)] == ["pickle", "xml.etree", "eval", "os.system", "shell"]
    assert [*list_dangers("re.compile(x)\nimport json\n")] == []
    planted = "def f(x):\n    tx.execute(f'SELECT {x}')\n    tx.execute(text('SELECT ' + x))\n"
    assert len([*list_sql_of_values(planted)]) == 2
    assert [*list_sql_of_values("A = text(f'SELECT {B}')\ndef f(x):\n    tx.execute(A, x)\n")] == []


def test_scripts_of_pages_run_no_texts_and_keep_no_secrets() -> None:
    scripts = {one.name: one.read_text() for one in SOURCE.rglob("*.js")}
    assert {"admin.js", "find.js", "page.js"} <= scripts.keys()
    assert {name: _SCRIPT.findall(text) for name, text in scripts.items() if _SCRIPT.search(text)} == {}
    kept = {name: re.findall(r"localStorage\.setItem\((\w+)", text) for name, text in scripts.items()}
    assert {name: some for name, some in kept.items() if some} == {"page.js": ["key"]}, "the tab that is open"
