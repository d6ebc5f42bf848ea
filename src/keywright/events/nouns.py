"""Create, change, delete and read nouns, by the rules of each noun."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from keywright.core.command import Command, Query
from keywright.core.errors import AlreadyExists, NotFound
from keywright.core.fields import list_changes
from keywright.core.metadata import change_fields
from keywright.core.nouns import Create, Delete, Get, ItemPage, List, Noun, Update, differing
from keywright.db.rows import Records
from keywright.db.transaction import take_free_id
from keywright.events.unit_of_work import UnitOfWork

Work = UnitOfWork


class Rules(NamedTuple):
    """The rules of a noun. ``check`` returns what to store instead of ``before`` (None: it is new), or raises
    a refusal; ``may_delete`` may raise one, too. ``details`` returns what every event contains. In events, a
    field in ``unshown`` is "changed", any other is ``[before, after]``.
    """

    noun: Noun
    records: Records[Any]
    #: None if the database assigns the IDs.
    is_number_taken: Callable[[Any, int], bool] | None
    check: Callable[[Work, Any, Any], Any]
    may_delete: Callable[[Work, Any], None]
    details: Callable[[Any], dict[str, Any]]
    unshown: Collection[str]


def create(rules: Rules, work: Work, command: Create) -> Any:
    """Create an object. Raises ``AlreadyExists``, and what ``check`` raises."""
    noun, now = rules.noun, command.context.now
    given = {name: value for name, value in list_changes(command.fields).items() if value is not None}
    made = rules.check(work, None, noun.make(**given, **command.restored(), created_at=now, updated_at=now))
    if not _is_visible(noun, made, command.only_product_id):
        raise NotFound(f"product {getattr(made, noun.product_column, None)}")
    if rules.is_number_taken is None:
        made = replace(made, id=rules.records.insert_new(work.tx, made))
        work.record_event(f"{noun.name}.created", command, rules.details(made))
        return made
    if made.id is None:
        id = take_free_id(work.tx.ids, noun.name, partial(rules.is_number_taken, work.tx))
        made = replace(made, id=id)
    elif rules.records.find(work.tx, made.id) is not None:
        raise AlreadyExists(noun.name, "id")
    rules.records.insert(work.tx, made)
    work.record_event(f"{noun.name}.created", command, rules.details(made))
    return made


def update(rules: Rules, work: Work, command: Update) -> Any:
    """Change an object. Raises ``NotFound``, and what ``check`` raises."""
    before = lock(rules, work, command)
    after = change_fields(before, command.fields)
    if not differing(before, after):
        return before
    after = replace(rules.check(work, before, after), updated_at=command.context.now)
    rules.records.update(work.tx, after)
    names = differing(before, after)
    changes = {
        name: "changed" if name in rules.unshown else [getattr(before, name), getattr(after, name)]
        for name in rules.noun.fields.__struct_fields__
        if name in names
    }
    work.record_event(f"{rules.noun.name}.updated", command, rules.details(after) | changes)
    return after


def delete(rules: Rules, work: Work, command: Delete) -> None:
    """Delete an object. Raises ``NotFound``, and what ``may_delete`` raises."""
    one = lock(rules, work, command)
    rules.may_delete(work, one)
    rules.records.delete(work.tx, one.id)
    work.record_event(f"{rules.noun.name}.deleted", command, rules.details(one))


def lock(rules: Rules, work: Work, command: Update | Delete) -> Any:
    """Lock the object that the command changes. Raises ``NotFound``, and what the precondition raises."""
    one = rules.records.lock(work.tx, command.id)
    if one is None or not _is_visible(rules.noun, one, command.only_product_id):
        raise NotFound(f"{rules.noun.name} {command.id}")
    if command.precondition is not None:
        command.precondition(one)
    return one


def require_free(rules: Rules, work: Work, before: Any, after: Any, *names: str) -> None:
    """Raise ``AlreadyExists`` if another object has a new value of these fields."""
    for name in names:
        value = getattr(after, name)
        if value is None or value == getattr(before, name, None):
            continue
        other = rules.records.find_by(work.tx, name, value)
        if other is not None and (before is None or other.id != before.id):
            raise AlreadyExists(rules.noun.name, name)


def get(rules: Rules, read: Any, query: Get) -> Any:
    """Return the object with this ID. Raises ``NotFound``."""
    one = rules.records.find(read.tx, query.id)
    if one is None or not _is_visible(rules.noun, one, query.only_product_id):
        raise NotFound(f"{rules.noun.name} {query.id}")
    return one


def _is_visible(noun: Noun, one: Any, only_product_id: int | None) -> bool:
    """Whether a caller with an API key for this product sees the object; None means any product."""
    return only_product_id is None or getattr(one, noun.product_column, None) == only_product_id


def list_page(rules: Rules, read: Any, query: List) -> ItemPage[Any]:
    """Return a page of the matching objects."""
    return rules.records.list_page(read.tx, query)


def handlers_of(rules: Rules) -> dict[type[Command], Callable[[Any, Any], Any]]:
    """Return the handlers of the noun's commands."""
    noun = rules.noun
    return {
        noun.create: partial(create, rules),
        noun.update: partial(update, rules),
        noun.delete: partial(delete, rules),
    }


def query_handlers_of(rules: Rules) -> dict[type[Query], Callable[[Any, Any], Any]]:
    """Return the handlers of the noun's queries."""
    return {rules.noun.get: partial(get, rules), rules.noun.list: partial(list_page, rules)}
