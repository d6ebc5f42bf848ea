"""Where fields of nouns are listed, each is included, or there is a reason why not."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from keywright.http.admin import event_text
from keywright.http.v3 import activations as v3_activations
from keywright.http.v3 import client_schemas, license_schemas, schemas
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import activation_values
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import license_values
from keywright.licensing.notes import Notes
from keywright.licensing.terms.model import Terms
from keywright.licensing.undo import rules as undo
from keywright.provisioning import exporters
from keywright.provisioning.customers import Customer, CustomerFields
from keywright.provisioning.importers import columns
from keywright.provisioning.importers import rules as importing
from keywright.provisioning.importers.model import ImportedActivation, ImportedLicense
from keywright.provisioning.importers.rows import Defaults, Rows
from keywright.provisioning.policies.model import KeyFormatFields, Policy, PolicyFields
from keywright.provisioning.products import Product, ProductFields
from tests.makers import LATER, LICENSE_FIELDS, NOW, a_license, an_activation
from tests.tables import each_row


class Place(NamedTuple):
    """A list of a noun's fields: those included, by their names there, and why others are not."""

    name: str
    noun: type[Struct]
    there: Iterable[str]
    missing: Mapping[str, str] = {}
    renamed: Mapping[str, str] = {}


def fields(*types: type[Struct]) -> set[str]:
    return {name for one in types for name in one.__struct_fields__}


def reasons(**given: str) -> dict[str, str]:
    """Build the reasons by field, from the fields by reason, each in one text."""
    return {name: reason for reason, names in given.items() for name in names.split()}


#: The management API's names of stored fields.
V3_LICENSE = {"order_id": "order", "order_details": "order", "times_activated": "activations"}
V3_TERMS = {"valid_for_days": "terms", "times_activated_max": "terms"}

PLACES = [
    Place(
        "columns that are written",
        License,
        license_values(a_license()),
        reasons(the_key_of_the_row="id", sealed_by_its_writer="key"),
    ),
    Place(
        "undo",
        License,
        undo._FIELDS,
        reasons(
            never_changes="id source created_at created_by",
            counted="times_activated deactivated_count uncounted_count",
            written_by_every_change="updated_at updated_by",
            masked_in_events="key",
            not_in_events="metadata order_details",
            term_by_term="terms",
            what_was_paid_stays_paid="quantity",
            follows_from_the_terms="rule_terms",
        ),
    ),
    Place(
        "exported columns",
        License,
        exporters.LICENSE,
        reasons(counted_from_the_activations="deactivated_count uncounted_count"),
        {"key": "license_key", "quantity": "sold_quantity"},
    ),
    Place(
        "imported columns",
        License,
        columns._NAMES,
        reasons(counted="times_activated deactivated_count uncounted_count"),
    ),
    Place(
        "imported licenses",
        License,
        fields(ImportedLicense),
        reasons(counted="times_activated deactivated_count uncounted_count"),
    ),
    Place(
        "what the newer side of an import decides",
        License,
        {*importing._FIELDS, *importing._OWN_FIELDS},
        reasons(
            never_changes="id source created_at created_by",
            counted="times_activated deactivated_count uncounted_count",
            says_which_is_newer="updated_at updated_by",
        ),
    ),
    Place(
        "labels in the history",
        License,
        event_text._FIELDS,
        reasons(
            never_changes="id source created_at created_by",
            not_in_events="metadata order_details updated_at updated_by deactivated_count uncounted_count",
            written_by_rules="quantity rule_terms",
            term_by_term="terms",
        ),
    ),
    Place(
        "answers of v3",
        License,
        fields(license_schemas.License),
        reasons(
            for_support="source created_by updated_by", shown_in_the_list="deactivated_count uncounted_count"
        ),
        V3_LICENSE | V3_TERMS | {"rule_terms": "kept_terms"},
    ),
    Place(
        "changes over v3",
        License,
        fields(license_schemas.LicenseChanges),
        reasons(
            never_changes="id source created_at created_by",
            counted="times_activated deactivated_count uncounted_count",
            written_by_every_change="updated_at updated_by",
            written_by_rules="quantity rule_terms",
        ),
        V3_LICENSE | V3_TERMS,
    ),
    Place(
        "new licenses over v3",
        License,
        fields(license_schemas.NewLicense),
        reasons(
            given="id source created_at created_by updated_at updated_by",
            counted="times_activated deactivated_count uncounted_count",
            written_by_rules="rule_terms",
        ),
        V3_LICENSE | V3_TERMS | {"customer_id": "customer"},
    ),
    Place("labels in the history", Terms, event_text._FIELDS),
    Place("columns that are written", Activation, activation_values(an_activation())),
    Place("exported columns", Activation, exporters.ACTIVATION),
    Place(
        "imported activations",
        Activation,
        fields(ImportedActivation),
        reasons(of_here="license_id offline_until"),
    ),
    Place(
        "answers of v3",
        Activation,
        fields(v3_activations.Activation),
        reasons(in_the_path="license_id", internal="source updated_at"),
        {"label": "name", "meta_data": "metadata"},
    ),
    Place(
        "answers to programs",
        Activation,
        fields(client_schemas.ClientActivation),
        reasons(
            personal="ip_address user_agent", internal="license_id source updated_at offline_until is_counted"
        ),
        {"label": "name", "meta_data": "metadata"},
    ),
    Place(
        "answers of v3",
        Customer,
        fields(schemas.Customer),
        reasons(the_customers_own_choice="unsubscribed_at"),
    ),
    Place(
        "changes over v3",
        Customer,
        fields(CustomerFields),
        reasons(never_changes="id created_at", written_by_every_change="updated_at")
        | reasons(the_customers_own="email_verified_at erasure_requested_at unsubscribed_at"),
    ),
    Place(
        "changes over v3",
        Product,
        fields(ProductFields),
        reasons(never_changes="id created_at", written_by_every_change="updated_at"),
    ),
    Place(
        "answers of v3",
        Policy,
        fields(schemas.Policy, schemas.KeyFormat),
        reasons(for_support="created_by updated_by"),
    ),
    Place(
        "changes over v3",
        Policy,
        fields(PolicyFields, KeyFormatFields),
        reasons(never_changes="id created_at created_by", written_by_every_change="updated_at updated_by"),
        {"archived_at": "is_archived"},
    ),
]


@each_row("noun", [License, Terms, Activation, Customer, Product, Policy])
def test_every_field_is_in_every_list_of_fields_or_has_a_reason(noun: type[Struct]) -> None:
    wrong = []
    for place in (one for one in PLACES if one.noun is noun):
        there = {*place.there}
        forgotten = [
            name
            for name in noun.__struct_fields__
            if place.renamed.get(name, name) not in there and name not in place.missing
        ]
        found_anyway = [name for name in place.missing if place.renamed.get(name, name) in there]
        unknown = {*place.missing, *place.renamed} - {*noun.__struct_fields__}
        if forgotten or found_anyway or unknown:
            wrong.append((place.name, forgotten, found_anyway, unknown))
    assert wrong == []


def test_what_is_exported_and_imported_again_is_the_same_in_every_field() -> None:
    activation = an_activation(
        id=5,
        label="Anna",
        ip_address="192.0.2.1",
        user_agent="Paint/4",
        meta_data={"rack": 7},
        updated_at=LATER,
        deactivated_at=LATER,
        fingerprint="device-1",
        platform="macOS",
        app_version="4.2",
        is_counted=False,
    )
    license = a_license(**LICENSE_FIELDS | {"id": 8, "times_activated": 0, "uncounted_count": 0})
    # A field with its default value could be lost unnoticed.
    usual = (
        a_license(times_activated=None, uncounted_count=None),
        an_activation(source=None, license_id=None, token="", ip_address=""),
    )
    for noun, default in zip((license, activation), usual, strict=True):
        same = {n for n in noun.__struct_fields__ if getattr(noun, n) == getattr(default, n)}
        assert same <= {"key", "created_at", "offline_until"}
    row = [*exporters.license_row(license, {}, {}, Notes()), [exporters.activation_object(activation)]]
    line = msgspec.json.decode(exporters.to_json_lines([*exporters.LICENSE, "activations"], [row]))
    names = columns.assign_fields([*line], {})
    imported = Rows(names, Defaults(NOW, lambda address, _: address, lambda _: True))
    new = imported.license([*line.values()], "line 1")
    merged = importing.merge(new, None, {}, license_id=8, now=LATER, kept_records=100)
    assert merged.license == license
    assert [after for _, after in merged.activations] == [replace(activation, license_id=8)]
