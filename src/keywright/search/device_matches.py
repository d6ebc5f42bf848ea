"""Find devices by their tokens, fingerprints, addresses and labels."""

import ipaddress
import re
from collections.abc import Sequence
from time import monotonic
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, literal_column, select, tuple_, union_all

from keywright.core.parsing import is_storable
from keywright.db import ReadTransaction
from keywright.db.schema import search_terms
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import ACTIVATIONS_WITH, activation_of
from keywright.search.filters import beginning
from keywright.search.matches import BUDGET, FIRST_STEP, LONGEST_STEP, Matches, Place, page_of
from keywright.search.scan_store import set_planner_options
from keywright.search.terms_store import (
    address_term,
    device_term,
    label_term,
    terms_of_activation,
    token_term,
)

_TOKEN = re.compile("[0-9a-fA-F]{8,40}")
_KEY = (search_terms.c.term, search_terms.c.license_id, search_terms.c.activation_id)


class _Meaning(NamedTuple):
    """A term, or the beginning of one."""

    term: str
    is_prefix: bool

    @property
    def conditions(self) -> Sequence[ColumnElement[bool]]:
        """The conditions for rows of search terms."""
        column = search_terms.c.term
        return beginning(column, self.term) if self.is_prefix else (column == self.term,)

    def is_met(self, term: str) -> bool:
        """Whether a term is the one, or begins so."""
        return term.startswith(self.term) if self.is_prefix else term == self.term


def find_devices(tx: ReadTransaction, typed: str, *, after: Place | None, limit: int) -> Matches[Activation]:
    """The devices with this token or fingerprint, or with one that begins so, then those from this address,
    and those whose label begins so; some seconds after they came.
    """
    set_planner_options(tx)
    meanings, reached = _list_meanings(typed), after
    found: list[tuple[Place, Activation]] = []
    end, size = monotonic() + BUDGET, FIRST_STEP
    while meanings:
        rows = _read(tx, meanings, reached, size)
        devices = _find_devices(tx, rows)
        for *place, token in rows:
            device = devices.get((place[2], token))
            if device is not None and _is_first(meanings, place[0], place[1], device):
                found.append((tuple(place), device))
        if len(rows) < size or len(found) > limit:
            break
        reached, size = rows[-1][:4], min(4 * size, LONGEST_STEP)
        if monotonic() >= end:
            return Matches(tuple(device for _, device in found), reached, is_incomplete=True)
    return page_of(found, limit)


def parse_address(text: str) -> str | None:
    """An IP address as activations store it: an IPv4 address as such, also where it is written as IPv6."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def _list_meanings(typed: str) -> list[_Meaning]:
    text = typed.strip()
    if not text or not is_storable(text):
        return []
    found = [_Meaning(token_term(text.lower()), is_prefix=True)] if _TOKEN.fullmatch(text) else []
    found += [_Meaning(device_term(one), is_prefix=True) for one in (text, text.lower(), text.upper())]
    address = parse_address(text)
    if address is not None:
        found.append(_Meaning(address_term(address), is_prefix=False))
    found.append(_Meaning(label_term(text), is_prefix=True))
    return list(dict.fromkeys(found))


def _read(
    tx: ReadTransaction, meanings: Sequence[_Meaning], after: Place | None, size: int
) -> Sequence[tuple[Any, ...]]:
    """The next rows of search terms for these meanings: the meaning's number, the row's key, and the token
    of the same activation, which is another of its terms.
    """
    first = 0 if after is None else after[0]
    ranges = []
    for number in range(first, len(meanings)):
        query = select(literal_column(str(number)).label("number"), *_KEY).where(*meanings[number].conditions)
        if after is not None and number == first:
            query = query.where(tuple_(*_KEY) > tuple_(*after[1:]))
        ranges.append(select(query.order_by(*_KEY).limit(size).subquery()))
    every = union_all(*ranges).subquery()
    key = (every.c.number, every.c.term, every.c.license_id, every.c.activation_id)
    some = select(every).order_by(*key).limit(size).subquery()
    tokens = search_terms.alias("tokens")
    has_token = and_(
        tokens.c.license_id == some.c.license_id,
        tokens.c.activation_id == some.c.activation_id,
        *beginning(tokens.c.term, token_term("")),
    )
    rows = select(*some.c, tokens.c.term.label("token")).outerjoin(tokens, has_token)
    found = tx.connection.execute(rows.order_by(*some.c)).all()
    return [(*key, None if term is None else term.removeprefix(token_term(""))) for *key, term in found]


def _find_devices(tx: ReadTransaction, rows: Sequence[tuple[Any, ...]]) -> dict[tuple[int, str], Activation]:
    """The devices of these rows, by the ids of their licenses and their tokens."""
    places = {(license_id, token) for _, _, license_id, _, token in rows if token is not None}
    found = map(activation_of, ACTIVATIONS_WITH.find_rows(tx.connection, sorted(places)))
    return {(one.license_id, one.token): one for one in found}


def _is_first(meanings: Sequence[_Meaning], number: int, term: str, device: Activation) -> bool:
    """Whether the device still has the term, and no earlier meaning or term finds it."""
    terms = sorted(terms_of_activation(device))
    earlier = any(meaning.is_met(one) for meaning in meanings[:number] for one in terms)
    return not earlier and term == next((one for one in terms if meanings[number].is_met(one)), None)
