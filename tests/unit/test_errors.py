"""Every error describes itself whole: its code, its sentences, its answer over v2."""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

import keywright
from keywright.core import errors
from keywright.core.errors import KeywrightError
from keywright.http.v2 import wire
from tests.makers import all_errors

PACKAGE = Path(keywright.__file__).parent
ALL = errors.CATALOG
#: What each error answers everywhere, by its class.
TABLE = Path(__file__).parents[1] / "data" / "errors.json"
LEAVES = [one for one in ALL if not one.__subclasses__()]
#: Groups, which are not raised themselves.
GROUPS = {one for one in ALL if "code" not in vars(one)} | {errors.Unavailable}


def name(kind: type[KeywrightError]) -> str:
    return kind.__name__


def arguments_of(kind: type[KeywrightError]) -> list[str]:
    """The names of an error's arguments."""
    return list(kind.members) if kind.example else []


def an_error(kind: type[KeywrightError]) -> KeywrightError:
    """The error's own example."""
    return kind(*kind.example)


def described(kind: type[KeywrightError]) -> dict[str, object]:
    """All that the interfaces answer for the error's example, and that logs and counters match on."""
    error = an_error(kind)
    answers = {
        "code": kind.code,
        "status": kind.status,
        "heading": kind.heading,
        "sentence": error.fill(kind.sentence),
        "hint": error.fill(kind.hint),
        "v2": kind.v2 and [kind.v2.status, kind.v2.code, error.fill(kind.v2.sentence)],
        "problem": kind.problem,
        "problem_detail": error.fill(kind.problem_detail),
        "problem_members": error.problem_members(),
        "retry_after": getattr(kind, "retry_after", None),
        "example": kind.example and repr(kind.example),
        "text": str(error),
    }
    return {name: answer for name, answer in answers.items() if answer}


def own(kind: type[KeywrightError], attribute: str) -> bool:
    """Whether the class or one of its groups below the root sets this attribute."""
    roots = (errors.Refusal, *errors.Refusal.__mro__)
    return any(attribute in vars(one) for one in kind.__mro__ if one not in roots)


def expressions_raised(tree: ast.Module) -> Iterator[ast.expr | None]:
    """What a module raises or calls, and what it hands to a function that raises it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            yield node.exc
        elif isinstance(node, ast.Call):
            yield node.func
        elif isinstance(node, ast.keyword):
            yield node.value
        elif isinstance(node, ast.arguments):
            yield from (*node.defaults, *node.kw_defaults)


def names_of_errors(tree: ast.Module) -> dict[str, type[KeywrightError]]:
    """The errors by the names that a module has for them: ``e.Fault``, ``Fault``."""
    found: dict[str, type[KeywrightError]] = {}
    by_name = {one.__name__: one for one in ALL}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "keywright.core":
            modules = [one.asname or one.name for one in node.names if one.name == "errors"]
            found |= {f"{module}.{name}": one for module in modules for name, one in by_name.items()}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("keywright.core.errors"):
            found |= {one.asname or one.name: by_name[one.name] for one in node.names if one.name in by_name}
    return found


def errors_raised_in(text: str) -> set[type[KeywrightError]]:
    """Each error that a module raises, by looking at its text."""
    # To read all modules takes seconds.
    tree = ast.parse(text if "errors" in text else "")
    names = names_of_errors(tree)
    if not names:
        return set()
    # Only these are written as the name of an error is.
    written = {
        ast.unparse(one) for one in expressions_raised(tree) if isinstance(one, ast.Name | ast.Attribute)
    }
    return {names[one] for one in written & names.keys()}


def errors_raised(sources: Iterable[Path] = PACKAGE.rglob("*.py")) -> set[type[KeywrightError]]:
    """Every error that these modules raise."""
    return {one for source in sources for one in errors_raised_in(source.read_text())}


@pytest.fixture(scope="module")
def raised() -> set[type[KeywrightError]]:
    """Every error that is raised anywhere."""
    return errors_raised()


def test_an_error_is_found_where_it_is_raised_called_or_handed_on_and_nowhere_else() -> None:
    text = """
from keywright.core import errors as e
from keywright.core.errors import Fault, UnknownJob, UserExists

def take(error=UserExists): ...

take(error=e.RateLimited)
if isinstance(problem, UnknownJob) or type(problem) is e.JobOver:
    raise e.StepOver from Refusal()
raise Fault("x")
"""
    expected = {errors.UserExists, errors.RateLimited, errors.StepOver, errors.Fault}
    assert errors_raised_in(text) == expected


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [vars(one)["code"] for one in ALL if one.__subclasses__() == [] or "code" in vars(one)]
    assert len(codes) == len(set(codes))


def test_a_code_is_words_with_dots() -> None:
    assert all(re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", one.code) for one in ALL)


def test_every_error_is_answered_as_the_table_has_it() -> None:
    # Shipped programs, logs and counters match on these. After a change that is meant:
    # python -m tests.unit.test_errors > tests/data/errors.json
    expected = json.loads(TABLE.read_text())
    found = json.loads(_table())
    assert found.keys() == expected.keys()
    assert [(one, found[one], expected[one]) for one in found if found[one] != expected[one]] == []


def test_the_catalog_lists_every_class_parents_first() -> None:
    assert set(ALL) == set(all_errors())
    assert all(ALL.index(parent) < ALL.index(one) for one in ALL for parent in one.__bases__ if parent in ALL)


def test_every_error_says_what_v2_answers_or_that_no_call_of_v2_meets_it() -> None:
    assert [one for one in LEAVES if not own(one, "v2")] == []


def test_every_refusal_has_a_sentence_of_its_own() -> None:
    assert [one for one in LEAVES if issubclass(one, errors.Refusal) and not own(one, "sentence")] == []


def test_nothing_is_raised_that_says_nothing_of_its_own(raised: set[type[KeywrightError]]) -> None:
    assert raised & {*GROUPS, errors.KeywrightError, errors.Refusal} == set()


def test_no_call_of_the_interface_can_meet_what_has_no_answer_over_http() -> None:
    starting = {PACKAGE / "http" / "server" / name for name in ("sockets.py", "run.py", "workers.py")}
    # The pages have sentences of their own; v3 and the pages about its problems have problems.
    others = {
        one
        for folder in ("admin", "openapi", "portal", "public", "update_formats", "v3")
        for one in (PACKAGE / "http" / folder).rglob("*.py")
    }
    # Answers with files of releases are for these alone.
    others.add(PACKAGE / "http" / "answer.py")
    sources = set((PACKAGE / "http").rglob("*.py")) - starting - others
    assert {one.__name__ for one in errors_raised(sources) if one.v2 is None} == set()


def test_every_answer_is_for_an_error_that_is_raised(raised: set[type[KeywrightError]]) -> None:
    assert set(wire.PROBLEMS) - raised == set()


def test_every_text_of_an_error_can_be_said_with_its_own_facts() -> None:
    for one in ALL:
        texts = described(one)
        assert "{" not in f"{texts['sentence']}{texts.get('hint', '')}{texts.get('problem_detail', '')}", one
    assert [one for one in ALL if not 400 <= one.status <= 599] == []


def test_every_answer_of_v2_has_the_status_the_code_and_the_sentence() -> None:
    found = {}
    for kind in wire.PROBLEMS:
        status, written = wire.write(an_error(kind), {})
        body = json.loads(written)
        found[kind] = [status, body["code"], body["message"]]
    assert found == {kind: described(kind).get("v2") for kind in wire.PROBLEMS}


def test_an_error_without_an_answer_of_its_own_is_a_fault_of_ours() -> None:
    status, written = wire.write(errors.StoreError("internals"), {})
    assert status == 500
    assert b"internals" not in written


def test_an_error_keeps_its_facts_and_tells_them_in_its_text() -> None:
    for kind in (one for one in ALL if one.example):
        error = an_error(kind)
        assert tuple(getattr(error, name) for name in arguments_of(kind)) == kind.example
        assert error.args == kind.example
        assert str(error) == str(kind.example[0])


def test_an_error_takes_its_members_and_nothing_else() -> None:
    make: Callable[..., errors.LicenseInactive] = errors.LicenseInactive
    for given, named in ((), {}), (("K-1", "more"), {}), (("K-1",), {"more": 1}):
        with pytest.raises(TypeError, match="LicenseInactive takes"):
            make(*given, **named)


def test_a_full_license_shows_its_devices_where_programs_may_see_them() -> None:
    full = errors.LimitReached("K-1", 1, 1)
    assert "devices" not in full.problem_members()
    shown = errors.LimitReached("K-1", 1, 1, devices=[{"id": 1}]).problem_members()
    assert [*shown["devices"]] == [{"id": 1}]


def test_the_reasons_of_a_refusal_do_not_change_with_what_they_were_made_from() -> None:
    reasons = {"label": "too long"}
    refusal = errors.InvalidParameters(reasons)
    reasons["label"] = "something else"
    assert refusal.reasons == {"label": "too long"}
    assert str(refusal) == "{'label': 'too long'}"


def test_sentences_have_the_facts_in_words() -> None:
    assert [errors.RateLimited(seconds).fill("{seconds}") for seconds in (1, 1200)] == [
        "1 second",
        "1,200 seconds",
    ]
    assert errors.FieldNotWritable("chunk_length").fill("{field} {field_in_words}") == (
        "chunk_length chunk length"
    )
    wrong = errors.InvalidParameters({"a_b": "is odd", "c": "is new"})
    assert wrong.fill("{names}|{reasons_by_name}|{reasons_in_words}") == (
        "a_b, c|a_b: is odd; c: is new|a b is odd; c is new"
    )
    expired = errors.LicenseExpired(datetime(2024, 1, 2, tzinfo=UTC))
    assert expired.fill("{expires_at} {code} {detail}") == (
        "2024-01-02 00:00:00 license.expired 2024-01-02 00:00:00+00:00"
    )
    assert errors.Fault().fill("{detail}") == "fault.internal"


def test_wrong_values_are_named_by_the_first_one_and_the_number_of_the_others() -> None:
    first = errors.FieldError("/name", "missing", "is missing")
    found = [errors.InvalidBody((first,) * number).facts()["first"] for number in (1, 2, 3)]
    assert found == ["/name is missing", "/name is missing, and 1 more", "/name is missing, and 2 more"]
    whole = errors.FieldError("", "wrong_type", "must be an object")
    assert errors.InvalidBody((whole,)).facts()["first"] == "the body must be an object"
    assert errors.InvalidQuery((whole,)).facts()["first"] == "the query must be an object"


def test_a_caller_may_ask_an_unavailable_server_again_after_a_second() -> None:
    unavailable = [one for one in ALL if issubclass(one, errors.Unavailable)]
    assert {one.retry_after for one in unavailable} == {1}


def test_a_shop_may_name_no_time_after_which_it_may_be_asked_again() -> None:
    assert errors.ShopUnavailable("503 for orders").retry_after is None


def _table() -> str:
    answers: dict[str, object] = {name(kind): described(kind) for kind in ALL}
    answers["codes of wrong values"] = get_args(errors.ValueCode)
    return json.dumps(answers, indent=1, ensure_ascii=False, default=str) + "\n"


if __name__ == "__main__":
    print(_table(), end="")
