"""Dumps are parsed as their database would; incomplete dumps and other files are refused."""

import gzip
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keywright.core.errors import SourceUnusable
from keywright_converter import mysqldump
from keywright_converter.mysqldump import DumpFile, Row
from tests.shop import DUMP, quote

TABLE = (
    "CREATE TABLE `t` (\n  `a` int(11) NOT NULL COMMENT 'one; two',\n  `b``c` text,\n  KEY `a` (`a`)\n);\n"
)


def read(path: Path) -> list[Row]:
    return list(DumpFile(path).rows(lambda table: table == "t"))


def values_of(folder: Path, text: str) -> list[tuple[str | None, ...]]:
    """Write this text to a file, and return the rows of table t."""
    path = folder / "dump.sql"
    path.write_text(text, encoding="utf-8")
    return [tuple(row.values.values()) for row in read(path)]


def refusal(path: Path) -> str:
    with pytest.raises(SourceUnusable) as refused:
        read(path)
    return str(refused.value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("NULL", None),
        ("null", None),
        ("-12.5e3", "-12.5e3"),
        ("''", ""),
        ("'NULL'", "NULL"),
        (r"'it\'s'", "it's"),
        ("'it''s'", "it's"),
        ('"a ""b"" \\"c\\""', 'a "b" "c"'),
        (r"'\0\n\r\t\Z\b\\\"'", '\0\n\r\t\x1a\b\\"'),
        (r"'100\% a\_b'", r"100\% a\_b"),
        ("'a\nb'", "a\nb"),
        ("'),(1,2);-- /*'", "),(1,2);-- /*"),
        ("'Ключ ☂'", "Ключ ☂"),
        ("_binary 'abc'", "abc"),
        ("0x4BC3BC", "Kü"),
        ("x'4B'", "K"),
        ("''''", "'"),
    ],
)
def test_a_value_is_read_as_the_database_reads_it(tmp_path: Path, written: str, value: str | None) -> None:
    assert values_of(tmp_path, f"{TABLE}INSERT INTO `t` VALUES (7,{written}),( 8 , 'x' );") == [  # noqa: S608
        ("7", value),
        ("8", "x"),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO `t` VALUES (1,'x'),\n(2,'y');",
        "INSERT INTO `t` VALUES (1,'x');INSERT INTO `t` VALUES (2,'y');",
        "insert ignore into shop.t (`b``c`, a) values ('x', 1), ('y', 2);",
        "REPLACE INTO `t` VALUES (1,'x'),(2,'y');",
        "LOCK TABLES `t` WRITE;\n/*!40000 ALTER TABLE `t` DISABLE KEYS */;\n"
        "INSERT INTO `t` VALUES (1,'x'),(2,'y');",
        "DELIMITER ;;\nCREATE TRIGGER x BEGIN INSERT INTO t VALUES (9,';'); END;;\nDELIMITER ;\n"
        "INSERT INTO t VALUES (1,'x'),(2,'y');",
        "# a remark\n--\n-- another; with ' and (\nINSERT INTO t VALUES (1,'x'),(2,'y');",
        "INSERT INTO `other` VALUES (ST_GeomFromText('POINT(1 2)'),1-2/3,'a;b' /* ; */); -- ;'\n"
        "INSERT INTO t VALUES (1,'x'),(2,'y')",
    ],
)
def test_rows_are_found_in_every_form_of_a_dump(
    tmp_path: Path, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysqldump, "_CHUNK", 1)
    if not statement.endswith(";"):
        statement += ";"
    found = [sorted(map(str, row)) for row in values_of(tmp_path, TABLE + statement)]
    assert found == [["1", "x"], ["2", "y"]]


def test_a_row_knows_its_line_and_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "dump.sql"
    path.write_text(TABLE + "INSERT INTO `t` VALUES (1,'a\nb'),\n(2,NULL);", encoding="utf-8")  # noqa: S608
    assert read(path) == [Row("t", 6, {"a": "1", "b`c": "a\nb"}), Row("t", 8, {"a": "2", "b`c": None})]
    assert values_of(tmp_path, "") == []


def test_a_compressed_dump_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "dump.sql"
    path.write_bytes(gzip.compress(DUMP.read_bytes()))
    plain = list(DumpFile(DUMP).rows(lambda _: True))
    assert list(DumpFile(path).rows(lambda _: True)) == plain
    assert len(plain) == 22 + 34 + 2 + 5


def test_a_dump_in_zstd_is_named_where_it_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dump.sql"
    path.write_bytes(b"\x28\xb5\x2f\xfd rest")
    for name in ("compression", "backports", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "zstd -d dump.sql" in refusal(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"licenses": []}', "line 1: this is not a database dump"),
        (b"\x89PNG\r\n\x1a\n", "line 1: this is not a database dump"),
        (b"\n\nid;key\n1;A", "line 3: \u201cID\u201d does not start a statement"),
        (b"\xff\xfe-\x00-\x00", "mysqldump --result-file=FILE"),
        (b"INSERT INTO t VALUES (1,2);", "line 1: the columns of t are unknown"),
        (TABLE.encode() + b"INSERT INTO t VALUES\n(1,2),\n(1,2,3);", "line 8: a row of t has 3 values"),
        (TABLE.encode() + b"INSERT INTO t VALUES\n(1,2),\n(1,'", "line 8: a row of t cannot be read"),
        (TABLE.encode() + b"INSERT INTO t VALUES (1,2)", "line 6: after a row of t"),
        (TABLE.encode() + b"SET @a = 'b", "line 6: the file ends in the middle of a statement"),
        (b"-- MySQL dump 10.13\n" + TABLE.encode(), "line 7: the dump is incomplete"),
        (gzip.compress(DUMP.read_bytes())[:-500], "damaged or truncated"),
    ],
)
def test_a_file_that_is_no_whole_dump_is_refused_with_the_line(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "dump.sql"
    path.write_bytes(content)
    assert words in refusal(path)


TEXTS = st.text(st.characters(codec="utf-8")) | st.text("'\"\\\n\0;,()-#/*`x")


@given(rows=st.lists(st.tuples(st.integers(), st.none() | TEXTS), max_size=5), chunk=st.integers(1, 40))
def test_what_mysqldump_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str | None]], chunk: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.sql"
    values = ",".join(f"({number},{quote(text)})" for number, text in rows)
    inserts = f"INSERT INTO `t` VALUES {values};\n" if rows else ""  # noqa: S608
    path.write_text(f"{TABLE}{inserts}", encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mysqldump, "_CHUNK", chunk)
        assert [tuple(row.values.values()) for row in read(path)] == [(str(one), text) for one, text in rows]


@given(
    content=st.binary() | st.binary().map(lambda some: TABLE.encode() + b"INSERT INTO t VALUES (1,'" + some)
)
def test_whatever_is_in_a_file_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.sql"
    path.write_bytes(content)
    with suppress(SourceUnusable):
        read(path)
