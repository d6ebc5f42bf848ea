"""Which tables hold work for the loops in the background."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Query
from keywright.db import Question


class LookForWork(Query, frozen=True, kw_only=True):
    """For each question, whether it finds a row: a tuple of booleans."""

    questions: tuple[Question, ...]


def look_for_work(read: Any, query: LookForWork) -> tuple[bool, ...]:
    """Ask all questions in one statement."""
    found: tuple[bool, ...] = read.tx.which_exist(query.questions)
    return found


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {LookForWork: look_for_work}
