"""Uploaded tables: their parts, columns and licenses."""

from typing import Any

import pytest

from keywright.core.errors import SourceUnusable
from keywright.provisioning.importers import uploads
from keywright.provisioning.importers.columns import guess_fields
from keywright.provisioning.importers.model import ImportedLicense
from keywright.provisioning.importers.rows import Defaults
from keywright.provisioning.importers.tables import Unusable
from keywright.provisioning.importers.uploads import (
    AS_METADATA,
    Format,
    ReadOptions,
    TableParts,
    fields_by_name,
    list_columns,
    read_part,
    split_table,
    write_rejects,
)
from tests.makers import NOW, TOKEN

DEFAULTS = Defaults(NOW, lambda address, _: address)


def read(table: TableParts, **fields: str) -> list[ImportedLicense | Unusable]:
    options = ReadOptions("a.csv", table.format, table.header, fields, None, DEFAULTS)
    return [one for part in table.parts for one in read_part(options, part.first_line, part.text)]


def place_of(one: ImportedLicense | Unusable) -> str:
    return one.place if isinstance(one, ImportedLicense) else f"line {one.line}: {one.reason}"


def test_every_line_is_in_one_part_and_keeps_its_number() -> None:
    lines = [f"KEY-{number},3" for number in range(60)]
    lines[10] = '"KEY-10\n-AND-MORE",3'
    lines.insert(30, "")
    table = split_table(("Key,Limit\n" + "\n".join(lines)).encode(), "a.csv")
    assert (table.format, table.header, table.amount) == (Format.CSV, b"Key,Limit\n", 60)
    assert [part.amount for part in table.parts] == [25, 25, 10]
    places = [place_of(one) for one in read(table)]
    # A key with a line break is unusable, and the next row begins one line later.
    assert places[:2] == ["line 2", "line 3"]
    assert places[10].startswith("line 12: license_key must")
    assert places[11] == "line 14"
    assert places[-1] == "line 63"


def test_what_is_no_csv_fails_in_its_part_as_in_the_whole_file() -> None:
    table = split_table(b'Key,Note\nA,"x" y\nB,z\n', "a.csv")
    first, second = read(table)
    assert isinstance(first, Unusable)
    assert "it is not CSV" in first.reason
    assert isinstance(second, ImportedLicense)


def test_a_table_in_json_is_known_by_its_first_character() -> None:
    table = split_table(b'\n{"key":"A"}\r\n\n{"key":"B","Note":"x"}\nno json\n', "a.jsonl")
    assert (table.format, table.header, table.amount) == (Format.JSONL, b"", 3)
    assert list_columns(table.format, b"", table.parts[0].text) == ["key", "Note"]
    assert [place_of(one) for one in read(table)] == ["line 2", "line 4", "line 5: it is not JSON"]
    # Of very many columns, the first thousand can be mapped.
    line = "{" + ",".join(f'"metadata.c{number}":1' for number in range(1_500)) + "}"
    assert len(list_columns(Format.JSONL, b"", line.encode())) == 1_000


@pytest.mark.parametrize(
    "content", [b"", b"Key,Limit\n", b"\xff\xfe\n", b"\n\n", b"Key\n" + b"x" * 2**20 + b"\n"]
)
def test_a_file_without_usable_lines_is_refused(content: bytes) -> None:
    with pytest.raises(SourceUnusable):
        split_table(content, "a.csv")


def test_a_table_is_no_wider_and_no_longer_than_a_page_can_bear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_MAX_LINES", 3)
    columns = [f"c{number}" for number in range(999)]
    for header in (",".join(["key", *columns]), "key," + "c" * 60_000):
        assert split_table(f"{header}\n1\n2\n3\n".encode(), "t.csv").amount == 3
    for content in (
        ",".join(["key", *columns, "one more"]) + "\n1\n",
        "key," + "c" * 70_000 + "\n1\n",
        "key\n1\n2\n3\n4\n",
        '{"key":"1"}\n' * 4,
    ):
        with pytest.raises(SourceUnusable):
            split_table(content.encode(), "t.csv")


def test_a_license_with_very_many_activations_is_left_to_the_command_line() -> None:
    many = ",".join(f'{{"token":"{number:040x}"}}' for number in range(2_001))
    table = split_table(f'{{"key":"A","activations":[{many}]}}\n'.encode(), "a.jsonl")
    (one,) = read(table)
    assert isinstance(one, Unusable)
    assert "more than 2,000 activations" in one.reason
    few = split_table(f'{{"key":"A","activations":[{{"token":"{TOKEN}"}}]}}\n'.encode(), "a.jsonl")
    assert isinstance(read(few)[0], ImportedLicense)


def test_columns_get_the_fields_of_a_form() -> None:
    columns = ["Serial", "Note", "Bis"]
    named: dict[str, Any] = {"Serial": "key", "Note": "metadata.Note", "Bis": ""}
    assert fields_by_name(columns, ["key", AS_METADATA]) == named
    assert guess_fields(["Serial", "License", "Limit"]) == ["key", None, "times_activated_max"]


def test_lines_that_fail_come_out_as_they_were_with_the_reason() -> None:
    table = split_table(b"Key;Limit\r\nA;3\r\n;4\r\nB;many\r\n", "a.csv")
    failed = [one for one in read(table) if isinstance(one, Unusable)]
    written = write_rejects(failed, has_header=False).decode()
    assert written.splitlines()[0] == "Key;Limit;error"
    assert [line.rpartition(";")[0] for line in written.splitlines()[1:]] == [";4", "B;many"]
    assert write_rejects(failed[:1], has_header=True).decode().count("\n") == 1
