"""The five commands of a noun: create, list, show, update, delete."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from keywright.cli import options, output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, Change, WrongUsage, changing
from keywright.cli.paging import Limit, print_list
from keywright.core.nouns import ListQuery, Member, Noun, list_members
from keywright.core.parsing import parse_integer

#: What some fields are called in tables.
_NAMES = MappingProxyType({"email": "e-mail", "external_id": "external ID"})
_METAVARS = MappingProxyType({"metadata": "JSON", "email": "ADDRESS", "language": "TAG"})


class Texts(NamedTuple):
    """The arguments of example calls, and what the help adds."""

    create: Sequence[str]
    list: Sequence[str]
    update: Sequence[str]
    show_more: str = ""
    update_more: str = ""
    delete: str = ""


class Crud:
    """The commands of ``keywright product`` and the like, in ``app``."""

    def __init__(
        self,
        noun: Noun,
        texts: Texts,
        *,
        columns: Sequence[str],
        names: Mapping[str, str] = _NAMES,
        show: Callable[[Any], Any] = lambda one: one,
        query: type[ListQuery] | None = None,
    ) -> None:
        """A list has these ``columns``; ``names`` are what fields are called in tables. ``show`` makes what
        is printed as JSON, and ``query`` has the filters.
        """
        self.app = typer.Typer(no_args_is_help=True)
        self._noun, self._columns, self._names = noun, columns, names
        self._query = query or noun.query
        self._to_json: Callable[[Any], Any] = lambda one: msgspec.to_builtins(show(one))
        number = typer.Argument(metavar="ID", parser=parse_integer, help=f"The {noun.name}'s number.")
        id = {"id": Annotated[int, number]}
        new, fields = _options_of(noun.new, is_new=True), _options_of(noun.fields, is_new=False)
        self._add("create", f"Make a {noun.name}.", texts.create, new, is_made=True)
        self._add(
            "list",
            f"List the {noun.name}s, by their numbers.",
            texts.list,
            _filters_of(self._query) | {"limit": Limit},
        )
        self._add("show", f"Show a {noun.name}. {texts.show_more}", ["17"], id)
        changed = f"Change what the options name, and nothing else. {texts.update_more}"
        self._add("update", changed, [f"17 {one}" for one in texts.update], id | fields)
        self._add("delete", texts.delete, ["17"], id, has_json=False)

    def _add(
        self,
        verb: str,
        text: str,
        examples: Sequence[str],
        given: dict[str, Any],
        *,
        is_made: bool = False,
        has_json: bool = True,
    ) -> None:
        function = getattr(self, f"_{verb}")

        def run(here: Installation, **values: Any) -> None:
            function(here, **values)

        run.__doc__ = text
        json: dict[str, Any] = {"as_json": AsJson} if has_json else {}
        own = given | json
        parameters = [Parameter("here", Parameter.POSITIONAL_ONLY)]
        parameters += [_parameter(name, kind) for name, kind in own.items()]
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        lines = [f"keywright {self._noun.name} {verb} {one}".rstrip() for one in examples]
        options.command(self.app, *lines, name=verb)(options.with_installation(run, is_made=is_made))

    def _create(self, here: Installation, *, as_json: bool, **given: Any) -> None:
        fields = self._noun.new(**_values(self._noun.new, given))
        made = here.change(self._noun.create(context=here.context, fields=fields))
        self._print(made, "is made.", as_json=as_json)

    def _list(self, here: Installation, *, limit: int | None, as_json: bool, **filters: Any) -> None:
        where = self._query(**{name: one for name, one in filters.items() if one is not None})
        print_list(
            here,
            lambda paging: self._noun.list(paging=paging, where=where),
            limit=limit,
            as_json=as_json,
            columns=[self._name(one) for one in self._columns],
            to_row=lambda one: [_cell(getattr(one, name)) for name in self._columns],
            to_json=self._to_json,
        )

    def _show(self, here: Installation, *, id: int, as_json: bool) -> None:
        self._print(here.ask(self._noun.get(id=id)), "", as_json=as_json)

    def _update(self, here: Installation, *, id: int, as_json: bool, **given: Any) -> None:
        changes = _values(self._noun.fields, given)
        if not changes:
            raise WrongUsage("Nothing to change: name at least one option, such as --name")
        fields = self._noun.fields(**changes)
        changed = here.change(self._noun.update(context=here.context, id=id, fields=fields))
        self._print(changed, "is changed.", as_json=as_json)

    def _delete(self, here: Installation, *, id: int) -> None:
        here.change(self._noun.delete(context=here.context, id=id))
        output.print_line(f"{self._noun.name.capitalize()} {id} is deleted.")

    def _print(self, one: Any, what: str, *, as_json: bool) -> None:
        if as_json:
            output.print_json(self._to_json(one))
            return
        output.print_heading(f"{self._noun.name.capitalize()} {one.id} {what}".rstrip())
        names = [name for name in one.__struct_fields__ if name != "id"]
        output.print_fields([(self._name(name), _cell(getattr(one, name))) for name in names])

    def _name(self, field: str) -> str:
        return self._names.get(field, field.replace("_", " "))


def _options_of(struct: type[msgspec.Struct], *, is_new: bool) -> dict[str, Any]:
    return {one.name: _option(one, is_new=is_new) for one in list_members(struct)}


def _option(member: Member, *, is_new: bool) -> Any:
    """The option of a member; it gives a ``Change``, or several lists of items, where None is none."""
    text = member.description
    if member.items is not None:
        text += (
            " Repeat it for more."
            if is_new
            else " Repeat it for more; they replace all others, and none removes all."
        )
        items = typer.Option(
            member.items.option, metavar=member.items.metavar, parser=_item_parser(member), help=text
        )
        return Annotated[list[Any] | None, items]
    if member.is_nullable and not is_new:
        text += " Or none."
    name, metavar = member.name.replace("_", "-"), _metavar(member.name)
    read = changing(member.read) if member.is_nullable else lambda value: Change(member.read(value))
    option = typer.Option(f"--{name}", metavar=metavar, parser=read, help=text)
    return Annotated[Change if member.is_required else Change | None, option]


def _metavar(name: str) -> str:
    return _METAVARS.get(name) or name.rpartition("_")[2].upper()


def _item_parser(member: Member) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        return None if text.strip().lower() == "none" else member.parse_items([text])

    return parse


def _filters_of(query: type[ListQuery]) -> dict[str, Any]:
    """The filters that are texts."""
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
    """The fields that the options set. Raises ``WrongUsage``."""
    values: dict[str, Any] = {}
    for member in list_members(struct):
        found = given[member.name]
        if isinstance(found, Change):
            values[member.name] = found.value
        elif found:
            values[member.name] = member.check([one for items in found if items for one in items])
    return values


def _cell(value: Any) -> object:
    """A value in a table."""
    if isinstance(value, datetime):
        return output.format_time(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or None
    return (msgspec.json.encode(value).decode() if value else None) if isinstance(value, dict) else value
