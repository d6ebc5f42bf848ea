"""What every answer is, whatever was asked: no fault of ours, JSON, and in the contract's shape."""

import json
from collections.abc import Callable

from tests.http.asking import Reply, assert_common_headers
from tests.proving import record


def assert_in_shape(reply: Reply) -> None:
    assert reply.status < 500, reply.body
    assert_common_headers(reply)
    body = reply.json
    if reply.status == 200:
        assert list(body) == ["success", "data"]
        assert body["success"] is True
    else:
        assert list(body) == ["success", "code", "message", "data"]
        assert (body["success"], body["data"]["status"]) == (False, reply.status)
        assert body["data"]["errors"] == {body["code"]: [body["message"]]}
        assert body["data"]["error_data"] == {body["code"]: {"status": reply.status}}


#: The states that EDD's clients know.
_STATES = "valid invalid expired disabled inactive site_inactive invalid_item_id item_name_mismatch".split()
_STATES += ["deactivated", "failed"]
_COUNTS = {"license_limit", "site_count", "expires", "activations_left", "payment_id", "price_id"}
_OF_VERSION = {"new_version", "stable_version", "sections", "package", "icons", "banners", "url", "homepage"}


def assert_in_shape_of_edd(status: int, body: bytes) -> None:
    """What an answer over ``/edd`` is: about a license, about versions, or where a package is."""
    assert status < 500, body
    if body in (b"", b"Unauthorized"):
        assert status in (302, 401)
        return
    found = json.loads(body)
    if status != 200 or "success" in found:
        assert isinstance(found["success"], bool)
        assert found["license"] in _STATES
        assert status != 200 or {"item_id", "item_name", "expires"} <= {*found}
        assert status == 200 or {"error", "msg"} <= {*found}
        assert "license_limit" not in found or {*found} >= _COUNTS
    else:
        for one in [found] if "new_version" in found else found.values():
            assert {*one} >= _OF_VERSION
            assert isinstance(one["package"], str)


class Answers:
    """Looks at answers, and counts them."""

    def __init__(self, check: Callable[[Reply], None] = assert_in_shape) -> None:
        """``check`` raises ``AssertionError`` for an answer that is not as every one must be."""
        self._check = check
        self.found = dict.fromkeys(("cases", "answers 5xx", "answers not JSON", "answers out of shape"), 0)

    def problem_of(self, reply: Reply, *, has_body: bool = True) -> str | None:
        """What is not as in every answer; there is no body where there can be none."""
        self.found["cases"] += 1
        self.found["answers 5xx"] += reply.status >= 500
        self.found["answers not JSON"] += has_body and reply.status != 204 and not _is_json(reply.body)
        try:
            if has_body:
                self._check(reply)
            else:
                assert (reply.status < 500, reply.body) == (True, b"")
                assert_common_headers(reply)
        except (AssertionError, ValueError, LookupError, TypeError) as problem:
            self.found["answers out of shape"] += 1
            return f"{problem!r} in {reply}"
        return None

    def record(self, part: str, **worst: float) -> None:
        """Write down what was found; names of figures are written with spaces."""
        record("R14", part, self.found, {name.replace("_", " "): value for name, value in worst.items()})


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True
