"""Find texts of pages that are not marked for translation, in templates and Python code."""

import ast
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path

from jinja2 import Environment, nodes

#: The functions whose arguments are translated.
MARKS = {"_", "N_", "gettext", "ngettext", "pgettext"}
#: Names that are the same in all languages.
_NAMES = set(
    "Keywright UTC Python Edge Opera Firefox Chrome Safari Android Windows Linux Keygen Gumroad".split()
) | {"Mac OS", "Lemon Squeezy", "Easy Digital Downloads"}
#: Texts that no page shows, or that are used when no page can be rendered.
_NOT_SHOWN = {
    "Allow",
    "It",
    "Environment",
    "Locale",
    "Keywright …",
    "…… – … from=…&to=…&zone=UTC",
    "License key is not valid for …",
    "Looked at ",
    "There is no such file.\n",
    "This address is too long.",
    "Something went wrong. The server's log has the details.",
}
_SHOWN_ATTRIBUTES = {"title", "aria-label", "placeholder", "alt", "label", "data-label"}
_VERBATIM = {"code", "pre", "script", "style"}
#: Stands for the value of an expression.
_VALUE = "\ufffc"
_WORD = re.compile(r"[^\W\d_]{2,}")
#: Matches sentences and labels, but no names of classes, fields or icons.
_LOOKS_SHOWN = re.compile(r"(?:\d+\. )?[A-Z][a-z]+( |$)|[A-Za-z]{2,} [a-z]{2,}.* |\w+ .*[a-z]{2,}[.!?]$")
#: Calls whose arguments no page shows.
_UNSEEN_CALLS = {"debug", "info", "warning", "exception", "compile", "TypeError", "TypeVar", "FateUnknown"}
#: Calls whose texts are mapped to sentences in http/pages/reasons.py.
_REASONS = {"ValueError", "explain"}


def in_template(source: str) -> list[str]:
    """Find words between tags, in attributes and in arguments that are not inside ``_()``."""
    tree = Environment(extensions=["jinja2.ext.i18n"], autoescape=True).parse(source)
    html = _Html()
    html.feed("".join(_skeleton(tree)))
    html.close()
    found = html.found + [text for text in _constants(tree) if _LOOKS_SHOWN.match(text)]
    return [text for text in found if text not in _NAMES | _NOT_SHOWN]


def in_python(source: str) -> list[str]:
    """Find strings that look like labels or sentences and are not inside ``_()`` or ``N_()``."""
    tree = ast.parse(source)
    return [text for text in _strings(tree) if _LOOKS_SHOWN.match(text) and text not in _NAMES | _NOT_SHOWN]


class _Html(HTMLParser):
    """Collects visible words."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._verbatim = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._verbatim += tag in _VERBATIM
        for name, value in attrs:
            if name in _SHOWN_ATTRIBUTES:
                self._look_at(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._verbatim -= tag in _VERBATIM

    def handle_data(self, data: str) -> None:
        if not self._verbatim:
            self._look_at(data)

    def _look_at(self, text: str) -> None:
        if set(_WORD.findall(text)) - _NAMES:
            self.found.append(" ".join(text.replace(_VALUE, "…").split()))


def _skeleton(node: nodes.Node) -> Iterator[str]:
    """Yield the HTML of a template, with a mark for each expression."""
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.TemplateData):
            yield child.data
        elif isinstance(child, nodes.Expr):
            yield _VALUE if isinstance(node, nodes.Output) else ""
        else:
            yield from _skeleton(child)


def _constants(node: nodes.Node) -> Iterator[str]:
    """Yield the strings in expressions, except those that are translated, compared or looked up."""
    if isinstance(node, nodes.Compare | nodes.Getitem | nodes.FromImport | nodes.Extends):
        return
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name in MARKS:
        return
    if isinstance(node, nodes.Const) and isinstance(node.value, str):
        yield node.value
    for child in node.iter_child_nodes():
        yield from _constants(child)


def _strings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and _name_of(node.func) in MARKS | _UNSEEN_CALLS | _REASONS:
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        # A docstring.
        return
    if isinstance(node, ast.JoinedStr):
        parts = (one.value if isinstance(one, ast.Constant) else "…" for one in node.values)
        yield "".join(map(str, parts))
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from _strings(child)


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def find_all(folders: Iterable[Path]) -> dict[Path, list[str]]:
    """Find the texts that are not marked, by file."""
    found = {}
    for folder in folders:
        for path in sorted((*folder.rglob("*.html"), *folder.rglob("*.py"))):
            look = in_template if path.suffix == ".html" else in_python
            if texts := look(path.read_text(encoding="utf-8")):
                found[path] = texts
    return found
