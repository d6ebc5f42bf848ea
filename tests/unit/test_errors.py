"""Every way to say no has a code, and whatever can be raised has its answer over HTTP."""

import ast
import inspect
import json
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import keywright
from keywright.core import errors
from keywright.core.errors import KeywrightError
from keywright.http.v2 import messages
from tests.makers import KEY, NOW, TOKEN, all_errors

PACKAGE = Path(keywright.__file__).parent
ALL = list(dict.fromkeys(all_errors()))
#: What only the command line, the pages and the start of the server meet: no call of the interface does.
NOT_OVER_HTTP = {
    errors.ConfigurationError,
    errors.ExpiresLater,
    errors.FileGone,
    errors.JobOver,
    errors.LastAdministrator,
    errors.NeverExpires,
    errors.NoLimit,
    errors.SetupOver,
    errors.StepOver,
    errors.StoreError,
    errors.TooManyJobs,
    errors.UnknownApiKey,
    errors.UnknownJob,
    errors.UnknownUser,
    errors.UserExists,
    errors.WorkerFailed,
}
#: An example of each fact that an error can carry.
FACTS: dict[str, Any] = {
    "key": KEY,
    "token": TOKEN,
    "expires_at": NOW,
    "field": "chunk_length",
    "generator_id": 7,
    "job_id": 7,
    "bits": 12.5,
    "reasons": {"label": "must be a text", "meta": "must be an object"},
    "allowed": ("GET", "POST"),
    "retry_after": 30,
}


def facts_of(kind: type[KeywrightError]) -> list[str]:
    """The names of the facts that an error of this kind carries."""
    if kind.__init__ is Exception.__init__:
        return []
    return list(inspect.signature(kind.__init__).parameters)[1:]


def an_error(kind: type[KeywrightError]) -> KeywrightError:
    """An error of this kind with all its facts."""
    return kind(*(FACTS[name] for name in facts_of(kind)))


def errors_made_in(source: Path) -> Iterator[type[KeywrightError]]:
    """Each error that a module raises or makes, by looking at its text."""
    by_name = {one.__name__: one for one in ALL}
    for node in ast.walk(ast.parse(source.read_text())):
        made: ast.expr | None = None
        if isinstance(node, ast.Raise):
            made = node.exc
        elif isinstance(node, ast.Call):
            made = node
        if isinstance(made, ast.Call):
            made = made.func
        name = made.attr if isinstance(made, ast.Attribute) else made.id if isinstance(made, ast.Name) else ""
        if name in by_name:
            yield by_name[name]


def errors_made() -> set[type[KeywrightError]]:
    """Every error that is raised anywhere."""
    return {one for source in PACKAGE.rglob("*.py") for one in errors_made_in(source)}


def test_every_error_has_a_code_of_its_own() -> None:
    own = {one: vars(one).get("code", one.code) for one in ALL}
    groups = {errors.LicenseRefusal, errors.TokenRefusal, errors.FieldRefusal}
    codes = [code for one, code in own.items() if one not in groups]
    assert len(codes) == len(set(codes))


def test_a_code_is_words_with_dots() -> None:
    assert all(re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", one.code) for one in ALL)


def test_the_codes_are_the_same_as_ever() -> None:
    # Logs and counters match on them: a code may be added here, never changed.
    assert {one.code for one in ALL} == set(
        """
        request.body_incomplete
        error refused license.unknown license.expired license.inactive license.disabled
        license.limit_reached license.nothing_active license.key_invalid license.key_taken
        license.status_invalid license.nothing_to_change license.field_not_writable license.none
        activation.unknown activation.already_active activation.not_active generator.unknown
        generator.none generator.field_missing generator.field_invalid generator.field_not_integer
        generator.too_weak parameter.invalid parameter.body_not_an_object
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


def test_the_tree_lists_every_class_of_the_module_parents_first() -> None:
    defined = {one for _, one in inspect.getmembers(errors, inspect.isclass)}
    assert set(ALL) == {one for one in defined if issubclass(one, KeywrightError)}
    assert all(ALL.index(parent) < ALL.index(one) for one in ALL for parent in one.__bases__ if parent in ALL)


def test_every_error_that_is_raised_has_its_answer_over_http() -> None:
    assert errors_made() - NOT_OVER_HTTP - set(messages.PROBLEMS) == set()


def test_every_leaf_of_the_tree_has_its_answer_over_http() -> None:
    leaves = {one for one in ALL if not one.__subclasses__()}
    assert leaves - NOT_OVER_HTTP - set(messages.PROBLEMS) == set()


def test_no_call_of_the_interface_can_meet_what_has_no_answer_over_http() -> None:
    starting = {PACKAGE / "http" / "server" / name for name in ("listening.py", "run.py", "workers.py")}
    # The pages have sentences of their own.
    pages = set((PACKAGE / "http" / "admin").rglob("*.py"))
    sources = set((PACKAGE / "http").rglob("*.py")) - starting - pages
    made = {one for source in sources for one in errors_made_in(source)}
    assert made & NOT_OVER_HTTP == set()
    assert NOT_OVER_HTTP & set(messages.PROBLEMS) == set()


def test_every_answer_is_for_an_error_that_is_raised() -> None:
    assert set(messages.PROBLEMS) - errors_made() == set()


@pytest.mark.parametrize("kind", messages.PROBLEMS, ids=lambda kind: kind.__name__)
def test_every_error_can_be_said_with_its_own_facts(kind: type[KeywrightError]) -> None:
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


@pytest.mark.parametrize("kind", [one for one in ALL if facts_of(one)], ids=lambda kind: kind.__name__)
def test_an_error_keeps_its_facts_and_tells_them_in_its_text(kind: type[KeywrightError]) -> None:
    error = an_error(kind)
    facts = [FACTS[name] for name in facts_of(kind)]
    assert [getattr(error, name) for name in facts_of(kind)] == facts
    assert list(error.args) == facts
    assert str(error) == str(facts[0])


def test_the_reasons_of_a_refusal_do_not_change_with_what_they_were_made_from() -> None:
    reasons = {"label": "too long"}
    refusal = errors.InvalidParameters(reasons)
    reasons["label"] = "something else"
    assert refusal.reasons == {"label": "too long"}
    assert str(refusal) == "{'label': 'too long'}"


def test_whoever_comes_at_a_bad_moment_may_come_again_after_a_second() -> None:
    unavailable = [one for one in ALL if issubclass(one, errors.Unavailable)]
    assert {one.retry_after for one in unavailable} == {1}
