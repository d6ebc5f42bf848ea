"""Find customers and products by their names, e-mail addresses, codes and numbers."""

from collections.abc import Sequence
from time import monotonic
from typing import Any

import msgspec
from sqlalchemy import exists, func, select, tuple_

from keywright.core.words import match_for, terms_for
from keywright.db import ReadTransaction
from keywright.db.schema import customers, licenses, name_terms, products
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.terms_store import PREFIXES, TABLES, terms_of_row
from keywright.search.filters import Conditions, beginning
from keywright.search.matches import BUDGET, FIRST_STEP, LONGEST_STEP, Matches, Place, page_of, parse_number
from keywright.search.scan_store import set_planner_options

#: The most terms that are counted to choose the word that the fewest have.
_MAX_COUNTED = 5_000
_OTHER = {NameKind.CUSTOMER: customers.c.email, NameKind.PRODUCT: products.c.code}
_LICENSED = {NameKind.CUSTOMER: licenses.c.customer_id, NameKind.PRODUCT: licenses.c.product_id}


class NameMatch(msgspec.Struct, frozen=True):
    """A customer and its e-mail address, or a product and its code. One that only licenses name is not
    ``is_known``.
    """

    id: int
    name: str | None = None
    other: str | None = None
    is_known: bool = True


def find_names(
    tx: ReadTransaction, kind: NameKind, typed: str, *, after: Place | None, limit: int
) -> Matches[NameMatch]:
    """The customers or products of which every piece that was typed begins words of the name, or is a part of
    the e-mail address (the code); before them, the one with this number.
    """
    number = parse_number(typed)
    numbered = None if number is None else _find_by_number(tx, kind, number)
    found: list[tuple[Place, NameMatch]] = []
    if numbered is not None and after is None:
        found.append((("", 0), numbered))
    set_planner_options(tx)
    chosen = _choose_term(tx, kind, typed)
    if chosen is None:
        return page_of(found, limit)
    scan, reached, is_match = _Scan(tx, kind, *chosen), after, match_for(typed)
    end, size = monotonic() + BUDGET, FIRST_STEP
    while len(found) <= limit:
        rows = scan.read(reached, size)
        wanted = [row for row in rows if is_match(row.name, row.other) and scan.is_first(row)]
        found += [
            (_place(row), NameMatch(row.number, row.name, row.other))
            for row in wanted
            if row.number != number
        ]
        if len(rows) < size:
            return page_of(found, limit)
        reached, size = _place(rows[-1]), min(4 * size, LONGEST_STEP)
        if monotonic() >= end and len(found) <= limit:
            return Matches(tuple(item for _, item in found), reached, is_incomplete=True)
    return page_of(found, limit)


class _Scan:
    """The rows with a term, or with those that begin so, in the order of the terms."""

    def __init__(self, tx: ReadTransaction, kind: NameKind, term: str, is_prefix: bool) -> None:
        self._tx, self._kind, self._term, self._is_prefix = tx, kind, term, is_prefix
        self._conditions = _conditions(term, is_prefix)

    def read(self, after: Place | None, size: int) -> Sequence[Any]:
        """The next rows, one for each term: term, number, name, other."""
        key, table = (name_terms.c.term, name_terms.c.number), TABLES[self._kind]
        query = select(*key).where(*self._conditions).order_by(*key).limit(size)
        if after is not None:
            query = query.where(tuple_(*key) > tuple_(*after))
        some = query.subquery()
        rows = select(some.c.term, some.c.number, table.c.name, _OTHER[self._kind].label("other"))
        rows = rows.outerjoin(table, table.c.id == some.c.number).order_by(some.c.term, some.c.number)
        return self._tx.connection.execute(rows).all()

    def is_first(self, row: Any) -> bool:
        """Whether no earlier term of the same customer or product begins so: each is found once."""
        if not self._is_prefix:
            return True
        terms = terms_of_row(self._kind, row.name, row.other)
        return bool(row.term == min((one for one in terms if one.startswith(self._term)), default=None))


def _place(row: Any) -> Place:
    return (row.term, row.number)


def _choose_term(tx: ReadTransaction, kind: NameKind, typed: str) -> tuple[str, bool] | None:
    """The term that the fewest have, and whether it may be the beginning of one; None without words."""
    possible = [(PREFIXES[kind] + term, is_prefix) for term, is_prefix in terms_for(typed)]
    if len(possible) < 2:
        return possible[0] if possible else None
    counts = [_count(*one) for one in possible]
    found = tx.connection.execute(select(*counts)).one()
    return min(zip(found, possible, strict=True))[1]


def _count(term: str, is_prefix: bool) -> Any:
    some = select(name_terms.c.number).where(*_conditions(term, is_prefix)).limit(_MAX_COUNTED).subquery()
    return select(func.count()).select_from(some).scalar_subquery()


def _conditions(term: str, is_prefix: bool) -> Conditions:
    return beginning(name_terms.c.term, term) if is_prefix else (name_terms.c.term == term,)


def _find_by_number(tx: ReadTransaction, kind: NameKind, number: int) -> NameMatch | None:
    table = TABLES[kind]
    query = select(table.c.id, table.c.name, _OTHER[kind]).where(table.c.id == number)
    row = tx.connection.execute(query).first()
    if row is not None:
        return NameMatch(*row)
    is_named = tx.connection.execute(select(exists().where(_LICENSED[kind] == number))).scalar_one()
    return NameMatch(number, is_known=False) if is_named else None
