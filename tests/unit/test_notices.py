"""Which notices a version gets, and in what order."""

from typing import Any

import pytest
from msgspec import ValidationError, convert

from keywright.licensing.updates.notices import (
    AnsweredNotice,
    KnownNotice,
    Notice,
    NoticeState,
    Severity,
    is_affected,
    list_about,
    order_notices,
)
from keywright.licensing.updates.versions import VersionScheme
from keywright.provisioning.releases.notices import NoticeFields
from tests.makers import NOW


def a_notice(number: int, affected: str, severity: Severity = Severity.MEDIUM) -> Notice:
    more: dict[str, Any] = {"url": f"https://example.com/{number}", "fixed_in": "4.0"}
    usual: dict[str, Any] = {"metadata": {}, "created_at": NOW, "updated_at": NOW}
    return Notice(
        id=number, product_id=17, affected=affected, severity=severity, title="A hole", **usual, **more
    )


def test_a_version_gets_its_notices_the_most_severe_first_and_at_most_five() -> None:
    scheme = VersionScheme.LOOSE
    found = [a_notice(1, "< 2", Severity.LOW), a_notice(2, "< 3", Severity.CRITICAL), a_notice(3, "< 3")]
    ordered = order_notices(scheme, [*found, a_notice(4, "< 3")])

    def about(version: str | None) -> list[int]:
        return [one.id for one in list_about(ordered, scheme, version)]

    assert [about(one) for one in ("1.0", "2.0", "3.0", None, "?")] == [[2, 4, 3, 1], [2, 4, 3], [], [], []]
    (first,) = list_about(ordered[:1], scheme, "1.0")
    assert (first.severity, first.title, first.url) == (Severity.CRITICAL, "A hole", "https://example.com/2")
    assert first.fixed_in == "4.0"
    many = order_notices(scheme, [a_notice(number, "< 3") for number in range(9)])
    assert [one.id for one in list_about(many, scheme, "1")] == [8, 7, 6, 5, 4]
    assert list_about((), scheme, "1") == ()


def test_a_notice_is_about_versions_that_the_scheme_knows() -> None:
    scheme = VersionScheme.SEMVER
    asked = ("1.0.0", "2.0.0", "1.0", None)
    assert [is_affected(scheme, "< 2.0.0", one) for one in asked] == [True, False, False, False]


def test_a_notice_is_a_draft_that_says_no_more_than_it_was_given() -> None:
    usual: dict[str, Any] = {"metadata": {}, "created_at": NOW, "updated_at": NOW}
    one = Notice(id=1, product_id=17, affected="< 2", title="A hole", **usual)
    assert (one.state, one.severity, one.is_security) == (NoticeState.DRAFT, Severity.MEDIUM, False)
    assert (one.text, one.url, one.fixed_in, one.published_at) == (None, None, None, None)


def test_what_answers_have_in_common_costs_the_garbage_collector_nothing() -> None:
    assert [one.__struct_config__.gc for one in (AnsweredNotice, KnownNotice)] == [False, False]


def test_the_versions_affected_have_at_most_200_characters() -> None:
    assert len(str(convert({"affected": "1" * 200}, NoticeFields).affected)) == 200
    with pytest.raises(ValidationError, match="length <= 200"):
        convert({"affected": "1" * 201}, NoticeFields)
