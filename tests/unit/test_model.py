"""The nouns: what their numbers and words stand for elsewhere, and that nothing changes them."""

import gc
import re
import sys
from enum import IntEnum, StrEnum
from typing import Any

import msgspec
import pytest

from keywright.core.command import Origin
from keywright.engine import idempotency
from keywright.identity.model import Caller, Permissions, Role, SecondFactor
from keywright.jobs.model import Claim, Job, JobState
from keywright.licensing.activations.model import (
    Activation,
    ActivationSource,
    LicensePage,
    LicenseRecord,
    RecordLimits,
)
from keywright.licensing.licenses.model import License, LicenseFilter, LicenseSource, Status
from keywright.provisioning.catalog.model import NameKind
from tests.makers import (
    NOW,
    a_generator,
    a_license,
    a_session,
    a_user,
    an_activation,
    an_api_key,
    an_event,
    an_origin,
)

#: A noun of each kind.
NOUNS: list[msgspec.Struct] = [
    a_license(),
    an_activation(),
    a_generator(),
    an_api_key(),
    a_user(),
    a_session(),
    SecondFactor(1, "ORUGS4ZANFZSAYJAORSXG5BAMZXXEIDU", NOW, 0),
    Job(1, "export", JobState.WAITING, {}, None, 0, 0, 0, None, NOW, 1, None, None, None, None),
    Claim(1, None, None, 0),
    Caller(1, "shop", Permissions.READ, None),
    an_origin(),
    an_event(),
    idempotency.IdempotencyRecord(b"", 200, b""),
    LicenseRecord(a_license(), (an_activation(),)),
    RecordLimits(),
    LicensePage((), 0),
    LicenseFilter(),
]


def test_there_is_a_noun_of_each_kind_here() -> None:
    modules = [module for name, module in sys.modules.items() if re.fullmatch(r"keywright\..*\.model", name)]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    kinds = {one for one in found if issubclass(one, msgspec.Struct)}
    assert kinds - {msgspec.Struct} <= {type(one) for one in NOUNS}


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        (Status, {"SOLD": 1, "DELIVERED": 2, "ACTIVE": 3, "INACTIVE": 4, "DISABLED": 5}),
        (LicenseSource, {"GENERATOR": 1, "IMPORT": 2, "API": 3, "MIGRATION": 4}),
        (ActivationSource, {"WEB": 1, "API": 2, "MIGRATION": 3}),
    ],
)
def test_the_numbers_are_those_of_the_contract(kind: type[IntEnum], numbers: dict[str, int]) -> None:
    assert {one.name: one.value for one in kind} == numbers


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Permissions, ["read", "write", "read_write", "client"]),
        (Role, ["administrator", "support", "reader"]),
        (NameKind, ["product", "customer"]),
        (JobState, ["waiting", "running", "done", "failed", "canceled", "stopped"]),
    ],
)
def test_the_words_are_those_that_databases_hold_already(kind: type[StrEnum], words: list[str]) -> None:
    assert [one.value for one in kind] == words
    assert [one.name.lower() for one in kind] == words


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: type(noun).__name__)
def test_a_noun_never_changes(noun: Any) -> None:
    field = noun.__struct_fields__[0]
    before = getattr(noun, field)
    with pytest.raises(AttributeError, match="immutable"):
        setattr(noun, field, before)
    assert getattr(noun, field) is before


@pytest.mark.parametrize("kind", [License, Activation, Origin, LicenseRecord])
def test_what_comes_in_thousands_costs_the_garbage_collector_nothing(kind: type[msgspec.Struct]) -> None:
    (noun,) = [one for one in NOUNS if type(one) is kind]
    assert not gc.is_tracked(noun)


def test_a_license_alone_is_a_record_without_activations() -> None:
    assert LicenseRecord(a_license()).activations == ()


def test_an_event_has_no_details_and_a_filter_no_conditions_unless_they_are_given() -> None:
    assert an_event().details is None
    where = LicenseFilter()
    assert [where.status, where.product_id, where.order_id, where.customer_id] == [None] * 4


def test_an_api_key_was_never_used_and_a_user_never_signed_in_unless_that_is_said() -> None:
    assert an_api_key().last_used_at is None
    assert (a_user().disabled_at, a_user().last_signed_in_at) == (None, None)
