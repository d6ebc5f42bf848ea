"""The nouns: what their numbers and words stand for elsewhere, and that nothing changes them."""

import gc
from enum import IntEnum, StrEnum
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import msgspec
import pytest

import keywright
from keywright.core.command import Command, Context, Query
from keywright.core.fields import Fields
from keywright.core.nouns import ListQuery
from keywright.identity.model import Permissions, Role
from keywright.jobs.model import ChangeStep, FilesStep, ImportStep, JobState
from keywright.licensing.activations.model import (
    ActivationSource,
    DeactivateDevice,
    Device,
    KnownRecords,
    LicenseRecord,
    NamedProduct,
    PlaceChange,
    Placement,
)
from keywright.licensing.licenses.model import (
    LicenseFilter,
    LicenseSource,
    State,
    Status,
    UpdateLicense,
    find_renames,
    own_fields,
    with_former_names,
)
from keywright.licensing.updates.notices import NoticeState, RecipientState, Severity
from keywright.provisioning.importers.model import ImportLicenses
from keywright.provisioning.products import NameKind
from keywright.signing.commands import MakeLicenseFile
from tests.makers import (
    a_license,
    a_user,
    an_activation,
    an_api_key,
    an_event,
    an_origin,
)
from tests.tables import each_row

CONTEXT = Context(an_event().occurred_at, an_origin())
_MODULES = {one.name for one in walk_packages(keywright.__path__, "keywright.")}
#: The concepts that are a module, not a folder with a ``model``.
_SMALL = {
    "keywright.licensing": ("moments", "notes", "refusals", "removals", "validation"),
    "keywright.licensing.updates": ("notices",),
    "keywright.provisioning": ("brand", "customers", "products", "trials"),
}
#: The names of all modules of nouns.
MODELS = sorted(
    {one for one in _MODULES if one.endswith(".model")}
    | {f"{room}.{one}" for room, some in _SMALL.items() for one in some}
)


def structs_of(model: str, *, gc: bool | None = None) -> list[type[msgspec.Struct]]:
    """The nouns that a module defines, without the fields that may be set, and commands; with ``gc``, those
    that the garbage collector looks at, or not.
    """
    kinds = [one for one in vars(import_module(model)).values() if isinstance(one, type)]
    structs = [one for one in kinds if issubclass(one, msgspec.Struct) and one.__module__ == model]
    structs = [one for one in structs if not issubclass(one, Fields | ListQuery | Command | Query)]
    return [one for one in structs if gc is None or one.__struct_config__.gc is gc]


@each_row(
    "model",
    [*MODELS, "keywright.core.command", "keywright.engine.idempotency"],
)
def test_a_noun_never_changes(model: str) -> None:
    assert all(one.__struct_config__.frozen for one in structs_of(model))


def test_a_word_is_its_name_in_small_letters() -> None:
    # Shops and signed answers have the words of others.
    for model in (one for one in MODELS if not {"shops", "signing"} & {*one.split(".")}):
        kinds = [one for one in vars(import_module(model)).values() if isinstance(one, type)]
        words = [one for kind in kinds if issubclass(kind, StrEnum) for one in kind]
        assert [one.value for one in words] == [one.name.lower() for one in words], model


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


@each_row(
    ("kind", "words"),
    [
        (Permissions, ["read", "write", "read_write", "client"]),
        (Role, ["administrator", "support", "reader"]),
        (NameKind, ["product", "customer"]),
        (State, ["valid", "grace", "expired", "inactive", "disabled"]),
        (PlaceChange, ["kept", "taken_back", "moved", "new"]),
        (Severity, ["info", "low", "medium", "high", "critical"]),
        (NoticeState, ["draft", "published", "withdrawn"]),
        (RecipientState, ["unreachable", "waiting", "sent", "failed", "dropped"]),
        (JobState, ["draft", "waiting", "running", "done", "failed", "canceled", "stopped"]),
    ],
)
def test_the_words_are_those_that_databases_hold_already(kind: type[StrEnum], words: list[str]) -> None:
    assert [one.value for one in kind] == words
    assert [one.name.lower() for one in kind] == words


@pytest.mark.parametrize(
    "noun", [a_license(), an_activation(), an_origin(), LicenseRecord(a_license(), (an_activation(),))]
)
def test_what_comes_in_thousands_costs_the_garbage_collector_nothing(noun: msgspec.Struct) -> None:
    assert not gc.is_tracked(noun)


def test_what_each_call_makes_costs_the_garbage_collector_nothing() -> None:
    rooms = ("activations", "leases", "licenses", "terms", "usage")
    tracked = {
        kind.__name__ for room in rooms for kind in structs_of(f"keywright.licensing.{room}.model", gc=True)
    }
    assert tracked == {"LicenseFilter", "LicensePage", "Order", "PeriodFilter", "RecordLimits"}


def test_a_license_alone_is_a_record_without_activations() -> None:
    assert LicenseRecord(a_license()).activations == ()


def test_an_event_has_no_details_and_a_filter_no_conditions_unless_they_are_given() -> None:
    assert an_event().details is None
    where = LicenseFilter()
    assert all(condition is None for condition in msgspec.structs.astuple(where))


def test_a_device_says_and_moves_nothing_unless_that_is_given() -> None:
    assert msgspec.structs.astuple(Device()) == (None,) * 5
    assert msgspec.structs.astuple(KnownRecords()) == (None, None)
    placement = Placement(a_license(), PlaceChange.NEW)
    assert (placement.activation, placement.released, placement.is_new_device) == (None, None, False)


def test_an_api_key_was_never_used_and_a_user_never_signed_in_unless_that_is_said() -> None:
    assert an_api_key().last_used_at is None
    assert (a_user().disabled_at, a_user().last_signed_in_at) == (None, None)


def test_the_fields_of_a_license_that_no_rule_decides_have_its_values() -> None:
    assert own_fields(a_license(external_id="crm-4")) == {"external_id": "crm-4"}


def test_a_license_that_gets_a_new_key_is_known_by_its_former_ones() -> None:
    context = CONTEXT
    commands = [
        UpdateLicense(context=context, license=old, changes={"key": new}) for old, new in ("AB", "BC")
    ]
    unchanged = UpdateLicense(context=context, license="D", changes={"status": Status.SOLD})
    renames = find_renames([*commands, unchanged])
    assert renames == {"B": ["A"], "C": ["B"]}
    assert with_former_names(["C", "D"], renames) == ["C", "D", "B", "A"]


def test_a_product_has_an_address_where_its_licenses_are_renewed() -> None:
    assert NamedProduct(1).link_to_renew("r1") is None
    assert (
        NamedProduct(1, renew_url="https://a.test/{license_ref}").link_to_renew("r1") == "https://a.test/r1"
    )


def test_a_step_of_a_job_locks_the_licenses_that_it_changes_or_imports() -> None:
    step: dict[str, Any] = {
        "context": CONTEXT,
        "job_id": 1,
        "claimed_by": "w",
        "position": 0,
        "is_last": True,
    }
    changes = (UpdateLicense(context=CONTEXT, license=7, changes={}),)
    assert ChangeStep(changes=changes, last_id=7, **step).locks == [7]
    imported = ImportLicenses(context=CONTEXT, source="csv", licenses=())
    given: dict[str, Any] = {"command": imported, "reasons": (), "rejects": b"", "next_position": 1}
    assert ImportStep(**given, **step).locks == imported.locks
    file = MakeLicenseFile(context=CONTEXT, license=7, token=None, alg="EdDSA")
    files = FilesStep(files=(file, file), next_position=2, **step)
    assert (files.parts, files.locks) == ((file, file), set(file.locks))


def test_a_validation_names_a_device_by_its_fingerprint_or_its_token() -> None:
    named: dict[str, Any] = {
        "nothing": {},
        "fingerprint": {"device": Device(fingerprint="f")},
        "token": {"token": "0" * 40},
    }
    found = {
        name: DeactivateDevice(context=CONTEXT, license="A", **given).is_device_named
        for name, given in named.items()
    }
    assert found == {"nothing": False, "fingerprint": True, "token": True}
