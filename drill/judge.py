"""Compare what the clients were told with what the database holds."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from drill.journal import Activation, Journal

#: How the refusal for want of a free place ends.
NO_PLACE = "reached maximum activation count."


class Row(NamedTuple):
    """An activation in the database."""

    license_id: int
    id: int
    token: str
    label: str
    is_active: bool


class Counted(NamedTuple):
    """A license in the database."""

    id: int
    times_activated: int
    limit: int | None


class Kept(NamedTuple):
    """What the database holds, read from one moment of it."""

    licenses: list[Counted]
    activations: list[Row]
    #: Numbers of licenses and how many events say that they were activated.
    activated_events: dict[int, int]


class Findings(msgspec.Struct, frozen=True):
    """What should not be, each in words."""

    #: Acknowledged, and not in the database.
    missing: list[str] = []
    #: Done more than once; a number given out more than once.
    doubled: list[str] = []
    over_limit: list[str] = []
    #: The counter is not the number of active activations, or their events are not as many.
    miscounted: list[str] = []
    #: In the database, and nobody asked for it or it was refused.
    unasked: list[str] = []
    #: Refused without a reason, or answered with what another was answered.
    misinformed: list[str] = []

    def __bool__(self) -> bool:
        return any(msgspec.structs.asdict(self).values())

    def __or__(self, other: "Findings") -> "Findings":
        both = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Findings(*(list(dict.fromkeys(one + another)) for one, another in both))


def judge(journal: Journal, kept: Kept) -> Findings:
    """Everything that is wrong with these licenses, if the clients are right."""
    ids = {one.id for one in journal.licenses}
    rows_by_label: dict[str, list[Row]] = defaultdict(list)
    for row in kept.activations:
        if row.license_id in ids:
            rows_by_label[row.label].append(row)
    return Findings(
        missing=[*_lost_licenses(journal, kept), *_missing(journal.activations, rows_by_label)],
        doubled=[*_doubled(rows_by_label), *_doubled_numbers(ids, kept)],
        over_limit=list(_over_limit(journal, rows_by_label)),
        miscounted=list(_miscounted(ids, kept)),
        unasked=list(_unasked(journal.activations, rows_by_label)),
        misinformed=[*_misinformed(journal, rows_by_label), *journal.contradictions],
    )


def _lost_licenses(journal: Journal, kept: Kept) -> Iterator[str]:
    there = {one.id for one in kept.licenses}
    return (f"license {one.id} is gone" for one in journal.licenses if one.id not in there)


def _missing(asked: Iterable[Activation], rows_by_label: dict[str, list[Row]]) -> Iterator[str]:
    for one in asked:
        if one.fate != "done":
            continue
        row = next((row for row in rows_by_label.get(one.label, ()) if row.token == one.token), None)
        if row is None:
            yield f"the activation {one.label} is gone"
        elif one.given_up == "done" and row.is_active:
            yield f"the deactivation of {one.label} is gone"


def _doubled(rows_by_label: dict[str, list[Row]]) -> Iterator[str]:
    return (f"{label} has {len(rows)} places" for label, rows in rows_by_label.items() if len(rows) > 1)


def _doubled_numbers(ids: set[int], kept: Kept) -> Iterator[str]:
    times = Counter(row.id for row in kept.activations)
    ours = {row.id for row in kept.activations if row.license_id in ids}
    return (f"{times[id]} activations have the number {id}" for id in sorted(ours) if times[id] > 1)


def _unasked(asked: Iterable[Activation], rows_by_label: dict[str, list[Row]]) -> Iterator[str]:
    by_label = {one.label: one for one in asked}
    for label, rows in rows_by_label.items():
        one = by_label.get(label)
        if one is None:
            yield f"nobody asked for {label}"
        elif one.fate in ("refused", "failed"):
            yield f"{label} was answered {one.message!r} and has a place"
        elif one.given_up in (None, "refused", "failed") and not all(row.is_active for row in rows):
            yield f"{label} was given up, and nobody asked for that"


def _over_limit(journal: Journal, rows_by_label: dict[str, list[Row]]) -> Iterator[str]:
    active = _active(row for rows in rows_by_label.values() for row in rows)
    for one in journal.licenses:
        if one.limit is not None and active[one.id] > one.limit:
            yield f"license {one.id} has {active[one.id]} of {one.limit} places taken"


def _miscounted(ids: set[int], kept: Kept) -> Iterator[str]:
    active = _active(kept.activations)
    ever = Counter(row.license_id for row in kept.activations)
    for one in kept.licenses:
        if one.id not in ids:
            continue
        if one.times_activated != active[one.id]:
            yield f"license {one.id} counts {one.times_activated}, and has {active[one.id]} active"
        events = kept.activated_events.get(one.id, 0)
        if events != ever[one.id]:
            yield f"license {one.id} has {ever[one.id]} activations, and {events} events say so"


def _active(rows: Iterable[Row]) -> Counter[int]:
    return Counter(row.license_id for row in rows if row.is_active)


def _misinformed(journal: Journal, rows_by_label: dict[str, list[Row]]) -> Iterator[str]:
    active = _active(row for rows in rows_by_label.values() for row in rows)
    told: Counter[tuple[int, int]] = Counter()
    for one in journal.activations:
        limit = one.license.limit
        if one.fate == "done" and limit is not None:
            told[one.license.id, one.times_activated] += 1
        if one.fate == "refused" and not one.message.endswith(NO_PLACE):
            yield f"{one.label} was refused: {one.message}"
        elif one.fate == "refused" and (limit is None or active[one.license.id] < limit):
            # Places of limited licenses are never given up here: what was full stays full.
            yield f"{one.label} was refused for want of a place, and there are free ones"
        if one.given_up == "refused":
            yield f"{one.label} could not be given up: {one.message}"
    for (id, taken), times in told.items():
        if times > 1:
            yield f"license {id} told {times} callers that theirs is place {taken}"
