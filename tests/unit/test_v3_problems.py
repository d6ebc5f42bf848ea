"""The problem codes of v3 are those of its contract, and each is described whole."""

import json

from keywright.core import errors as e
from keywright.core.errors.problems import PROBLEMS
from keywright.http.v3.answers import write_problem

#: The closed list of the contract.
CONTRACT = {
    400: "malformed_body unknown_parameter invalid_parameter",
    401: "credentials_missing credentials_invalid",
    403: "not_permitted",
    404: "not_found unknown_license unknown_device",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "idempotency_key_in_use limit_reached expired inactive disabled product_mismatch key_rotated "
    "fingerprint_required no_free_lease not_activated too_many_new_devices no_removal_left "
    "leases_not_offered offline_not_allowed usage_exceeded trial_not_offered trial_used policy_archived "
    "never_expires already_exists still_in_use not_claimable not_transferable transfer_pending "
    "release_not_ready content_mismatch",
    412: "changed_meanwhile",
    413: "body_too_large",
    415: "unsupported_media_type",
    422: "invalid idempotency_key_reused",
    429: "too_many_requests",
    500: "internal_error",
    503: "busy database_unavailable fate_unknown shutting_down",
}
#: Codes whose errors are still to be made.
PLANNED = frozenset("offline_not_allowed still_in_use".split())


def test_the_table_is_the_contracts_list() -> None:
    expected = {code: status for status, codes in CONTRACT.items() for code in codes.split()}
    assert {code: problem.status for code, problem in PROBLEMS.items()} == expected


def test_every_code_is_that_of_an_error_or_planned() -> None:
    assert set(PROBLEMS) - {kind.problem for kind in e.CATALOG} <= PLANNED


def test_every_error_is_a_problem_with_a_sentence() -> None:
    for kind in e.CATALOG:
        answer = write_problem(kind(*kind.example))
        problem = json.loads(answer.body)
        assert answer.status == problem["status"] == PROBLEMS[kind.problem].status, kind
        assert problem["type"] == f"/problems/{kind.problem}", kind
        assert problem["detail"].endswith("."), kind
        assert "{" not in problem["detail"], kind
        assert answer.content_type == (b"content-type", b"application/problem+json"), kind


def test_every_code_is_explained() -> None:
    for code, problem in PROBLEMS.items():
        assert problem.title, code
        assert not problem.title.endswith("."), code
        assert problem.meaning.endswith("."), code
        assert problem.remedy.endswith("."), code


def test_a_refusal_for_now_says_when_to_ask_again() -> None:
    for error in (e.RateLimited(12), e.QueueFull()):
        answer = write_problem(error)
        seconds = json.loads(answer.body)["retry_after_seconds"]
        assert (b"retry-after", b"%d" % seconds) in answer.headers
