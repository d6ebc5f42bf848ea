"""The nouns: what their numbers and words stand for elsewhere, and that nothing changes them."""

import gc
import inspect
from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from enum import Enum, IntEnum, StrEnum
from importlib import import_module
from pkgutil import walk_packages
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest
from sqlalchemy import String

import keywright
from keywright.core.command import Command, Context, Cost, Query
from keywright.core.fields import Fields
from keywright.core.nouns import ListQuery
from keywright.db.schema.delivery import mail_outbox
from keywright.events.model import MAX_UNIQUE_LENGTH, Subject
from keywright.identity.model import Permissions, Right, Role, may
from keywright.jobs.model import ChangeStep, FilesStep, ImportStep, JobState
from keywright.licensing.activations.model import (
    ActivateDevice,
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
    Order,
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
#: Modules with nouns beside what is done with them.
BESIDE = ["keywright.core.command", "keywright.licensing.updates.rules"]


def structs_of(model: str, *, gc: bool | None = None) -> list[type[msgspec.Struct]]:
    """The nouns that a module defines, without the fields that may be set, and commands; with ``gc``, those
    that the garbage collector looks at, or not.
    """
    kinds = [one for one in vars(import_module(model)).values() if isinstance(one, type)]
    structs = [one for one in kinds if issubclass(one, msgspec.Struct) and one.__module__ == model]
    structs = [one for one in structs if not issubclass(one, Fields | ListQuery | Command | Query)]
    return [one for one in structs if gc is None or one.__struct_config__.gc is gc]


def commands_of(model: str) -> list[type[Command | Query]]:
    """The commands and queries that a module defines."""
    kinds = [one for one in vars(import_module(model)).values() if isinstance(one, type)]
    return [one for one in kinds if issubclass(one, Command | Query) and one.__module__ == model]


def fields_of(model: str) -> list[type[Fields]]:
    """What a module declares as fields that may be set."""
    kinds = [one for one in vars(import_module(model)).values() if isinstance(one, type)]
    return [one for one in kinds if issubclass(one, Fields) and one.__module__ == model]


def is_named(kind: type[msgspec.Struct]) -> bool:
    """Whether all values are given by their names."""
    return all(one.kind is one.KEYWORD_ONLY for one in inspect.signature(kind).parameters.values())


def nothing_of(kind: Any) -> Any:
    """The value of this type that asks for nothing; None for words, which all ask for something."""
    origin = get_origin(kind) or kind
    if origin is Annotated:
        return nothing_of(get_args(kind)[0])
    if origin in (Union, UnionType):
        return msgspec.UNSET if msgspec.UnsetType in get_args(kind) else None
    if origin in (Mapping, Sequence):
        return {} if origin is Mapping else ()
    return None if issubclass(origin, Enum) else origin()


def defaults_of(kind: type[msgspec.Struct]) -> dict[str, tuple[Any, Any]]:
    """By the name of a member that can be left out, its value then, and the one that asks for nothing."""
    found = {}
    for one in msgspec.structs.fields(kind):
        if one.default_factory is not msgspec.NODEFAULT:
            found[one.name] = (one.default_factory(), nothing_of(one.type))
        elif one.default is not msgspec.NODEFAULT:
            found[one.name] = (one.default, nothing_of(one.type))
    return found


@each_row(
    "model",
    [*MODELS, *BESIDE, "keywright.engine.idempotency"],
)
def test_a_noun_and_a_command_never_change(model: str) -> None:
    assert all(one.__struct_config__.frozen for one in (*structs_of(model), *commands_of(model)))


def test_the_values_of_a_command_are_given_by_name() -> None:
    assert [one for model in MODELS for one in commands_of(model) if not is_named(one)] == []


def test_the_values_of_a_large_noun_are_given_by_name() -> None:
    rooms = ("events", "licensing")
    named = {
        one.__name__
        for model in (*MODELS, *BESIDE)
        if model.split(".")[1] in rooms
        for one in structs_of(model)
        if inspect.signature(one).parameters and is_named(one)
    }
    assert named == {
        "Asked",
        "Facts",
        "Notice",
        "OutboxMail",
        "PeriodFilter",
        "QueuedMail",
        "RefusedCall",
        "Release",
        "ReleaseFile",
        "ShownFields",
        "Subject",
        "UpdateFacts",
    }


def test_what_is_left_out_asks_for_nothing_but_for_these() -> None:
    # Of events, users, jobs and licenses; what may be set of other nouns, the documents list.
    rooms = ("events", "identity", "jobs", "licensing")
    found = {
        f"{kind.__name__}.{name}": value
        for model in [*BESIDE, *(one for one in MODELS if one.split(".")[1] in rooms)]
        for kind in (*structs_of(model), *commands_of(model), *fields_of(model))
        for name, (value, nothing) in defaults_of(kind).items()
        if repr(value) != repr(nothing)
    }
    assert found == {
        "IdempotentCall.keeps_refusals": True,
        "StartSession.hours": 10,
        "NamedProduct.updates": "licensed",
        "NamedProduct.version_scheme": "loose",
        "Activation.is_counted": True,
        "Placement.is_counted": True,
        "RecordLimits.kept": 100,
        "RecordLimits.listed": 1000,
        "RecordLimits.keeps_deleted": True,
        "License.quantity": 1,
        "ExtendLicense.zone": UTC,
        "RefusedCall.times": 1,
        "Meter.overage": "refuse",
        "Terms.starts": "creation",
        "Terms.after_expiry": "refuse",
        "Terms.device": "optional",
        "Terms.lease_seconds": 600,
        "Terms.offline_days": 14,
        "Terms.next_check_seconds": 86400,
        "Terms.channels": ("stable",),
        "Terms.transferable": "no",
        "Terms.transfer_after_days": 30,
        "Terms.when_full": "refuse",
        "Terms.max_uncounted": 10,
        "Rollout.percent": 100,
        "Release.channel": "stable",
        "Release.state": "draft",
        "Notice.severity": "medium",
        "Notice.state": "draft",
        "Asked.channel": "stable",
        "UpdateFacts.updates": "licensed",
        "UpdateFacts.scheme": "loose",
    }


def test_a_command_has_a_cost_and_few_are_the_server_s_own() -> None:
    commands = [one for model in MODELS for one in commands_of(model)]
    assert {type(one.cost) for one in commands} == {Cost}
    own = {one.__name__ for one in commands if issubclass(one, Command) and one.is_internal}
    assert own == {
        "ClosePeriods",
        "PassMoments",
        "PurgeMails",
        "PurgeSignIns",
        "SaveLastSeen",
        "SaveRefusals",
        "SettleEvents",
    }
    assert not any(issubclass(one, ActivateDevice) and one.is_site for one in commands)


def test_what_is_stored_as_json_has_no_defaults() -> None:
    stored = [Subject(license_ids=(1,)), Order("shop", line="1"), Order(id="7")]
    assert [msgspec.json.encode(one) for one in stored] == [
        b'{"license_ids":[1]}',
        b'{"source":"shop","line":"1"}',
        b'{"id":"7"}',
    ]


def test_the_text_under_which_a_mail_is_queued_fits_its_column() -> None:
    kind = mail_outbox.c.unique_text.type
    assert isinstance(kind, String)
    assert kind.length == MAX_UNIQUE_LENGTH


def test_readers_look_support_changes_and_administrators_may_do_everything() -> None:
    rights = {role: {right for right in Right if may(role, right)} for role in Role}
    assert rights == {
        Role.READER: {Right.LOOK},
        Role.SUPPORT: {Right.LOOK, Right.CHANGE},
        Role.ADMINISTRATOR: {Right.LOOK, Right.CHANGE, Right.ADMINISTER},
    }


def test_a_device_runs_without_the_server_until_what_was_signed_for_it_last_ends() -> None:
    made_at = an_activation().created_at
    ends = [None, made_at, made_at + timedelta(days=1)]
    runs = [an_activation(offline_until=one).runs_until for one in ends]
    assert runs == [None, None, made_at + timedelta(days=1)]


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
    assert structs_of("keywright.licensing.updates.rules", gc=True) == []
    assert structs_of("keywright.licensing.validation", gc=True) == []


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
    assert with_former_names(["B", "C"], renames) == ["B", "C", "A"]
    assert [commands[0].locks, unchanged.locks] == [("A", "B"), ("D",)]


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
    changed = ChangeStep(changes=changes, last_id=7, **step)
    assert (changed.parts, changed.locks) == (changes, [7])
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
