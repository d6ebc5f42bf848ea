"""Every error describes itself whole: its code, its sentences, its answer over v2."""

import ast
import inspect
import json
import re
import string
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import keywright
from keywright.core import errors
from keywright.core.errors import KeywrightError
from keywright.http.v2 import messages
from tests.makers import all_errors

PACKAGE = Path(keywright.__file__).parent
ALL = errors.CATALOG
LEAVES = [one for one in ALL if not one.__subclasses__()]
#: Groups, which are not raised themselves.
GROUPS = {one for one in ALL if "code" not in vars(one)} | {errors.Unavailable}


def name(kind: type[KeywrightError]) -> str:
    return kind.__name__


def arguments_of(kind: type[KeywrightError]) -> list[str]:
    """The names of an error's arguments."""
    return list(inspect.signature(kind.__init__).parameters)[1:] if kind.example else []


def an_error(kind: type[KeywrightError]) -> KeywrightError:
    """The error's own example."""
    return kind(*kind.example)


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


def test_the_codes_are_the_same_as_ever() -> None:
    # Logs and counters match on them: a code may be added, never changed.
    assert {one.code for one in ALL} >= set(
        """
        request.body_incomplete
        error refused license.unknown license.expired license.inactive license.disabled
        license.limit_reached license.nothing_active license.key_invalid license.key_taken
        license.status_invalid license.nothing_to_change license.field_not_writable license.none
        activation.unknown activation.already_active activation.not_active policy.unknown
        policy.none policy.field_missing policy.field_invalid policy.field_not_integer
        policy.too_weak parameter.invalid parameter.body_not_an_object
        idempotency.key_reused idempotency.key_busy user.exists
        user.unknown user.last_administrator user.setup_over license.never_expires license.expires_later
        license.no_limit job.unknown job.over job.too_many job.step_over job.file_gone
        api_key.unknown access.denied access.credentials_missing access.credentials_invalid
        access.no_read_permission access.no_write_permission access.rate_limited request.bad
        request.no_such_address request.method_not_allowed request.prefetch_refused request.malformed
        request.malformed_json request.malformed_form request.body_too_large request.address_too_long
        request.headers_too_large request.too_slow request.encoded_body fault.internal
        fault.unavailable fault.queue_full fault.shutting_down fault.store_unavailable
        fault.store_busy fault.store_conflict fault.lock_timeout fault.fate_unknown
        access.too_many_changes fault.secret_missing fault.waited_too_long fault.took_too_long
        fault.rejected_by_database configuration store worker
        """.split()
    )


def test_the_catalog_lists_every_class_parents_first() -> None:
    assert set(ALL) == set(all_errors())
    assert all(ALL.index(parent) < ALL.index(one) for one in ALL for parent in one.__bases__ if parent in ALL)


@pytest.mark.parametrize("kind", LEAVES, ids=name)
def test_every_error_says_what_v2_answers_or_that_no_call_of_v2_meets_it(kind: type[KeywrightError]) -> None:
    assert own(kind, "v2")


@pytest.mark.parametrize("kind", [one for one in LEAVES if issubclass(one, errors.Refusal)], ids=name)
def test_every_refusal_has_a_sentence_of_its_own(kind: type[KeywrightError]) -> None:
    assert own(kind, "sentence")


def test_nothing_is_raised_that_says_nothing_of_its_own(raised: set[type[KeywrightError]]) -> None:
    assert raised & {*GROUPS, errors.KeywrightError, errors.Refusal} == set()


def test_no_call_of_the_interface_can_meet_what_has_no_answer_over_http() -> None:
    starting = {PACKAGE / "http" / "server" / name for name in ("listening.py", "run.py", "workers.py")}
    # The pages have sentences of their own; v3 and the pages about its problems have problems.
    others = {
        one
        for folder in ("admin", "openapi", "portal", "public", "v3")
        for one in (PACKAGE / "http" / folder).rglob("*.py")
    }
    sources = set((PACKAGE / "http").rglob("*.py")) - starting - others
    assert {one.__name__ for one in errors_raised(sources) if one.v2 is None} == set()


def test_every_answer_is_for_an_error_that_is_raised(raised: set[type[KeywrightError]]) -> None:
    assert set(messages.PROBLEMS) - raised == set()


@pytest.mark.parametrize("kind", ALL, ids=name)
def test_every_text_of_an_error_can_be_said_with_its_own_facts(kind: type[KeywrightError]) -> None:
    error = an_error(kind)
    assert 400 <= kind.status <= 599
    for text in (kind.sentence, kind.hint):
        assert "{" not in error.say(text)


@pytest.mark.parametrize("kind", messages.PROBLEMS, ids=name)
def test_every_answer_of_v2_has_the_status_the_code_and_the_sentence(kind: type[KeywrightError]) -> None:
    problem = messages.PROBLEMS[kind]
    status, written = messages.write(an_error(kind), {})
    body = json.loads(written)
    assert 400 <= status <= 599
    assert (status, body["code"]) == (problem.status, problem.code)
    for literal, *_ in string.Formatter().parse(problem.sentence):
        assert literal in body["message"]
    assert "{" not in body["message"]


def test_an_error_without_an_answer_of_its_own_is_a_fault_of_ours() -> None:
    status, written = messages.write(errors.StoreError("internals"), {})
    assert status == 500
    assert b"internals" not in written


@pytest.mark.parametrize("kind", [one for one in ALL if one.example], ids=name)
def test_an_error_keeps_its_facts_and_tells_them_in_its_text(kind: type[KeywrightError]) -> None:
    error = an_error(kind)
    assert tuple(getattr(error, name) for name in arguments_of(kind)) == kind.example
    assert error.args == kind.example
    assert str(error) == str(kind.example[0])


def test_the_reasons_of_a_refusal_do_not_change_with_what_they_were_made_from() -> None:
    reasons = {"label": "too long"}
    refusal = errors.InvalidParameters(reasons)
    reasons["label"] = "something else"
    assert refusal.reasons == {"label": "too long"}
    assert str(refusal) == "{'label': 'too long'}"


def test_sentences_have_the_facts_in_words() -> None:
    assert [errors.RateLimited(seconds).say("{seconds}") for seconds in (1, 1200)] == [
        "1 second",
        "1,200 seconds",
    ]
    assert errors.FieldNotWritable("chunk_length").say("{field} {field_in_words}") == (
        "chunk_length chunk length"
    )
    wrong = errors.InvalidParameters({"a_b": "is odd", "c": "is new"})
    assert wrong.say("{names}|{reasons_by_name}|{reasons_in_words}") == (
        "a_b, c|a_b: is odd; c: is new|a b is odd; c is new"
    )
    expired = errors.LicenseExpired(datetime(2024, 1, 2, tzinfo=UTC))
    assert expired.say("{expires_at} {code} {detail}") == (
        "2024-01-02 00:00:00 license.expired 2024-01-02 00:00:00+00:00"
    )
    assert errors.Fault().say("{detail}") == "fault.internal"


def test_a_caller_may_ask_an_unavailable_server_again_after_a_second() -> None:
    unavailable = [one for one in ALL if issubclass(one, errors.Unavailable)]
    assert {one.retry_after for one in unavailable} == {1}
