"""Tables of which one test says every wrong row. Thousands of small tests take longer to collect, to hand out
and to report than to run.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def each_row(
    names: str | Sequence[str],
    rows: Iterable[Any],
    *,
    ids: Callable[[Any], object] | Iterable[str] | None = None,
) -> Callable[[Test], Test]:
    """Like ``pytest.mark.parametrize``, but one test runs all rows, and raises what the wrong ones raised.
    For rows that need no fixture of their own: they share the test's.
    """
    own = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    listed = [_values(row, len(own)) for row in rows]
    given = ids if callable(ids) or ids is None else [*ids]
    assert listed, "a table without rows asserts nothing"

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)

        @wraps(test)
        def run(**fixtures: Any) -> None:
            wrong: list[Exception] = []
            for number, values in enumerate(listed):
                try:
                    test(**fixtures, **dict(zip(own, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    problem = error if isinstance(error, Exception) else AssertionError(str(error))
                    problem.add_note(f"in the row {_describe(given, number, values)}")
                    wrong.append(problem)
            if len(wrong) > 1:
                raise ExceptionGroup(f"{len(wrong)} of {len(listed)} rows are wrong", wrong)
            if wrong:
                raise wrong[0]

        kept = [one for name, one in signature.parameters.items() if name not in own]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate


def _values(row: Any, number: int) -> Sequence[Any]:
    """The values of a row."""
    if hasattr(row, "marks") and hasattr(row, "values"):
        assert not row.marks, "a row has no marks"
        return tuple(row.values)
    return (row,) if number == 1 else tuple(row)


def _describe(ids: Any, number: int, values: Sequence[Any]) -> str:
    """What a row is called in a report."""
    if callable(ids):
        return ", ".join(str(ids(value)) for value in values)
    return str(ids[number]) if ids else f"{number}: {', '.join(map(repr, values))}"[:500]
