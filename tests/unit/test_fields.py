"""What may stand in a field: the formats and bounds of the contract (§2, §5)."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keywright.core import parsing
from keywright.core.errors import InvalidStatus
from keywright.licensing.licenses.model import Status, parse_status
from tests.tables import each_row

MOMENTS = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(microsecond=0))


@given(st.integers(0, parsing.MAX_ID))
def test_an_integer_may_be_a_number_or_digits(number: int) -> None:
    assert parsing.parse_integer(number) == parsing.parse_integer(str(number)) == number


@pytest.mark.parametrize("parse", [parsing.parse_integer, parsing.parse_limit, parsing.parse_days])
def test_null_is_no_number_and_the_empty_text_is_refused(parse: Callable[[object], int | None]) -> None:
    assert parse(None) is None
    with pytest.raises(ValueError, match="must be an integer"):
        parse("")


@each_row("value", [2**63, str(2**63), -1, "-1", "9" * 19, "9" * 20])
def test_an_integer_is_from_0_to_what_a_64_bit_column_holds(value: object) -> None:
    assert parsing.parse_integer(2**63 - 1) == parsing.parse_integer(str(2**63 - 1)) == 2**63 - 1
    with pytest.raises(ValueError, match="must be an integer from 0 to 9223372036854775807"):
        parsing.parse_integer(value)


@each_row(
    "value",
    [
        True,
        False,
        1.0,
        1.5,
        "1.0",
        "1e3",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "0x1",
        "1_000",
        "١",
        "१",
        [],
        {},
        [1],
        b"1",
    ],
)
def test_nothing_else_is_bent_into_an_integer(value: object) -> None:
    with pytest.raises(ValueError, match="must be an integer"):
        parsing.parse_integer(value)


def test_digits_may_begin_with_zeros() -> None:
    assert parsing.parse_integer("007") == 7


@pytest.mark.parametrize("parse", [parsing.parse_limit, parsing.parse_days])
def test_limits_and_days_end_at_31_bits(parse: Callable[[object], int | None]) -> None:
    assert parse(2**31 - 1) == parse(str(2**31 - 1)) == 2**31 - 1
    with pytest.raises(ValueError, match="from 0 to 2147483647"):
        parse(2**31)


@pytest.mark.parametrize("parse", [parsing.parse_limit, parsing.parse_days])
def test_a_limit_of_0_is_no_limit_and_0_days_are_none(parse: Callable[[object], int | None]) -> None:
    assert parse(0) is None
    assert parse("0") is None
    assert parse(1) == 1


@pytest.mark.parametrize("status", Status)
def test_a_status_is_its_number_or_its_name_in_any_case(status: Status) -> None:
    name = status.name
    for value in (int(status), str(int(status)), name, name.lower(), name.title(), f" {name} "):
        assert parse_status(value) is status


@each_row(
    "value",
    [
        0,
        6,
        -1,
        "0",
        "6",
        "12",
        "",
        " ",
        "expired",
        "actives",
        "actıve",
        None,
        True,
        False,
        3.0,
        [],
        {},
        b"active",
    ],
)
def test_nothing_else_is_a_status(value: object) -> None:
    with pytest.raises(InvalidStatus):
        parse_status(value)


@given(MOMENTS)
def test_a_time_that_was_written_reads_as_the_same_moment(moment: datetime) -> None:
    assert parsing.parse_time(parsing.write_time(moment)) == moment


@given(MOMENTS, st.integers(-23 * 60, 23 * 60))
def test_the_offset_of_an_iso_8601_time_is_honoured(moment: datetime, minutes: int) -> None:
    try:
        local = moment.astimezone(timezone(timedelta(minutes=minutes)))
    except OverflowError:
        return
    assert parsing.parse_time(local.isoformat()) == moment


def test_a_time_is_written_without_an_offset_and_with_a_four_digit_year() -> None:
    assert parsing.write_time(datetime(99, 1, 2, 3, 4, 5, tzinfo=UTC)) == "0099-01-02 03:04:05"


@each_row(
    ("text", "moment"),
    [
        ("2026-02-03 04:05:06", datetime(2026, 2, 3, 4, 5, 6)),
        ("2026-02-03", datetime(2026, 2, 3)),
        (" 2026-02-03 04:05:06 ", datetime(2026, 2, 3, 4, 5, 6)),
        ("2026-02-03 04:05", datetime(2026, 2, 3, 4, 5)),
        ("2028-02-29", datetime(2028, 2, 29)),
        ("0001-01-01 00:00:00", datetime(1, 1, 1)),
        ("9999-12-31 23:59:59", datetime(9999, 12, 31, 23, 59, 59)),
        ("2026-02-03T04:05:06", datetime(2026, 2, 3, 4, 5, 6)),
        ("2026-02-03T04:05", datetime(2026, 2, 3, 4, 5)),
        ("2026-02-03T04:05:06.75", datetime(2026, 2, 3, 4, 5, 6)),
        ("2026-02-03T04:05:06Z", datetime(2026, 2, 3, 4, 5, 6)),
        ("2026-02-03t04:05:06z", datetime(2026, 2, 3, 4, 5, 6)),
        ("2026-02-03T04:05Z", datetime(2026, 2, 3, 4, 5)),
        ("2026-02-03T04:05:06+02:00", datetime(2026, 2, 3, 2, 5, 6)),
        ("2026-02-03T04:05:06-0230", datetime(2026, 2, 3, 6, 35, 6)),
        ("2026-02-03T04:05:06+02", datetime(2026, 2, 3, 2, 5, 6)),
        ("2026-02-03T04:05:06.999Z", datetime(2026, 2, 3, 4, 5, 6)),
        ("2026-02-03T04:05:06,5+00:00", datetime(2026, 2, 3, 4, 5, 6)),
        ("2026-02-03T04:05:06.123456789012Z", datetime(2026, 2, 3, 4, 5, 6)),
    ],
)
def test_a_time_has_one_of_three_formats(text: str, moment: datetime) -> None:
    assert parsing.parse_time(text) == moment.replace(tzinfo=UTC)


@pytest.mark.parametrize("value", [None, ""])
def test_a_time_may_be_left_out(value: object) -> None:
    assert parsing.parse_time(value) is None


@each_row(
    "value",
    [
        "2026-02-29",
        "2026-13-01",
        "2026-00-01",
        "2026-02-03 24:00:01",
        "2026-02-03 23:59:60",
        "2026-02-03 4:05:06",
        "2026-02-03 24:00",
        "2026-02-03T24:00:00",
        "2026-02-03 04:05:06.5",
        "2026-02-03T04:05.5Z",
        "2026-2-3",
        "20260203",
        "2026-W06-2",
        "2026-02-03 04:05:06Z",
        "2026-02-03 04:05:06+02:00",
        "2026-02-03T04Z",
        "2026-02-03T04:05:06.Z",
        "2026-02-03T04:05:06+25:00",
        "2026-02-03T04:05:06 Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "10000-01-01",
        "-001-01-01",
        "٢٠٢٦-٠٢-٠٣",
        "tomorrow",
        " ",
        "0",
        0,
        1767225600,
        True,
        20260203.0,
        [],
        {},
    ],
)
def test_nothing_else_is_a_time(value: object) -> None:
    with pytest.raises(ValueError, match="must be YYYY-MM-DD HH:MM:SS"):
        parsing.parse_time(value)


def test_a_text_is_kept_as_it_is_up_to_its_limit() -> None:
    assert parsing.parse_text(" Büro\n🔑 ", 255) == " Büro\n🔑 "
    assert parsing.parse_text("🔑" * 255, parsing.MAX_LABEL_LENGTH) == "🔑" * 255
    with pytest.raises(ValueError, match="at most 255 characters"):
        parsing.parse_text("a" * 256, parsing.MAX_LABEL_LENGTH)


@pytest.mark.parametrize(("value", "text"), [(None, None), ("", None), (0, "0"), (7, "7")])
def test_a_text_may_be_left_out_or_be_a_number(value: object, text: str | None) -> None:
    assert parsing.parse_text(value, 255) == text


@each_row("value", [True, 1.5, [], {}, ["a"], b"a", "a\x00b", "\ud800", 10**300])
def test_nothing_else_is_a_text(value: object) -> None:
    with pytest.raises(ValueError, match="must be a text"):
        parsing.parse_text(value, 255)


@pytest.mark.parametrize("value", [None, "", {}, "{}"])
def test_meta_may_be_left_out_or_empty(value: object) -> None:
    assert parsing.parse_meta(value) is None


@pytest.mark.parametrize("value", [{"os": "linux", "": ""}, '{"os": "linux", "": ""}'])
def test_meta_is_an_object_of_texts_or_the_json_of_one(value: object) -> None:
    assert parsing.parse_meta(value) == {"os": "linux", "": ""}


@each_row(
    "value",
    [
        {"os": 1},
        {"os": None},
        {"os": {"name": "linux"}},
        '{"os": true}',
        "[]",
        '"text"',
        "null",
        "{",
        "linux",
        "[" * 100_000,
        '{"os": "\\ud800"}',
        "\ud800",
        ["linux"],
        7,
        True,
    ],
)
def test_nothing_else_is_meta(value: object) -> None:
    with pytest.raises(ValueError, match="must be an object whose values are texts"):
        parsing.parse_meta(value)


@pytest.mark.parametrize("value", [{"os": "\x00"}, {"\x00": "os"}, {"os": "\ud800"}, '{"os": "\\u0000"}'])
def test_meta_has_only_what_every_database_can_store(value: object) -> None:
    with pytest.raises(ValueError, match="null characters"):
        parsing.parse_meta(value)


def test_meta_has_at_most_4_kib_as_json() -> None:
    room = parsing.MAX_META_BYTES - len(json.dumps({"m": ""}, separators=(",", ":")))
    assert parsing.parse_meta({"m": "x" * room}) == {"m": "x" * room}
    with pytest.raises(ValueError, match="at most 4096 bytes"):
        parsing.parse_meta({"m": "x" * (room + 1)})
    with pytest.raises(ValueError, match="at most 4096 bytes"):
        parsing.parse_meta({"m": "é" * (room // 2 + 1)})


@given(st.text())
def test_what_is_storable_is_what_utf_8_can_write_without_null_characters(text: str) -> None:
    try:
        is_utf_8 = bool(text.encode()) or not text
    except UnicodeEncodeError:
        is_utf_8 = False
    assert parsing.is_storable(text) == (is_utf_8 and "\x00" not in text)


@each_row(
    ("address", "short"),
    [
        ("203.0.113.77", "203.0.113.0"),
        ("127.0.0.1", "127.0.0.0"),
        ("2001:db8:1:2:3::9", "2001:db8:1::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:203.0.113.77", "203.0.113.0"),
        ("somewhere", ""),
        ("", ""),
    ],
)
def test_an_address_is_kept_whole_or_as_its_network_or_not_at_all(address: str, short: str) -> None:
    assert parsing.keep_address(address, "full") == address
    assert parsing.keep_address(address, "short") == short
    assert parsing.keep_address(address, "none") == ""
