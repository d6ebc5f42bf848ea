"""The five commands of a noun: create, list, show, update, delete."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial, wraps
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from keywright.cli import options, output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, Change, IsSure, WrongUsage, changing
from keywright.cli.tables import Limit, print_list
from keywright.core.nouns import ListQuery, Member, Noun, list_members
from keywright.core.parsing import parse_integer

#: The names of fields in tables, where they differ from the field's name.
_NAMES = MappingProxyType({"email": "e-mail", "external_id": "external ID"})
_NO_VERBS: Mapping[str, str] = MappingProxyType({})
_METAVARS = MappingProxyType({"metadata": "JSON", "email": "ADDRESS", "language": "TAG"})


class Texts(NamedTuple):
    """The arguments of each command's example calls, and texts for the help."""

    list: Sequence[str]
    update: Sequence[str]
    delete: str
    create: Sequence[str] = ()
    show_more: str = ""


class Crud:
    """Builds ``app``: the commands of ``keywright product`` and similar groups."""

    def __init__(
        self,
        noun: Noun,
        texts: Texts,
        *,
        columns: Sequence[str],
        names: Mapping[str, str] = _NAMES,
        rows: Callable[[Any], Mapping[str, object]] | None = None,
        show: Callable[[Any], Any] = lambda one: one,
        query: type[ListQuery] | None = None,
        verbs: Mapping[str, str] = _NO_VERBS,
        check: Callable[[Installation, Any], None] = lambda _here, _fields: None,
        asks: bool = False,
    ) -> None:
        """``columns`` are the columns of the list. ``names`` are the names of fields in tables, or ``rows``
        returns names and values. ``show`` returns the value to print as JSON, ``query`` defines the filters.
        ``verbs`` renames commands ("" omits one), ``check`` may refuse fields, and with ``asks``, a deletion
        must be confirmed.
        """
        self.app = typer.Typer(no_args_is_help=True)
        self._noun, self._columns, self._names = noun, columns, names
        self._rows, self._verbs, self._check = rows or self._fields_of, verbs, check
        self._query = query or noun.query
        self._to_json: Callable[[Any], Any] = lambda one: msgspec.to_builtins(show(one))
        number = typer.Argument(metavar="ID", parser=parse_integer, help=f"The {noun.name}'s ID.")
        id, json = {"id": Annotated[int, number]}, {"as_json": AsJson}
        new, fields = _options_of(noun.new, is_new=True), _options_of(noun.fields, is_new=False)
        filters = _filters_of(self._query) | {"limit": Limit}
        sure = {"is_sure": IsSure} if asks else {}
        changed = [f"17 {one}" for one in texts.update]
        self._add("create", f"Make a {noun.name}.", texts.create, new | json)
        self._add("list", f"List the {noun.name}s in order of ID.", texts.list, filters | json)
        self._add("show", f"Show a {noun.name}. {texts.show_more}", ["17"], id | json)
        self._add("update", "Change only what the options name.", changed, id | fields | json)
        self._add("delete", texts.delete, ["17"], id | sure)

    def _add(self, verb: str, text: str, examples: Sequence[str], given: Mapping[str, Any]) -> None:
        function, name = getattr(self, f"_{verb}"), self._verbs.get(verb, verb)
        if not name:
            return

        def run(here: Installation, **values: Any) -> None:
            function(here, **values)

        run.__doc__ = text
        parameters = [_parameter(one, kind) for one, kind in given.items()]
        here = Parameter("here", Parameter.POSITIONAL_ONLY)
        options.declare_options(run, [here, *parameters], {})
        lines = [f"keywright {self._noun.name} {name} {one}".rstrip() for one in examples]
        # A record that needs a product cannot be the first one in an installation.
        needed = {one.name for one in msgspec.structs.fields(self._noun.new) if one.required}
        is_made = verb == "create" and "product_id" not in needed
        options.command(self.app, *lines, name=name)(options.with_installation(run, is_made=is_made))

    def _create(self, here: Installation, *, as_json: bool, **given: Any) -> None:
        fields = self._noun.new(**_values(self._noun.new, given))
        self._check(here, fields)
        made = here.change(self._noun.create(context=here.context, fields=fields))
        self.print_one(made, self._heading(made.id, "created."), as_json=as_json)

    def _list(self, here: Installation, *, limit: int | None, as_json: bool, **filters: Any) -> None:
        where = self._query(**{name: one for name, one in filters.items() if one is not None})
        print_list(
            here,
            lambda paging: self._noun.list(paging=paging, where=where),
            limit=limit,
            as_json=as_json,
            columns=self._columns,
            to_row=self._row_of,
            to_json=self._to_json,
        )

    def _show(self, here: Installation, *, id: int, as_json: bool) -> None:
        self.print_one(here.ask(self._noun.get(id=id)), self._heading(id, ""), as_json=as_json)

    def _update(self, here: Installation, *, id: int, as_json: bool, **given: Any) -> None:
        changes = _values(self._noun.fields, given)
        if not changes:
            raise WrongUsage("Nothing to change: name at least one option; --help lists them")
        fields = self._noun.fields(**changes)
        self._check(here, fields)
        changed = here.change(self._noun.update(context=here.context, id=id, fields=fields))
        self.print_one(changed, self._heading(id, "updated."), as_json=as_json)

    def _delete(self, here: Installation, *, id: int, is_sure: bool = True) -> None:
        if not is_sure:
            typer.confirm(f"Delete {self._noun.name} {id}?", abort=True, err=True)
        here.change(self._noun.delete(context=here.context, id=id))
        output.print_line(self._heading(id, "deleted."))

    def print_one(self, one: Any, heading: str, *, as_json: bool) -> None:
        """Print a record: its fields below this heading, or JSON."""
        if as_json:
            output.print_json(self._to_json(one))
            return
        output.print_heading(heading)
        output.print_fields([(name, _cell(value)) for name, value in self._rows(one).items()])

    def _heading(self, id: int, what: str) -> str:
        return f"{self._noun.name.capitalize()} {id} {what}".rstrip()

    def _row_of(self, one: Any) -> list[object]:
        row = {"id": one.id} | dict(self._rows(one))
        return [_cell(row[name]) for name in self._columns]

    def _fields_of(self, one: Any) -> dict[str, object]:
        names = [name for name in one.__struct_fields__ if name != "id"]
        return {self._names.get(name, name.replace("_", " ")): getattr(one, name) for name in names}


def _options_of(struct: type[msgspec.Struct], *, is_new: bool) -> dict[str, Any]:
    return {one.name: _option(one, is_new=is_new) for one in list_members(struct)}


def _option(member: Member, *, is_new: bool) -> Any:
    """Return the option of a member. Its value is a ``Change``, a bool, or the items of each use in a list,
    where None stands for the word none.
    """
    text = member.description
    if member.items is not None:
        more = "; none removes all" if member.can_be_empty else ""
        text += " Repeatable" + ("." if is_new else f"; the new values replace all others{more}.")
        items = typer.Option(
            member.items.option, metavar=member.items.metavar, parser=_item_parser(member), help=text
        )
        return Annotated[list[Any] | None, items]
    if member.flag is not None:
        return Annotated[bool | None, typer.Option(member.flag, help=text)]
    if member.is_nullable and not is_new:
        text += " Or none."
    name, metavar = member.name.replace("_", "-"), _metavar(member.name)
    reader = partial(_read, member)
    read = changing(reader) if member.is_nullable else lambda value: Change(reader(value))
    option = typer.Option(f"--{name}", metavar=metavar, parser=read, help=text)
    return Annotated[Change if member.is_required else Change | None, option]


def _read(member: Member, text: str) -> Any:
    if member.options and text not in member.options:
        raise ValueError(f"must be one of {', '.join(member.options)}")
    return member.read(text)


def with_fields(
    struct: type[msgspec.Struct], *, is_new: bool, without: Collection[str] = ()
) -> Callable[..., Any]:
    """Give a command an option for each member of the struct, except for those in ``without``, which are
    arguments. The command gets the fields that were set, by name, as ``fields``.
    """
    given_options = _options_of(struct, is_new=is_new).items()
    added = {name: one for name, one in given_options if name not in without}

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*positional: Any, **given: Any) -> None:
            fields = _values(struct, {name: given.pop(name) for name in added})
            command(*positional, fields=fields, **given)

        own = [one for one in signature(command).parameters.values() if one.name != "fields"]
        return options.declare_options(run, own, added)

    return add


def _metavar(name: str) -> str:
    return _METAVARS.get(name) or name.rpartition("_")[2].upper()


def _item_parser(member: Member) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        is_none = member.can_be_empty and text.strip().lower() == "none"
        return None if is_none else member.parse_items([text])

    return parse


def _check_items(member: Member, found: list[Any]) -> Any:
    """Check the items of all uses of an option. Raises ``WrongUsage``."""
    try:
        if None in found and any(one is not None for one in found):
            raise ValueError("give none alone")
        return member.check([one for items in found if items for one in items])
    except ValueError as reason:
        option = member.items.option if member.items else member.name
        raise WrongUsage(f"Invalid value for '{option}': {reason}") from None


def _filters_of(query: type[ListQuery]) -> dict[str, Any]:
    """Return an option for each filter whose value is a text."""
    members = [one for one in list_members(query) if one.name not in (*ListQuery.__struct_fields__, "sort")]
    return {
        one.name: Annotated[str | None, typer.Option(metavar=_metavar(one.name), help=one.description)]
        for one in members
        if one.is_text
    }


def _parameter(name: str, annotation: Any) -> Parameter:
    is_required = annotation.__origin__ in (int, Change)
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=Parameter.empty if is_required else None, annotation=annotation
    )


def _values(struct: type[msgspec.Struct], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the options set. Raises ``WrongUsage``."""
    values: dict[str, Any] = {}
    for member in list_members(struct):
        found = given.get(member.name)
        if isinstance(found, Change | bool):
            values[member.name] = found.value if isinstance(found, Change) else found
        elif found:
            values[member.name] = _check_items(member, found)
    return values


def _cell(value: Any) -> object:
    """Format a value for a table."""
    if isinstance(value, datetime):
        return output.format_time(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or None
    return (msgspec.json.encode(value).decode() if value else None) if isinstance(value, dict) else value
