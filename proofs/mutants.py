"""Generate mutants: a module with one small fault in it, which its tests should notice.

The faults include those of mutmut 3.8 (all 1,120 that it finds in the six modules of R18 are among the 1,388
here), and more: conditions that hold always or never, omitted results and statements, dropped table entries.
Unlike mutmut, this also applies them outside of functions: mutmut only changes function bodies, which are 795
of its 1,120, and none in ``model``. But much of what ``errors``, ``model``, ``keys`` and ``licensing``
promise is outside of functions: codes, numbers of the wire format, limits, tables of handlers.
"""

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

#: The replacement of each operator.
_MISTAKEN: dict[type[ast.AST], type[Any]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Div,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.Pow: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.UAdd: ast.USub,
    ast.USub: ast.UAdd,
}
#: A second replacement of each ordering: equality, or inequality.
_MISTAKEN_ORDERS: dict[type[ast.AST], type[Any]] = {
    ast.Lt: ast.NotEq,
    ast.LtE: ast.Eq,
    ast.Gt: ast.NotEq,
    ast.GtE: ast.Eq,
}
#: The replacement of each function or method.
_MISTAKEN_NAMES = {
    one: other
    for pair in (
        ("all", "any"),
        ("index", "rindex"),
        ("find", "rfind"),
        ("ljust", "rjust"),
        ("lower", "upper"),
        ("lstrip", "rstrip"),
        ("max", "min"),
        ("partition", "rpartition"),
        ("pop", "popleft"),
        ("removeprefix", "removesuffix"),
    )
    for one, other in (pair, pair[::-1])
}
#: Functions whose arguments are not mutated: without them, nothing works at all.
_LEFT_ALONE = {"len", "isinstance"}
_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: Fields of nodes that only matter to readers and type checkers; and decorators.
_NOT_RUN = ("annotation", "returns", "decorator_list", "format_spec")
_NOTHING = ast.Constant(None)


@dataclass(frozen=True)
class Mutant:
    """A module with one fault: in ``where``, a statement or the head of a block ``was`` this and ``became``
    that.
    """

    where: str
    was: str
    became: str
    tree: ast.Module


def mutants_of(source: str) -> list[Mutant]:
    """Generate all mutants of a module, each once, in source order."""
    tree = ast.parse(source)
    found: dict[tuple[int, str], Mutant] = {}
    for place in _places(_Place(tree, "", (), 0)):
        was = _head(place.statement)
        for fault in _faults(place):
            ast.fix_missing_locations(ast.copy_location(fault, place.node))
            became = _head(_replaced(place.path[place.depth :], fault))
            if became != was:
                mutant = Mutant(place.where, was, became, _replaced(place.path, fault))
                found.setdefault((id(place.statement), became), mutant)
    return list(found.values())


@dataclass(frozen=True)
class _Place:
    """A node, and the path to it from the module: for each step, the node, its field, and the index in it."""

    node: Any
    where: str
    path: tuple[tuple[ast.AST, str, int | None], ...]
    #: The depth of its statement in the path.
    depth: int

    @property
    def statement(self) -> Any:
        """The statement that the node belongs to."""
        return self.path[self.depth][0] if self.depth < len(self.path) else self.node


def _places(place: _Place) -> Iterator[_Place]:
    """Yield all nodes below that are executed, in source order."""
    if isinstance(place.node, _BLOCKS):
        place = replace(place, where=f"{place.where}.{place.node.name}".lstrip("."))
    if not isinstance(place.node, ast.Module):
        yield place
    for name, value in ast.iter_fields(place.node):
        if name in _NOT_RUN:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not (_is_read_only(child) or _is_idle(place.node, child)):
                path = (*place.path, (place.node, name, index))
                depth = len(path) if isinstance(child, ast.stmt) else place.depth
                yield from _places(_Place(child, place.where, path, depth))


def _replaced(path: Sequence[tuple[ast.AST, str, int | None]], fault: ast.AST) -> Any:
    """Copy the path's first node, with the fault at the path's end; unchanged nodes are shared."""
    for node, name, index in reversed(path):
        there = getattr(node, name)
        fault = _like(node, **{name: fault if index is None else _with(there, index, fault)})
    return fault


def _is_read_only(node: ast.AST) -> bool:
    """Whether the node is an import or a docstring."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Import | ast.ImportFrom)


def _head(statement: ast.stmt) -> str:
    """Format a statement as one line; for a block, only its head."""
    bare: Any = copy.copy(statement)
    for part in ("body", "orelse", "finalbody", "handlers", "decorator_list"):
        if isinstance(getattr(bare, part, None), list):
            setattr(bare, part, [])
    return " ".join(ast.unparse(bare).split())


def _faults(place: _Place) -> Iterator[ast.AST]:
    """Yield the faulty replacements of a node."""
    make = _FAULTS.get(type(place.node))
    if make is not None:
        yield from make(place.node)
    if (
        not place.where
        and isinstance(place.node, ast.Tuple | ast.List | ast.Set)
        and len(place.node.elts) > 1
    ):
        yield from _without_each(place.node, "elts")


def _other_values(node: ast.Constant) -> Iterator[ast.AST]:
    value: Any = node.value
    others: list[Any] = []
    if isinstance(value, bool):
        others = [not value]
    elif isinstance(value, int | float):
        others = [value + 1]
    elif isinstance(value, str):
        others = [f"XX{value}XX", value.lower(), value.upper()]
    elif isinstance(value, bytes):
        others = [b"XX" + value + b"XX", value.lower(), value.upper()]
    return (_like(node, value=other) for other in others)


def _other_call(node: ast.Call) -> Iterator[ast.AST]:
    name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
    if name in _MISTAKEN_NAMES:
        part = "id" if isinstance(node.func, ast.Name) else "attr"
        yield _like(node, func=_like(node.func, **{part: _MISTAKEN_NAMES[name]}))
    if name in _LEFT_ALONE:
        return
    for index, one in enumerate(node.args):
        if not isinstance(one, ast.Starred) and not _is_none(one):
            yield _like(node, args=_with(node.args, index, _NOTHING))
    for index, keyword in enumerate(node.keywords):
        if keyword.arg is not None and not _is_none(keyword.value):
            yield _like(node, keywords=_with(node.keywords, index, _like(keyword, value=_NOTHING)))
    if len(node.args) + len(node.keywords) > 1:
        yield from _without_each(node, "args")
        yield from _without_each(node, "keywords")


def _entries_dropped(node: ast.Dict) -> Iterator[ast.AST]:
    for index in range(len(node.keys)):
        yield _like(node, keys=_without(node.keys, index), values=_without(node.values, index))


def _keywords_dropped(node: ast.ClassDef) -> Iterator[ast.AST]:
    is_child = any(ast.unparse(one) != "msgspec.Struct" for one in node.bases)
    for index, option in enumerate(node.keywords):
        # A child inherits the option from its parent.
        is_inherited = is_child and option.arg == "frozen"
        if not is_inherited and not _is_idle(node, option):
            yield _like(node, keywords=_without(node.keywords, index))


def _is_idle(node: ast.AST, option: ast.AST) -> bool:
    """Whether an option has no effect: it is for fields, and the class has none of its own."""
    match node, option:
        case ast.ClassDef(body=body), ast.keyword(arg="kw_only"):
            declared = (one for one in body if isinstance(one, ast.AnnAssign))
            return all("ClassVar" in ast.unparse(one.annotation) for one in declared)
    return False


def _bounds_dropped(node: ast.Slice) -> Iterator[ast.AST]:
    return (_like(node, **{end: None}) for end in ("lower", "upper") if getattr(node, end) is not None)


def _other_operator(node: ast.BinOp | ast.AugAssign) -> Iterator[ast.AST]:
    if isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value, lineno=node.lineno)
    yield _like(node, op=_MISTAKEN[type(node.op)]())


def _other_sign(node: ast.UnaryOp) -> Iterator[ast.AST]:
    is_negation = isinstance(node.op, ast.Not | ast.Invert)
    yield node.operand if is_negation else _like(node, op=_MISTAKEN[type(node.op)]())


def _other_comparison(node: ast.Compare) -> Iterator[ast.AST]:
    for index, op in enumerate(node.ops):
        for mistaken in (_MISTAKEN, _MISTAKEN_ORDERS):
            if type(op) in mistaken:
                yield _like(node, ops=_with(node.ops, index, mistaken[type(op)]()))


def _regrouped(node: ast.BoolOp) -> Iterator[ast.AST]:
    """Replace one ``or`` in ``a or b or c`` by ``and``, which binds tighter, or vice versa."""
    for index in range(1, len(node.values)):
        before, after = node.values[:index], node.values[index:]
        if isinstance(node.op, ast.And):
            yield ast.BoolOp(ast.Or(), [_joined(ast.And(), before), _joined(ast.And(), after)])
        else:
            pair = ast.BoolOp(ast.And(), [before[-1], after[0]])
            yield _joined(ast.Or(), [*before[:-1], pair, *after[1:]])


def _joined(op: ast.boolop, values: list[ast.expr]) -> ast.expr:
    return values[0] if len(values) == 1 else ast.BoolOp(op, values)


def _forced(node: ast.If | ast.IfExp | ast.While) -> Iterator[ast.AST]:
    """Make the condition never or always hold."""
    yield _like(node, test=ast.BoolOp(ast.And(), [node.test, ast.Constant(False)]))
    if not isinstance(node, ast.While):
        yield _like(node, test=ast.BoolOp(ast.Or(), [node.test, ast.Constant(True)]))


def _filters_forced(node: ast.comprehension) -> Iterator[ast.AST]:
    for index, condition in enumerate(node.ifs):
        for op, value in ((ast.And(), False), (ast.Or(), True)):
            yield _like(node, ifs=_with(node.ifs, index, ast.BoolOp(op, [condition, ast.Constant(value)])))


def _other_result(node: ast.Lambda) -> Iterator[ast.AST]:
    yield _like(node, body=ast.Constant(0) if _is_none(node.body) else _NOTHING)


def _nothing_assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[ast.AST]:
    if node.value is not None:
        yield _like(node, value=ast.Constant("") if _is_none(node.value) else _NOTHING)


def _nothing_returned(node: ast.Return) -> Iterator[ast.AST]:
    if node.value is not None and not _is_none(node.value):
        yield _like(node, value=_NOTHING)


def _other_way_out(node: ast.Break | ast.Continue) -> Iterator[ast.AST]:
    yield ast.Break() if isinstance(node, ast.Continue) else ast.Return()


def _left_out(_node: ast.stmt) -> Iterator[ast.AST]:
    yield ast.Pass()


_FAULTS: dict[type[ast.AST], Callable[[Any], Iterator[ast.AST]]] = {
    ast.AnnAssign: _nothing_assigned,
    ast.Assign: _nothing_assigned,
    ast.AugAssign: _other_operator,
    ast.BinOp: _other_operator,
    ast.BoolOp: _regrouped,
    ast.Break: _other_way_out,
    ast.Call: _other_call,
    ast.ClassDef: _keywords_dropped,
    ast.Compare: _other_comparison,
    ast.Constant: _other_values,
    ast.Continue: _other_way_out,
    ast.Delete: _left_out,
    ast.Dict: _entries_dropped,
    ast.Expr: _left_out,
    ast.If: _forced,
    ast.IfExp: _forced,
    ast.Lambda: _other_result,
    ast.Raise: _left_out,
    ast.Return: _nothing_returned,
    ast.Slice: _bounds_dropped,
    ast.UnaryOp: _other_sign,
    ast.While: _forced,
    ast.comprehension: _filters_forced,
}


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _like(node: ast.AST, **changed: Any) -> ast.AST:
    other = copy.copy(node)
    for name, value in changed.items():
        setattr(other, name, value)
    return other


def _with(many: Sequence[Any], index: int, one: object) -> list[Any]:
    return [*many[:index], one, *many[index + 1 :]]


def _without(many: Sequence[Any], index: int) -> list[Any]:
    return [*many[:index], *many[index + 1 :]]


def _without_each(node: ast.AST, part: str) -> Iterator[ast.AST]:
    many = getattr(node, part)
    return (_like(node, **{part: _without(many, index)}) for index in range(len(many)))
