"""The pages generated from a noun's fields: create, edit, delete, and undo an edit or a deletion."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from msgspec import convert, to_builtins
from starlette.responses import Response

from keywright.core.command import Command
from keywright.core.errors import AlreadyExists, NoSuchAddress, Refusal, StillInUse
from keywright.core.fields import Fields, build_finish
from keywright.core.nouns import Create, Member, Noun, Update, list_members
from keywright.db.rows import Records
from keywright.http.admin.periods import ListPage, read_page
from keywright.http.admin.undo import Past, explain_undo, read_past, refuse_undo, undo_form
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import _
from keywright.http.pages.forms import Inputs, require_id
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right

#: The names of inputs that differ from those of their fields.
_INPUTS = {"id": "number"}


class FormField(NamedTuple):
    """A field of a form, as the template renders it."""

    name: str
    label: str
    value: str
    help: str = ""
    required: bool = False
    rows: int | None = None
    options: list[tuple[str, str]] | None = None
    maxlength: int | None = None


class CrudSection(Section):
    """The pages of a noun. Every user may view its records; users who may change licenses may change them.
    Below, ``one`` is a record, or None for a new one. The texts are marked by ``N_`` and may contain
    ``%(name)s`` and ``%(number)s``.
    """

    right = Right.LOOK
    noun: ClassVar[Noun]
    records: ClassVar[Records[Any]]
    #: The titles of the forms, the messages after each change, and the question and warnings before a
    #: deletion.
    new_title: ClassVar[str]
    edit_title: ClassVar[str]
    created: ClassVar[str]
    saved: ClassVar[str]
    deleted: ClassVar[str]
    undone: ClassVar[str]
    question: ClassVar[str]
    warnings: ClassVar[tuple[str, ...]]
    #: The field that cannot be changed while a record is in use; it shows the error ``StillInUse``.
    fixed: ClassVar[str] = ""

    def complete(self, inputs: Inputs, values: dict[str, Any], one: Any) -> None:
        """Complete the form's values, and add errors to ``inputs``."""

    def shown(self, one: Any) -> dict[str, Any]:
        """The values that the form shows, by field."""
        return {member.name: getattr(one, member.name) for member in _members(self.noun.fields)}

    def kept(self, one: Any) -> dict[str, Any]:
        """The values that are restored when a deletion is undone."""
        return self.shown(one) | {"metadata": one.metadata}

    def to_fields(self, values: Mapping[str, Any]) -> Fields:
        """The fields of the update that stores these values of the form."""
        return _convert(values, self.noun.fields)

    def to_new(self, request: PageRequest, values: Mapping[str, Any]) -> Create:
        """The command that creates a record with these values."""
        return self.noun.create(context=request.context, fields=_convert(values, self.noun.new))

    def more_fields(self, request: PageRequest, one: Any) -> list[FormField]:
        """The form's fields besides those of the noun."""
        return []

    def name_of(self, one: Any) -> str:
        """The record's name, for titles and messages."""
        return str(one.name)

    def read_page(self, request: PageRequest) -> ListPage:
        """A page of the list, sorted by ID."""
        noun = self.noun
        return read_page(
            request,
            lambda tx, paging: self.records.list_page(tx, noun.list(paging=paging, where=noun.query())),
        )

    @page("/new", methods=("GET", "POST"), right=Right.CHANGE)
    def create(self, request: PageRequest) -> Response:
        """Create a record."""
        inputs = Inputs(request.form)
        if request.is_post:
            values = self._read(inputs, self.noun.new, None)
            if not inputs.errors:
                command = self.to_new(request, to_builtins(values))
                message = _(self.created, name=values.get("name"))
                return self._submit(request, command, inputs, None, message=message)
        return self._render(request, inputs, None)

    @page("/{id:number}/edit", methods=("GET", "POST"), right=Right.CHANGE)
    def edit(self, request: PageRequest) -> Response:
        """Change a record."""
        one, inputs = self.get(request), Inputs(request.form)
        if request.is_post:
            values = self._read(inputs, self.noun.fields, one)
            if not inputs.errors:
                before, after = to_builtins(self.shown(one)), to_builtins(values)
                command = self._update(request, one.id, self.to_fields(after))
                undo = undo_form(request, f"{self.path}/{one.id}", before, after)
                message = _(self.saved, name=values.get("name"), number=one.id)
                return self._submit(request, command, inputs, one, message=message, undo=undo)
        return self._render(request, inputs, one)

    @page("/{id:number}/delete", methods=("GET", "POST"), right=Right.CHANGE)
    def delete(self, request: PageRequest) -> Response:
        """Delete a record, unless another record refers to it."""
        one = self.get(request)
        undo = undo_form(request, f"{self.path}/{one.id}", to_builtins(self.kept(one)), None)
        named = {"name": self.name_of(one), "number": one.id}
        if request.is_post:
            request.change(self.noun.delete(context=request.context, id=one.id))
            return request.redirect(self.path, _(self.deleted, **named), undo)
        sentences = [*(_(text, **named) for text in self.warnings), explain_undo(undo)]
        return request.confirm(_(self.question, **named), sentences, button=_("Delete"), back=self.path)

    @page("/{id:number}/undo", methods=("POST",), right=Right.CHANGE)
    def undo(self, request: PageRequest) -> Response:
        """Undo a change, or restore a record that was just deleted."""
        id = require_id(request.path_params["id"])
        back = f"{self.path}/{id}"
        try:
            one = request.change(self._to_undo(request, id, read_past(request, back)))
        except Refusal as refusal:
            return refuse_undo(request, back, refusal)
        return request.redirect(f"{self.path}/{one.id}", _(self.undone))

    def _to_undo(self, request: PageRequest, id: int, past: Past) -> Command:
        if past.is_deletion:
            return self.to_new(request, past.fields | {"id": id})

        def require_unchanged(one: Any) -> None:
            past.require_unchanged(to_builtins(self.shown(one)))

        return self._update(request, id, self.to_fields(past.fields), require_unchanged)

    def _update(self, request: PageRequest, id: int, fields: Fields, precondition: Any = None) -> Update:
        return self.noun.update(context=request.context, id=id, fields=fields, precondition=precondition)

    def get(self, request: PageRequest) -> Any:
        """The record whose ID is in the path. Raises ``NoSuchAddress``."""
        id = require_id(request.path_params["id"])
        one = request.ask(lambda tx: self.records.find(tx, id))
        if one is None:
            raise NoSuchAddress
        return one

    def _read(self, inputs: Inputs, struct: type[Fields], one: Any) -> dict[str, Any]:
        """The values in the submitted form, by field name."""
        values: dict[str, Any] = {}
        for member in _members(struct):
            name = _input(member)
            if member.options and not inputs.is_checked(name):
                # A form without this choice, of an older page or a test, leaves it unchanged.
                if one is not None:
                    values[member.name] = getattr(one, member.name)
            elif member.is_optional:
                values[member.name] = inputs.read(name, member.read)
            else:
                values[member.name] = inputs.require(name, member.read, "")
            if member.items is not None:
                values[member.name] = values[member.name] or []
        self.complete(inputs, values, one)
        return values

    def _submit(
        self,
        request: PageRequest,
        command: Command,
        inputs: Inputs,
        one: Any,
        *,
        message: str,
        undo: str = "",
    ) -> Response:
        """Submit the command and redirect; if it conflicts with another record, show the form again."""
        try:
            return change_once(
                request, command, lambda done: Redirect(f"{self.path}/{done.id}", message, undo)
            )
        except AlreadyExists as error:
            inputs.errors[_INPUTS.get(error.field, error.field)] = message_for(error).sentence
        except StillInUse as error:
            inputs.errors[self.fixed] = message_for(error).sentence
        return self._render(request, inputs, one)

    def _render(self, request: PageRequest, inputs: Inputs, one: Any) -> Response:
        # A link to the form for a new record may contain some of its values.
        given = request.form if request.is_post else request.query if one is None else None
        shown = {} if one is None else self.shown(one)
        fields = [
            show_member(member, given.raw(_input(member)) if given else member.write(shown.get(member.name)))
            for member in _members(self.noun.new if one is None else self.noun.fields)
        ]
        title = self.new_title if one is None else self.edit_title
        return request.render(
            "nouns/edit.html",
            title=_(title) if one is None else _(title, name=self.name_of(one), number=one.id),
            fields=fields + self.more_fields(request, one),
            is_new=one is None,
            back=self.path if one is None else f"{self.path}/{one.id}",
            errors=inputs.errors,
        )


def _input(member: Member) -> str:
    return _INPUTS.get(member.name, member.name)


def _members(struct: type[Fields]) -> list[Member]:
    """The members that the form shows, required ones first."""
    return sorted((one for one in list_members(struct) if one.form), key=lambda one: not one.is_required)


def show_member(member: Member, value: str) -> FormField:
    """The form field for a member."""
    form = member.form
    label, hint = form["label"], form["hint"]
    return FormField(
        *(_input(member), _(label), value, _(hint) if hint else ""),
        required=not member.is_optional,
        rows=form.get("rows"),
        options=[(one, one) for one in member.options] or None,
        maxlength=member.max_length if member.is_text else None,
    )


def _convert(values: Mapping[str, Any], struct: type[Fields]) -> Fields:
    """Convert JSON values to fields."""
    finish = build_finish(struct) or (lambda fields: fields)
    fields: Fields = finish(convert(values, struct))
    return fields
