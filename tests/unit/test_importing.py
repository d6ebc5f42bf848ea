"""The pure rules of imports, and the conversion of the plugin's rows."""

import json
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.errors import SourceUnusable
from keywright.core.parsing import parse_metadata
from keywright.licensing.licenses.model import License, Status
from keywright.provisioning.importers.lmfwc import Plugin, Spooled
from keywright.provisioning.importers.model import ImportedActivation, ImportedLicense, Notice, Verdict
from keywright.provisioning.importers.rows import Defaults
from keywright.provisioning.importers.rules import Merged, merge
from keywright.provisioning.importers.run import MAX_ACTIVATIONS, MAX_LICENSES, Report, split
from keywright.provisioning.importers.tables import About, JsonLines, Rejects
from keywright_converter.defuse import Secrets
from keywright_converter.dump import LMFWC, Dump
from keywright_converter.mysqldump import DumpFile
from keywright_converter.rows import find_local_midnight
from tests.makers import KEY, LATER, NOW, TOKEN, a_license, an_activation
from tests.shop import DEFUSE, DUMP, SECRET, SECRETS, a_row, an_activation_row, seal
from tests.tables import each_row

OTHER = "f" * 40
EARLIER = NOW - timedelta(days=3)


def coming(*activations: ImportedActivation, **fields: Any) -> ImportedLicense:
    """An incoming license, equal to that of ``a_license``."""
    defaults: dict[str, Any] = {"status": Status.ACTIVE, "created_at": NOW, "updated_at": NOW}
    return ImportedLicense(KEY, **defaults | fields, id=1, activations=activations)


def place(token: str = TOKEN, **fields: Any) -> ImportedActivation:
    defaults: dict[str, Any] = {"created_at": NOW, "source": 2, "ip_address": "192.0.2.1"}
    return ImportedActivation(token, **defaults | fields, id=1)


def merged(new: ImportedLicense, here: License | None = None, *known: Any, kept: int = 100) -> Merged:
    by_token = {one.token: one for one in known}
    return merge(new, here, by_token, license_id=1, now=LATER, kept_records=kept)


def test_a_new_license_counts_its_records() -> None:
    found = merged(coming(place(), place(OTHER, deactivated_at=NOW), times_activated_max=2))
    assert found.verdict is Verdict.NEW
    assert found.license == a_license(
        times_activated=1, deactivated_count=1, times_activated_max=2, source=2, updated_at=NOW
    )
    assert [(before, after.token) for before, after in found.activations] == [(None, TOKEN), (None, OTHER)]


def test_what_is_here_already_is_the_same() -> None:
    new = coming(place(), place(OTHER, deactivated_at=NOW))
    first = merged(new)
    again = merged(new, first.license, *(after for _, after in first.activations))
    assert (again.verdict, again.license, again.activations) == (Verdict.SAME, first.license, [])


@pytest.mark.parametrize(
    ("updated_at", "limit", "verdict"),
    [(LATER, 9, Verdict.NEWER_THERE), (NOW, 5, Verdict.SAME), (EARLIER, 5, Verdict.NEWER_HERE)],
)
def test_of_a_license_the_newest_wins(updated_at: Any, limit: int, verdict: Verdict) -> None:
    here = a_license(times_activated_max=5)
    there = 5 if verdict is Verdict.SAME else 9
    found = merged(coming(times_activated_max=there, updated_at=updated_at), here)
    assert (found.verdict, found.license.times_activated_max) == (verdict, limit)
    assert found.differences == ({"times_activated_max": [5, 9]} if limit == 9 else {})


def test_a_validity_that_has_begun_here_goes_on_and_metadata_that_is_only_here_stays() -> None:
    here = a_license(valid_for_days=30, expires_at=LATER)
    assert merged(coming(valid_for_days=30, updated_at=LATER), here).license == here
    here = a_license(metadata='{"plan":"gold"}')
    assert merged(coming(updated_at=LATER), here).license == here
    found = merged(coming(updated_at=LATER, metadata='{"plan":"tin"}'), here)
    assert found.license.metadata == '{"plan":"tin"}'


@pytest.mark.parametrize(("there", "is_active"), [(LATER, False), (EARLIER, True)])
def test_of_a_token_the_newest_wins(there: Any, is_active: bool) -> None:
    here = an_activation(updated_at=NOW)
    new = place(created_at=EARLIER, updated_at=there, deactivated_at=there)
    found = merged(coming(new), a_license(times_activated=1), here)
    assert found.license.times_activated == is_active
    assert found.license.deactivated_count == (not is_active)


def test_where_both_sides_took_places_all_are_kept_and_it_is_told() -> None:
    here = a_license(times_activated=1, times_activated_max=1)
    found = merged(coming(place(OTHER), times_activated_max=1), here, an_activation())
    assert (found.verdict, found.license.times_activated) == (Verdict.NEWER_THERE, 2)
    assert [(one.code, one.what) for one in found.notices] == [("over_limit", "2 places of 1")]


def test_old_records_that_a_license_does_not_keep_are_not_brought() -> None:
    ended = [place(f"{number:040x}", deactivated_at=NOW - timedelta(days=9 - number)) for number in range(5)]
    found = merged(coming(*ended), kept=2)
    assert [one.token[-1] for _, one in found.activations] == ["3", "4"]
    again = merged(coming(*ended), found.license, *(one for _, one in found.activations), kept=2)
    assert again.verdict is Verdict.SAME


@each_row(
    "value",
    [
        "no JSON",
        "[1]",
        {str(number): 1 for number in range(65)},
        {"a": "x" * 16_384},
        {"a": {"b": {"c": {"d": {}}}}},
        {"a": "\0"},
    ],
)
def test_metadata_beyond_the_bounds_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_metadata(value)


def test_metadata_within_the_bounds_is_kept_and_none_is_none() -> None:
    nothing: list[object] = [None, "", "{}", {}, "[]"]
    assert [parse_metadata(one) for one in nothing] == [None] * 5
    value = {f"k{number}": {"b": {"c": ["ü"]}} for number in range(64)}
    text = parse_metadata(value)
    assert text is not None
    assert parse_metadata(text) == text


# --- the lines of the converter ---------------------------------------------------------------------


def written() -> list[bytes]:
    """The converter's output for a real shop."""
    source = Dump(DumpFile(DUMP), LMFWC, SECRETS, Report(), now=NOW)
    source.load()
    return list(iter(source.readline, b""))


def test_the_converter_writes_licenses_that_every_import_of_json_lines_reads() -> None:
    lines, report = written(), Report()
    given = About("shop", {}, None, Defaults(NOW, lambda address, _: address))
    plain = JsonLines(BytesIO(b"\n".join(lines)), given, Rejects(None, report))
    assert [one.key for one in plain.records()] == [
        one["license_key"] for one in map(json.loads, lines) if "license_key" in one
    ]
    # API keys, generators and names are not licenses: only the command imports them.
    others = len(lines) - report.amount("license", Verdict.LEFT_OUT)
    assert others == sum(b'"license_key"' in one for one in lines) > 0
    assert any(one.startswith(b'{"api_key"') for one in lines)


# --- the plugin -----------------------------------------------------------------------------------


def test_a_key_is_unsealed_only_as_it_was_sealed() -> None:
    sealed = seal("Ключ 1")
    assert SECRETS.unseal(sealed) == "Ключ 1"
    for broken in (sealed[:-2] + "00", "00" + sealed[2:], sealed[:100], "no hex"):
        with pytest.raises(ValueError, match=r"."):
            SECRETS.unseal(broken)


@pytest.mark.parametrize(
    ("defuse", "secret", "words"),
    [
        ("no hex", "s", "136 hexadecimal digits"),
        (DEFUSE.read_text()[:-1] + "0", "s", "checksum"),
        (DEFUSE.read_text(), " ", "LMFWC_PLUGIN_SECRET"),
    ],
)
def test_secrets_that_are_none_are_refused(defuse: str, secret: str, words: str) -> None:
    with pytest.raises(SourceUnusable, match=words):
        Secrets(defuse, secret)
    Secrets(DEFUSE.read_text() + "\n", SECRET.read_text() + "\n")


def read(
    *activations: dict[str, Any], meta: Any = None, **fields: Any
) -> tuple[ImportedLicense | None, list[Notice]]:
    """Convert a row to a license; return it, and the notices about it."""
    notices: list[Notice] = []
    plugin = Plugin(SECRETS, notices.append, now=LATER)
    rows = [Spooled(9, _texts(one)) for one in activations]
    row = a_row(7, fields.pop("key", "KEY-WITH-MORE-THAN-64-BITS"), **fields)
    return plugin.license(Spooled(5, _texts(row)), rows, meta or {}), notices


def _texts(row: dict[str, Any]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in row.items()}


ODD: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("key_unreadable", {"license_key": "def50200"}, {}),
    ("key_unusable", {"key": "a\nb" * 9}, {}),
    ("key_trimmed", {"key": " KEY-WITH-MORE-THAN-64-BITS"}, {"key": "KEY-WITH-MORE-THAN-64-BITS"}),
    ("key_weak", {"key": "ABC-123"}, {"key": "ABC-123"}),
    ("hash_wrong", {"hash": "0" * 64}, {}),
    ("counter_wrong", {"times_activated": 3}, {"activations": ()}),
    ("status_unknown", {"status": 77}, {"status": Status.INACTIVE}),
    ("date_zero", {"expires_at": "0000-00-00 00:00:00"}, {"expires_at": None}),
    ("date_odd", {"expires_at": "soon"}, {"expires_at": None}),
    ("number_odd", {"product_id": "-1"}, {"product_id": None}),
    ("metadata_unusable", {"meta": {"a": "x" * 20_000}}, {"metadata": None}),
]


@each_row(("code", "fields", "kept"), ODD, ids=[one[0] for one in ODD])
def test_what_is_odd_in_a_license_is_told(code: str, fields: dict[str, Any], kept: dict[str, Any]) -> None:
    license, notices = read(**fields)
    assert [one.code for one in notices] == [code]
    assert notices[0].place.startswith("line 5, license 7")
    assert (license is None) == (code in ("key_unreadable", "key_unusable"))
    assert {name: getattr(license, name) for name in kept} == kept


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("token_unusable", {"token": "abc"}),
        ("date_zero", {"deactivated_at": "0000-00-00 00:00:00"}),
        ("text_cut", {"label": "x" * 300}),
        ("text_broken", {"label": "B\ufffdro"}),
        ("metadata_unusable", {"meta_data": '{"a": 1}'}),
    ],
)
def test_what_is_odd_in_an_activation_is_told(code: str, fields: dict[str, Any]) -> None:
    license, notices = read(an_activation_row(3, 7, **fields), times_activated=int(code != "token_unusable"))
    assert [(one.code, one.place) for one in notices] == [(code, "line 9, activation 3")]
    assert license is not None
    assert len(license.activations) == (code != "token_unusable")


def test_of_a_token_that_a_license_has_twice_the_later_is_brought() -> None:
    rows = [an_activation_row(number, 7, token=TOKEN) for number in (3, 4)]
    rows[0]["updated_at"] = "2026-01-03 00:00:00"
    license, notices = read(*rows, times_activated=1)
    assert license is not None
    assert [one.id for one in license.activations] == [3]
    assert [one.code for one in notices] == ["token_twice"]


def test_a_license_without_a_limit_or_a_counter_is_not_odd() -> None:
    license, notices = read(times_activated_max=0, times_activated=None, valid_for=0, meta={"a": "1"})
    assert notices == []
    assert license is not None
    assert (license.times_activated_max, license.valid_for_days, license.metadata) == (
        None,
        None,
        '{"a":"1"}',
    )


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ({"23:59:59": 50}, None),
        ({"22:59:59": 50, "12:31:07": 40}, ("22:59:59", 50)),
        ({"22:00:00": 5}, None),
        ({"22:00:00": 50, "00:00:00": 60}, None),
        ({}, None),
    ],
)
def test_a_midnight_of_another_zone_is_suspected(ends: dict[str, int], found: object) -> None:
    assert find_local_midnight(ends) == found


def test_batches_are_bounded_and_a_large_license_comes_in_pieces() -> None:
    large = coming(*[place(f"{number:040x}") for number in range(2 * MAX_ACTIVATIONS + 1)])
    batches = list(split([coming()] * (MAX_LICENSES + 1) + [large]))
    assert [len(one) for one in batches[:1]] == [MAX_LICENSES]
    sizes = [sum(len(one.activations) for one in batch) for batch in batches]
    assert max(sizes) == MAX_ACTIVATIONS
    assert [one.is_rest for batch in batches[1:] for one in batch] == [False, False, True, True]
    assert sum(sizes) == len(large.activations)
    assert replace(batches[-1][-1], activations=(), is_rest=False) == replace(large, activations=())
