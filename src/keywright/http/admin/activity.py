"""Figures and charts of recent days, for all licenses or for those of a product."""

import math
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

from keywright.db import ReadTransaction
from keywright.http.pages.formats import _
from keywright.http.pages.forms import parse_number
from keywright.http.pages.request import PageRequest
from keywright.search.projector import REFUSED, VALIDATED
from keywright.search.statistics import list_days

#: The size of the plot in SVG units; the page stretches it to its width.
WIDTH, HEIGHT = 1_000, 200
#: A chart of more days than this has a column per week.
_MAX_DAYS = 120
_MAX_STEPS, _MAX_LABELS = 4, 5
#: The share of a column's width that its bar takes.
_SHARE = 0.72


class Series(NamedTuple):
    """Daily amounts and their label."""

    label: str
    amounts: Sequence[int]


class Segment(NamedTuple):
    """The part of a bar that shows one series."""

    series: int
    y: float
    height: float


class Column(NamedTuple):
    """A day or week of a chart: its position, its bar, and its amounts by series."""

    x: float
    width: float
    bar_x: float
    bar_width: float
    segments: tuple[Segment, ...]
    amounts: tuple[int, ...]
    first: date = date.min
    last: date = date.min


class Chart(NamedTuple):
    """A chart of stacked bars."""

    labels: tuple[str, ...]
    columns: tuple[Column, ...]
    #: The amounts at the lines of the scale, at equal steps from the top to 0.
    scale: tuple[int, ...]
    #: The days that label the plot, evenly spaced.
    days: tuple[date, ...]
    totals: tuple[int, ...]
    is_by_week: bool

    @property
    def lines(self) -> tuple[float, ...]:
        """The vertical positions of the lines of the scale."""
        return tuple(round(HEIGHT * index / (len(self.scale) - 1), 1) for index in range(len(self.scale)))


def build_chart(series: Sequence[Series], last: date) -> Chart:
    """A chart of the series, whose last amounts belong to the day ``last``."""
    days = max(len(one.amounts) for one in series)
    size = 7 if days > _MAX_DAYS else 1
    number = -(-days // size)
    grouped = [
        tuple(_sum_of(one.amounts, days - (number - index) * size, size) for one in series)
        for index in range(number)
    ]
    scale = _scale(max((sum(amounts) for amounts in grouped), default=0))
    columns = tuple(
        _build_column(amounts, index, number, scale[0])._replace(
            first=last - timedelta(days=(number - index) * size - 1),
            last=last - timedelta(days=(number - index - 1) * size),
        )
        for index, amounts in enumerate(grouped)
    )
    places = min(_MAX_LABELS, number)
    return Chart(
        tuple(one.label for one in series),
        columns,
        scale,
        tuple(columns[round(place * (number - 1) / max(1, places - 1))].first for place in range(places)),
        tuple(sum(one.amounts) for one in series),
        size > 1,
    )


def find_change(amounts: Sequence[int]) -> int | None:
    """The change from the first half to the second, in percent; None if the first half is 0."""
    half = len(amounts) // 2
    before, after = sum(amounts[:half]), sum(amounts[half:])
    return round((after - before) * 100 / before) if before else None


def _sum_of(amounts: Sequence[int], start: int, size: int) -> int:
    return sum(amounts[max(0, start) : start + size])


def _scale(highest: int) -> tuple[int, ...]:
    """The amounts at the lines of a scale up to ``highest``, in steps of 1, 2 or 5 times a power of ten."""
    step = 1
    while -(-highest // step) > _MAX_STEPS:
        ten = 10 ** int(math.log10(step))
        step = {1: 2, 2: 5, 5: 10}[step // ten] * ten
    return tuple(step * index for index in range(max(1, -(-highest // step)), -1, -1))


def _build_column(amounts: tuple[int, ...], index: int, number: int, top: int) -> Column:
    """A column of the chart, without its dates."""
    width = WIDTH / number
    segments, base = [], float(HEIGHT)
    for place, amount in enumerate(amounts):
        # Every amount above zero is visible.
        height = max(2.0, HEIGHT * amount / top) if amount else 0.0
        base -= height
        if amount:
            segments.append(Segment(place, round(max(base, 0.0), 1), round(height, 1)))
    return Column(
        round(index * width, 1),
        round(width, 1),
        round((index + (1 - _SHARE) / 2) * width, 1),
        round(width * _SHARE, 1),
        tuple(segments),
        amounts,
    )


#: The periods that can be chosen, in days.
RANGES = (7, 30, 90, 365)
_DEFAULT = 30
_NEW, _ACTIVATED = ("license.created", "license.imported"), "license.activated"


def read_activity(tx: ReadTransaction, request: PageRequest, product_id: int | None = None) -> dict[str, Any]:
    """Totals and charts of the days that the query requests (``days=90``), and the change of each total from
    the same number of days before.
    """
    asked = parse_number(request.query.get("days", ""))
    days = asked if asked in RANGES else _DEFAULT
    today, names = request.now.date(), (*_NEW, _ACTIVATED, VALIDATED, REFUSED)
    found = list_days(tx, names, last=today, days=2 * days, product_id=product_id)
    new = [sum(amounts) for amounts in zip(*(found[name] for name in _NEW), strict=True)]
    both = {
        "new": new,
        "activated": found[_ACTIVATED],
        "validated": found[VALIDATED],
        "refused": found[REFUSED],
    }
    return {
        "days": days,
        "ranges": RANGES,
        "totals": {name: sum(amounts[days:]) for name, amounts in both.items()},
        "trends": {name: find_change(amounts) for name, amounts in both.items()},
        "activations": build_chart(
            [
                Series(_("Activations"), found[_ACTIVATED][days:]),
                Series(_("Refused at the limit"), found[REFUSED][days:]),
            ],
            today,
        ),
        "validations": build_chart([Series(_("Validations"), found[VALIDATED][days:])], today),
    }
