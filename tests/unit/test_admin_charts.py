"""Charts by day."""

from datetime import date, timedelta

import pytest

from keywright.http.admin.activity import HEIGHT, WIDTH, Series, build_chart, find_change
from tests.tables import each_row

LAST = date(2026, 1, 15)


def test_bars_are_as_high_as_their_amounts_and_small_ones_can_be_seen() -> None:
    chart = build_chart([Series("Done", (0, 1, 500, 1000)), Series("Refused", (0, 0, 500, 0))], LAST)
    heights = [[part.height for part in one.segments] for one in chart.columns]
    assert heights == [[], [2.0], [100.0, 100.0], [200.0]]
    assert chart.columns[2].segments[1].y == 0
    assert list(chart.scale) == [1000, 500, 0]
    assert list(chart.lines) == [0.0, HEIGHT / 2, HEIGHT]
    assert list(chart.totals) == [1501, 500]
    assert [one.first for one in chart.columns] == [LAST - timedelta(days=ago) for ago in (3, 2, 1, 0)]
    assert chart.days == (*(one.first for one in chart.columns),)
    assert chart.columns[-1].bar_x + chart.columns[-1].bar_width <= WIDTH


@each_row(
    ("highest", "scale"),
    [
        (0, (1, 0)),
        (1, (1, 0)),
        (4, (4, 3, 2, 1, 0)),
        (5, (6, 4, 2, 0)),
        (17, (20, 15, 10, 5, 0)),
        (99, (100, 50, 0)),
        (1234, (1500, 1000, 500, 0)),
    ],
)
def test_a_scale_has_few_round_numbers(highest: int, scale: tuple[int, ...]) -> None:
    assert build_chart([Series("Done", (highest,))], LAST).scale == scale


def test_a_year_is_drawn_by_week_and_loses_nothing() -> None:
    chart = build_chart([Series("Done", range(365))], LAST)
    assert chart.is_by_week
    assert len(chart.columns) == 53
    assert sum(one.amounts[0] for one in chart.columns) == sum(range(365)) == chart.totals[0]
    assert (chart.columns[-1].first, chart.columns[-1].last) == (LAST - timedelta(days=6), LAST)
    assert len(chart.days) == 5


@pytest.mark.parametrize(
    ("amounts", "change"), [((), None), ((0, 5), None), ((4, 5), 25), ((4, 1), -75), ((1, 1, 2, 0), 0)]
)
def test_a_change_is_against_as_many_days_before(amounts: tuple[int, ...], change: int | None) -> None:
    assert find_change(amounts) == change
