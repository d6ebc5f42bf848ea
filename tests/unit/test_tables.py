"""Tables of licenses: the mapping of columns to fields, and the parsing of cells."""

from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from keywright.core.errors import SourceUnusable
from keywright.licensing.licenses.model import Status
from keywright.provisioning.importers import rows as table_rows
from keywright.provisioning.importers.columns import PRESETS, assign_fields, parse_map
from keywright.provisioning.importers.model import ImportedLicense
from keywright.provisioning.importers.rows import Defaults
from keywright.provisioning.importers.run import Report
from keywright.provisioning.importers.tables import (
    About,
    CsvTable,
    JsonLines,
    Rejects,
    largest_activation_id,
)
from tests.makers import NOW, TOKEN
from tests.tables import each_row

DEFAULTS = Defaults(NOW, lambda address, _: address)
PLACE = f'{{"token":"{TOKEN}"}}'
FILES = Path(__file__).parents[1] / "data" / "tables"


def about(given: dict[str, str] | None = None, shop: str | None = None) -> About:
    return About("a.csv", given or {}, None if shop is None else PRESETS[shop], DEFAULTS)


def read(text: str | bytes, **options: Any) -> tuple[list[ImportedLicense], list[str]]:
    """Parse the licenses of a CSV file; return them, and the reasons why others are unusable."""
    report = Report()
    content = text.encode() if isinstance(text, str) else text
    found = list(CsvTable(BytesIO(content), about(**options), Rejects(None, report)).records())
    return found, reasons(report)


def read_json(text: str) -> tuple[list[ImportedLicense], list[str]]:
    report = Report()
    found = list(JsonLines(BytesIO(text.encode()), about(), Rejects(None, report)).records())
    return found, reasons(report)


def reasons(report: Report) -> list[str]:
    odd = report.as_json()["odd"]
    return [f"{one['place']}: {one['what']}" for one in odd[0]["places"]] if odd else []


def keys(found: tuple[list[ImportedLicense], list[str]]) -> list[str]:
    return [one.key for one in found[0]]


@each_row(
    ("name", "field"),
    [
        ("license_key", "key"),
        ("licenseKey", "key"),
        ("Serial Number", "key"),
        ("Expiry Date", "expires_at"),
        ("validFor", "valid_for_days"),
        ("timesActivatedMax", "times_activated_max"),
        ("userId", "customer_id"),
        ("metadata.Seller", "metadata.Seller"),
        ("Name", None),
        ("error", None),
    ],
)
def test_columns_are_known_by_their_names(name: str, field: str | None) -> None:
    assert assign_fields([name], {}) == [field]


def test_of_two_columns_that_could_be_a_field_the_own_name_is_meant() -> None:
    assert assign_fields(["serial", "license_key"], {}) == [None, "key"]
    with pytest.raises(ValueError, match="serial and activation key could both be license_key"):
        assign_fields(["serial", "activation key"], {})


def test_a_column_is_what_a_map_says_and_a_map_that_says_nothing_is_refused() -> None:
    given = parse_map("Bis=expires_at, id=,Colour=metadata.colour")
    found = assign_fields(["key", "Bis", "id", "COLOUR", "expires"], given)
    assert found == ["key", "expires_at", None, "metadata.colour", None]
    for text in ("Serial", "=key", "Serial=nothing", "Serial=key,"):
        with pytest.raises(ValueError, match=r"must be COLUMN=FIELD|there is no field"):
            parse_map(text)


@pytest.mark.parametrize(
    "content",
    [b"key,id\nA,1\n", b"\xef\xbb\xbfkey;id\r\nA;1\r\n", b"key\tid\rA\t1", b'"key","id"\n\n"A",1\n\n'],
)
def test_marks_separators_and_ends_of_lines_are_found_out(content: bytes) -> None:
    ([one], wrong) = read(content)
    assert (one.key, one.id, wrong) == ("A", 1, [])


def test_a_row_says_what_its_license_is() -> None:
    ([one], _) = read(
        "key,status,expires_at,valid_for,max_activations,product_id,order_id,customer_id,"
        "created_at,updated_at,source,metadata,metadata.a\n"
        ' A ,DISABLED,2030-01-01 12:00,30,3,7,8,9,2020-01-01,1577923200,1,"{""b"":1}",x\n'
    )
    assert one == ImportedLicense(
        "A",
        status=Status.DISABLED,
        expires_at=datetime(2030, 1, 1, 12, tzinfo=UTC),
        valid_for_days=30,
        times_activated_max=3,
        product_id=7,
        order_id=8,
        customer_id=9,
        created_at=datetime(2020, 1, 1, tzinfo=UTC),
        updated_at=datetime(2020, 1, 2, tzinfo=UTC),
        source=1,
        metadata='{"b":1,"a":"x"}',
        place="line 2",
        fields=one.fields,
    )
    # A license with only a key gets the file's time.
    ([one], _) = read("key\nA\n")
    assert (one.status, one.created_at, one.updated_at) == (Status.ACTIVE, NOW, NOW)
    assert one.fields == frozenset({"key"})


@each_row(
    ("row", "reason"),
    [
        (",,", "license_key is missing"),
        ("A\x01,,", "license_key must have 1 to 255 characters, and no control characters"),
        ("SECRET-1,gone,", "status must be sold, delivered, active, inactive or disabled"),
        ("SECRET-1,,1/2/2030", "expires_at must be YYYY-MM-DD HH:MM:SS, YYYY-MM-DD, or ISO 8601"),
        ("SECRET-1", "it has 1 cells instead of 3"),
        ("SECRET-1,,,", "it has 4 cells instead of 3"),
        ('"SECRET-1"x,,', "it is not CSV: ',' expected after '\"'"),
    ],
)
def test_a_row_that_cannot_be_used_is_left_out_and_its_neighbours_are_not(row: str, reason: str) -> None:
    found = read(f"key,status,expires\nB,,\n{row}\nC,,\n")
    assert keys(found) == ["B", "C"]
    assert found[1] == [f"line 3: {reason}"]
    assert "SECRET" not in str(found[1])


def test_bytes_that_are_no_utf_8_do_not_come_in() -> None:
    found = read("key,metadata.name,comment\nA,Zoë,\nB,,Zoë\n".encode("latin-1"))
    assert (keys(found), found[1]) == (
        ["B"],
        ["line 2: metadata.name must be in UTF-8, without null characters"],
    )


@each_row(
    ("content", "reason"),
    [
        ("key\nA\n".encode("utf-16"), "not text in UTF-8"),
        (b"", "no column contains the license key"),
        (b"name\nA\n", "no column contains the license key"),
        (b'key,"\nA\n', "the first line is not CSV"),
        (b"key\n" + b"A" * 200, "line 2: the line is too long"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    content: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keywright.provisioning.importers.csv_rows._MAX_LINE", 200)
    with pytest.raises(SourceUnusable, match=reason):
        read(content)


def test_a_json_object_is_a_license_with_its_activations() -> None:
    ([one], wrong) = read_json(
        '{"licenseKey":"A","status":5,"metadata":{"a":[1]},"activations":'
        f'[{{"token":"{TOKEN}","created_at":"2026-01-01","label":"desk","ip_address":"192.0.2.1"}}]}}\n\n'
    )
    assert wrong == []
    assert (one.key, one.status, one.metadata) == ("A", Status.DISABLED, '{"a":[1]}')
    [activation] = one.activations
    assert (activation.token, activation.label, activation.ip_address) == (TOKEN, "desk", "192.0.2.1")


@each_row(
    ("line", "reason"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ('{"id":1}', "license_key is missing"),
        (
            '{"key":"A","activations":[{}]}',
            "activations: token must be 40 lowercase hexadecimal digits",
        ),
        ('{"key":"A","activations":7}', "activations must be a list of objects"),
        (
            f'{{"key":"A","activations":[{{"token":"{TOKEN}"}},{{"token":"{TOKEN}"}}]}}',
            "a token appears twice",
        ),
    ],
)
def test_a_json_line_that_cannot_be_used_is_left_out(line: str, reason: str) -> None:
    found = read_json(f'{{"key":"B"}}\n{line}\n{{"key":"C"}}')
    assert keys(found) == ["B", "C"]
    [problem] = found[1]
    assert problem.startswith("line 2: ")
    assert reason in problem


def test_a_customer_has_an_address_a_name_and_a_language() -> None:
    table = (
        "Key,E-Mail,customer_name,customer_language\n"
        "A, Ann@Example.com ,Ann Lee,pt_br\nB,,,\nC,nobody,,\nD,,,Klingonisch!\n"
    )
    found, wrong = read(table)
    people = [(one.key, one.customer_email, one.customer_name, one.customer_language) for one in found]
    assert people == [("A", "Ann@Example.com", "Ann Lee", "pt-BR"), ("B", None, None, None)]
    assert wrong == [
        "line 4: customer_email must be an e-mail address",
        "line 5: customer_language must be a language such as de or pt-BR",
    ]


def test_a_day_is_the_whole_day_in_the_zone_of_the_file() -> None:
    """Expiries are at the end of the day; other dates at its beginning; times are in UTC."""
    rows = table_rows.Rows(
        ["key", "expires_at", "created_at"], DEFAULTS._replace(zone=ZoneInfo("America/New_York"))
    )
    wrong = {}
    for expires_at, created_at, expected in (
        ("2031-12-31", "2020-07-01", ("2032-01-01T05:00:00", "2020-07-01T04:00:00")),
        ("2031-12-31 18:00:00", "2020-07-01T00:00Z", ("2031-12-31T18:00:00", "2020-07-01T00:00:00")),
        ("9999-12-31", "2020-01-01", ("9999-12-31T23:59:59", "2020-01-01T05:00:00")),
        ("never", "0001-01-01", (None, "0001-01-01T00:00:00")),
    ):
        license = rows.license(["A", None if expires_at == "never" else expires_at, created_at], "")
        found = tuple(
            one and one.replace(tzinfo=None).isoformat() for one in (license.expires_at, license.created_at)
        )
        if found != expected:
            wrong[expires_at, created_at] = found
    assert not wrong


def test_activations_keep_ids_that_are_free_and_the_largest_is_found() -> None:
    lines = b'{"activations":[{"id":7},{"id":"x"}]}\n{"activationData":[{"id":9}]}\nnothing\n{"id":99}'
    assert largest_activation_id(BytesIO(lines)) == 9
    rows = table_rows.Rows(["key", "activations"], DEFAULTS._replace(may_keep_id=lambda number: number < 9))
    some = [{"token": f"{number:040x}", "id": number} for number in (8, 9)]
    assert [one.id for one in rows.license(["A", some], "").activations] == [8, None]


@pytest.mark.parametrize(
    ("shop", "licenses"),
    [
        ("keygen", [("ACTIVE", 2030, 3), ("DISABLED", None, None)]),
        ("lemonsqueezy", [("ACTIVE", None, 5), ("DISABLED", 2025, None)]),
        ("edd", [("ACTIVE", 2030, 3), ("ACTIVE", 2021, None), ("DISABLED", None, None)]),
        ("gumroad", [("ACTIVE", 2030, None), ("DISABLED", None, None)]),
    ],
)
def test_what_a_shop_exports_is_known(shop: str, licenses: list[tuple[str, int | None, int | None]]) -> None:
    found, wrong = read((FILES / f"{shop}.csv").read_bytes(), shop=shop)
    assert [
        (Status(one.status).name, one.expires_at and one.expires_at.year, one.times_activated_max)
        for one in found
    ] == licenses
    assert wrong == (["line 4: license_key is missing"] if shop == "gumroad" else [])
    assert {one.created_at.year for one in found} <= {2020, 2024}
    if shop == "keygen":
        assert "Ann's desk" in (found[0].metadata or "")
    else:
        assert (found[0].customer_name, found[0].customer_email) == ("Ann Lee", "ann@example.com")
    expected = {"lemonsqueezy": (21, 41, 11), "edd": (None, None, 11), "gumroad": (777, None, None)}
    numbers = (found[0].order_id, found[0].product_id, found[0].customer_id)
    assert numbers == expected.get(shop, (None, None, None))
