"""``keywright import csv`` and ``jsonl``: licenses come from tables."""

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Done, Keywright

DATABASES = ("sqlite",)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A file that is written in the past: what is changed here afterwards is newer."""
    file = tmp_path / "licenses.csv"
    write(file, "key;limit;Note\nA-1;3;\nA-2;x;\n;;\n")
    return file


def write(file: Path, text: str, *, at: int = 1_750_000_000) -> None:
    file.write_text(text)
    os.utime(file, (at, at))


def bring(keywright: Keywright, file: Path, *options: str, kind: str = "csv") -> Done:
    return keywright.run("import", kind, str(file), *options, "--data-dir", str(keywright.data_dir))


def licenses(keywright: Keywright) -> list[tuple[str, Any, int]]:
    found = keywright.json("license", "list")
    return [(one["licenseKey"], one["timesActivatedMax"], one["status"]) for one in found]


def test_lines_that_cannot_be_used_are_mended_and_sent_again(keywright: Keywright, table: Path) -> None:
    done = bring(keywright, table)
    errors = table.with_name("licenses.csv.errors.csv")
    assert done.status == 1
    assert done.out.splitlines() == [
        "Imported:",
        "  licenses: 1 new, 2 left out",
        "",
        "Lines that cannot be used: 2 (left out)",
        "  line 3: times_activated_max must be an integer from 0 to 2147483647",
        "  line 4: license_key is missing",
        "",
        "Unused columns: Note",
        "",
        f"Rejected lines are in {errors}: correct them there, and import that file.",
    ]
    assert errors.stat().st_mode & 0o777 == 0o600
    assert errors.read_text().splitlines()[:2] == [
        "key;limit;Note;error",
        "A-2;x;;times_activated_max must be an integer from 0 to 2147483647",
    ]
    errors.write_text(errors.read_text().replace(";x;", ";5;").replace("\n;;", "\nA-3;;"))
    assert bring(keywright, errors).status == 0
    assert licenses(keywright) == [("A-1", 3, 3), ("A-2", 5, 3), ("A-3", None, 3)]


@pytest.mark.parametrize("row", ["A-1", "A-1;3;;;", '"A-1"x;3;'])
def test_a_line_with_other_cells_is_refused_until_it_is_mended(
    keywright: Keywright, table: Path, row: str
) -> None:
    write(table, f"key;limit;Note\n{row}\n")
    assert bring(keywright, table).status == 1
    assert bring(keywright, table.with_name("licenses.csv.errors.csv")).status == 1
    assert licenses(keywright) == []


def test_a_dry_run_changes_nothing_and_the_file_is_not_overwritten(keywright: Keywright, table: Path) -> None:
    done = bring(keywright, table, "--dry-run")
    assert (done.status, done.out.splitlines()[1]) == (1, "  licenses: 1 new, 2 left out")
    assert licenses(keywright) == []
    assert [one.name for one in table.parent.glob("licenses*")] == ["licenses.csv"]
    given = ("import", "csv", str(table), "--errors", str(table))
    assert "--errors cannot be the file" in keywright.refused(*given, status=2)


def test_a_folder_is_not_imported(keywright: Keywright) -> None:
    for kind in ("csv", "jsonl"):
        for folder in ("", ".", "/"):
            assert "Is a directory" in keywright.refused("import", kind, folder)


def test_again_brings_what_is_new_or_changed(keywright: Keywright, table: Path) -> None:
    write(table, "key,limit\nA-1,3\nA-2,3\n")
    bring(keywright, table)
    write(table, "key,limit\nA-1,3\nA-2,4\nA-3,3\n", at=1_750_000_001)
    assert "licenses: 1 new, 1 the same, 1 newer there, updated here" in bring(keywright, table).out
    assert "licenses: 3 the same" in bring(keywright, table).out
    keywright("license", "update", "A-1", "--max", "9")
    assert "1 newer here, kept" in bring(keywright, table).out
    assert licenses(keywright) == [("A-1", 9, 3), ("A-2", 4, 3), ("A-3", 3, 3)]


def test_what_the_file_has_no_column_for_stays_as_it_is(keywright: Keywright, table: Path) -> None:
    write(table, "key,status,limit\nA-1,disabled,3\n")
    bring(keywright, table)
    write(table, "key,product_id,limit\nA-1,7,\n", at=1_750_000_001)
    bring(keywright, table)
    assert licenses(keywright) == [("A-1", None, 5)]


def test_standard_input_is_read(
    keywright: Keywright, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"licenseKey":"A-1"}\n[]\n')))
    errors = tmp_path / "errors"
    assert bring(keywright, Path("-"), "--errors", str(errors), kind="jsonl").status == 1
    assert errors.read_text() == '{"line":"[]","error":"it is not a JSON object"}\n'
    assert licenses(keywright) == [("A-1", None, 3)]


def test_columns_can_be_named(keywright: Keywright, table: Path) -> None:
    write(table, "Serial No,Until,Until when\nA-1,never,x\n")
    refused = keywright.refused("import", "csv", str(table))
    assert "no column contains the license key" in refused
    assert "Nothing was imported." in refused
    keywright("import", "csv", str(table), "--map", "Serial No=key,Until=expires_at", "--map", "Until when=")
    assert licenses(keywright) == [("A-1", None, 3)]
    assert "there is no field nothing" in keywright.refused(
        "import", "csv", str(table), "--map", "Until=nothing", status=2
    )


def test_products_are_found_by_code_and_name(keywright: Keywright, table: Path) -> None:
    keywright("product", "create", "--id", "7", "--name", "Paint Studio", "--code", "paint")
    keywright("product", "create", "--id", "8", "--name", "Same", "--code", "first")
    keywright("product", "create", "--id", "9", "--name", "same", "--code", "second")
    write(table, "key,product\nP-1,PAINT\nP-2,paint studio\nP-3,9\nP-4,Same\nP-5,Ink\n")
    done = bring(keywright, table)
    assert done.status == 1
    assert (
        "line 5: product_id must be a product's ID or code, or a name that only one product has" in done.out
    )
    shown = keywright.json("license", "list")
    assert {one["licenseKey"]: one["productId"] for one in shown} == {"P-1": 7, "P-2": 7, "P-3": 9}
