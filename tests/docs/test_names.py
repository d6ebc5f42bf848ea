"""The documents name what exists: sentences, commands, targets of make, source files."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keywright import __version__
from keywright.cli.program import command_tree
from keywright.db.migrate import HEAD, OLDEST_COMPATIBLE
from tests.docs.test_documents import DOCUMENTS, ROOT, blocks

SOURCE = ROOT / "src" / "keywright"
TROUBLESHOOT = ROOT / "docs" / "how-to" / "troubleshoot.md"
VERSIONS = ROOT / "docs" / "reference" / "versions.md"
SPAN = re.compile(r"`([^`\n]+)`")
#: A value in a sentence: of an f-string, of str.format, of a template, of a log message.
VALUE = re.compile(r"\{\{.*?\}\}|\{[^{}]*\}|%\.?\d*[sdf]")
PROGRAM: Any = command_tree()


def code(document: Path) -> list[str]:
    """Return the document's spans of code, and the lines of its shell blocks."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks(document, "sh") for line in block.splitlines()]
    return [*SPAN.findall(text), *lines]


# --- sentences ------------------------------------------------------------------------------------


def sentences_of(source: str) -> Iterator[str]:
    """Yield every text of a module, with ``…`` for values."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "…" for one in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield VALUE.sub("…", node.value)


def every_sentence() -> list[str]:
    modules = (text for file in SOURCE.rglob("*.py") for text in sentences_of(file.read_text()))
    templates = (VALUE.sub("…", file.read_text()) for file in SOURCE.rglob("*.html"))
    return [text.casefold() for text in (*modules, *templates) if " " in text]


def is_said(quoted: str, sentences: list[str]) -> bool:
    """Return whether one sentence has these words in this order, whatever its values are."""
    pieces = [re.escape(one.strip()) for one in quoted.casefold().removeprefix("warning: ").split("…")]
    pattern = re.compile(".*".join(pieces), re.DOTALL)
    return any(pattern.search(one) for one in sentences)


def list_quoted_sentences() -> list[str]:
    """Return the sentences of the tables' columns whose heading is "message …" or ends with "see"."""
    found, columns = [], set[int]()
    for line in TROUBLESHOOT.read_text().splitlines():
        cells = [one.strip() for one in line.strip("|").split("|")] if line.startswith("|") else []
        headings = {at for at, cell in enumerate(cells) if cell.startswith("message") or cell.endswith("see")}
        columns = headings or (columns if cells else set())
        spans = (span for at in columns - headings for span in SPAN.findall(cells[at]))
        found += [span for span in spans if " " in span]
    return found


def test_every_quoted_sentence_of_the_troubleshooting_page_is_in_the_code() -> None:
    quoted, said = list_quoted_sentences(), every_sentence()
    assert len(quoted) > 50
    assert [one for one in quoted if not is_said(one, said)] == []


def test_a_sentence_that_is_said_nowhere_is_found() -> None:
    said = list(sentences_of("f'the port {port} is taken by {name}.'"))
    assert is_said("The port … is taken", said)
    assert not is_said("the port … was taken", said)


def test_every_label_that_the_page_about_the_pages_names_is_on_one() -> None:
    page = (ROOT / "docs" / "how-to" / "work-with-the-pages.md").read_text()
    labels = set(re.findall(r"(?<![*\w])\*([A-Z][\w ]+)\*(?!\*)", page))
    files = [*(SOURCE / "http" / "admin").rglob("*.html"), *(SOURCE / "http" / "admin").rglob("*.py")]
    shown = "".join(file.read_text() for file in files)
    assert {"My account", "Free all"} <= labels
    assert {one for one in labels if f'"{one}"' not in shown and f">{one}<" not in shown} == set()


# --- commands, targets, files ---------------------------------------------------------------------


def unknown_words(line: str) -> list[str]:
    """Return the words of a ``keywright`` command line that are no command and no option of it."""
    words = line.split()
    at = next((n for n, one in enumerate(words) if one.endswith("/bin/keywright")), 0)
    if words[at].rpartition("/")[2] != "keywright":
        return []
    command, unknown = PROGRAM, []
    for word in words[at + 1 :]:
        if word in ("|", ">", "&&", "||", ";"):
            break
        name = word.partition("=")[0]
        if word.startswith("--"):
            known = {option for one in command.params for option in one.opts}
            unknown += [] if name in {*known, "--help"} else [name]
        elif name in getattr(command, "commands", {}):
            command = command.commands[name]
        elif hasattr(command, "commands") and name.islower():
            return [name]
    return unknown


def test_every_command_that_a_document_names_exists() -> None:
    lines = [line for document in DOCUMENTS for line in code(document)]
    assert {line: found for line in lines if (found := unknown_words(line))} == {}


def test_a_command_and_an_option_that_do_not_exist_are_found() -> None:
    assert unknown_words(".venv/bin/keywright licence list --data-dir x") == ["licence"]
    assert unknown_words("keywright license show KEY --jason") == ["--jason"]


def test_every_target_of_make_that_a_document_names_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = {
        word for one in DOCUMENTS for text in code(one) for word in re.findall(r"\bmake ([a-z-]+)", text)
    }
    assert {"serve", "test"} <= named
    assert named <= set(targets)


def test_every_source_file_that_a_document_names_exists() -> None:
    named = {span for one in DOCUMENTS for span in code(one) if re.fullmatch(r"[\w/.-]+\.py", span)}
    folders = [ROOT / one for one in ("src", "converter", "tests", "proofs", "tools", "benchmarks", "drill")]
    files = [f"/{file.relative_to(ROOT)}" for folder in folders for file in folder.rglob("*.py")]
    missing = {one for one in named if not any(file.endswith(f"/{one}") for file in files)}
    # The tutorials' own programs.
    assert missing == {"fake.py", "hello.py", "team.py"}


def test_the_way_back_names_this_version_and_its_schema() -> None:
    rows = re.findall(r"^\| (\d\S+) \| (\d+) \| (\d+) \|$", VERSIONS.read_text(), re.MULTILINE)
    version, schema, oldest = rows[-1]
    assert (version, oldest) == (__version__, OLDEST_COMPATIBLE)
    assert schema <= HEAD


def test_every_decision_that_is_named_exists_and_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    there = {file.name for file in folder.glob("[0-9]*.md")}
    assert set(re.findall(r"\]\((\d+-[\w-]+\.md)\)", (folder / "README.md").read_text())) == there
    texts = [file.read_text() for one in ("src", "tests") for file in (ROOT / one).rglob("*.py")]
    named = {number for text in texts for number in re.findall(r"\bdecisions?[ /](\d{3})", text)}
    assert named
    assert named <= {name[:3] for name in there}
