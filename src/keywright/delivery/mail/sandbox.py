"""Renders the vendor's templates, which can read only the values passed to them.

Jinja2's sandbox keeps a template away from Python's internals. A whitelist of syntax nodes limits its run
time and output: no calls, no assignments, no macros, no arithmetic but + and -, and loops only over lists in
the values, nested at most two deep.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from babel import Locale
from babel.dates import format_date
from babel.numbers import format_decimal
from jinja2 import ChainableUndefined, StrictUndefined, Template, TemplateError, TemplateSyntaxError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from keywright.languages import ENGLISH

#: The most characters of a template and of its output.
MAX_SOURCE, MAX_OUTPUT = 50_000, 300_000
_MAX_LOOPS, _MAX_DEPTH = 2, 40
_ALLOWED = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr),
    *(nodes.Filter, nodes.If, nodes.CondExpr, nodes.For, nodes.Compare, nodes.Operand, nodes.And),
    *(nodes.Or, nodes.Not, nodes.Test, nodes.Concat, nodes.Add, nodes.Sub, nodes.Keyword),
)
_FILTERS = frozenset({"day", "default", "e", "escape", "length", "lower", "number", "upper"})
_TESTS = frozenset({"defined", "none", "undefined"})
#: A line that contains only tags. It produces no output, not even a line break.
_TAGS_ALONE = re.compile(r"^[ \t]*((?:\{%(?:(?!%\}).)*%\}[ \t]*)+)\r?\n", re.MULTILINE)
_OF_LOOPS = ("first", "index", "last")


class BadTemplate(Exception):
    """A template cannot be used; ``sentence`` states why, and ``line`` where."""

    def __init__(self, sentence: str, line: int | None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.line = line


def render(
    source: str, values: Mapping[str, Any], language: str, *, is_html: bool = False, is_strict: bool = False
) -> str:
    """Render the template with these values, formatting days and numbers for the language. With ``is_html``,
    values are escaped. An unknown name is an error with ``is_strict``, and otherwise renders as nothing.
    Raises ``BadTemplate``.
    """
    check(source)
    try:
        template = _compile(source, language, is_html, is_strict)
        pieces: list[str] = []
        left = MAX_OUTPUT
        for piece in template.generate(values):
            left -= len(piece)
            if left < 0:
                raise BadTemplate(f"It produces more than {MAX_OUTPUT:,} characters.", None)
            pieces.append(piece)
        return "".join(pieces)
    except BadTemplate:
        raise
    except TemplateError as problem:
        line = problem.lineno if isinstance(problem, TemplateSyntaxError) else _line_of(problem)
        raise BadTemplate(problem.message or type(problem).__name__, line) from problem
    except Exception as problem:
        raise BadTemplate(f"{type(problem).__name__}: {problem}"[:200], _line_of(problem)) from problem


@lru_cache(maxsize=64)
def _compile(source: str, language: str, is_html: bool, is_strict: bool) -> Template:
    """Compile a template. Cached, because this is the slowest step in rendering a mail."""
    lines = _TAGS_ALONE.sub(_without_line_break, source)
    return _environment(is_html, is_strict, language).from_string(lines)


def _without_line_break(line: re.Match[str]) -> str:
    # Move the line break into the tag, so that line numbers stay right.
    return f"{line[1].rstrip()[:-2]}\n%}}"


def check(source: str) -> None:
    """Raise ``BadTemplate`` for a template that is too long, cannot be parsed or uses forbidden syntax."""
    if len(source) > MAX_SOURCE:
        raise BadTemplate(f"It has more than {MAX_SOURCE:,} characters.", None)
    _check(source)


@lru_cache(maxsize=256)
def _check(source: str) -> None:
    try:
        tree = _environment(False, True, ENGLISH).parse(source)
    except TemplateSyntaxError as problem:
        raise BadTemplate(problem.message or "It cannot be read.", problem.lineno) from problem
    except RecursionError:
        raise BadTemplate("It is nested too deeply.", None) from None
    for node, loops, depth in _walk(tree, 0, 0):
        if not isinstance(node, _ALLOWED) or (isinstance(node, nodes.For) and node.recursive):
            raise BadTemplate(f"“{_word_for(node)}” is not allowed here.", node.lineno)
        if loops > _MAX_LOOPS or depth > _MAX_DEPTH:
            raise BadTemplate("It is nested too deeply.", node.lineno)
        _check_names(node)


def _check_names(node: nodes.Node) -> None:
    if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
        raise BadTemplate(f"There is no filter “{node.name}” here.", node.lineno)
    if isinstance(node, nodes.Test) and node.name not in _TESTS:
        raise BadTemplate(f"There is no test “{node.name}” here.", node.lineno)
    if isinstance(node, nodes.For) and not isinstance(node.iter, nodes.Name | nodes.Getattr):
        raise BadTemplate("A loop must use one of the lists.", node.lineno)
    if isinstance(node, nodes.Name | nodes.Getattr):
        name = node.name if isinstance(node, nodes.Name) else node.attr
        if name.startswith("_") or name in ("self", "super", "caller"):
            raise BadTemplate(f"There is no “{name}” here.", node.lineno)


def _walk(node: nodes.Node, loops: int, depth: int) -> Iterator[tuple[nodes.Node, int, int]]:
    loops += isinstance(node, nodes.For)
    yield node, loops, depth
    if depth <= _MAX_DEPTH:
        for child in node.iter_child_nodes():
            yield from _walk(child, loops, depth + 1)


def _word_for(node: nodes.Node) -> str:
    return {nodes.Assign: "set", nodes.Call: "()", nodes.Mul: "*", nodes.Getitem: "[]"}.get(
        type(node), type(node).__name__.lower()
    )


def _line_of(problem: BaseException) -> int | None:
    """Find the line of the template in the traceback of an error."""
    found, step = None, problem.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == "<template>":
            found = step.tb_lineno
        step = step.tb_next
    return found


class _Sandbox(ImmutableSandboxedEnvironment):
    """A sandbox in which only mappings, and a few attributes of loops, can be read."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return isinstance(obj, Mapping) and super().is_safe_attribute(obj, attr, value)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        if type(obj).__name__ == "LoopContext" and attribute in _OF_LOOPS:
            return getattr(obj, attribute)
        return self.undefined(obj=obj, name=attribute)


@lru_cache
def _environment(is_html: bool, is_strict: bool, language: str) -> _Sandbox:
    environment = _Sandbox(
        autoescape=is_html,
        undefined=StrictUndefined if is_strict else ChainableUndefined,
    )
    environment.globals.clear()
    for known, allowed in ((environment.filters, _FILTERS), (environment.tests, _TESTS)):
        for name in known.keys() - allowed:
            del known[name]
    locale = Locale.parse(language, sep="-")
    environment.filters["day"] = lambda moment: format_date(moment, "long", locale=locale) if moment else ""
    environment.filters["number"] = lambda number: format_decimal(number, locale=locale)
    return environment
