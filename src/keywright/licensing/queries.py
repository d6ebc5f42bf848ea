"""Queries about licenses: nothing here changes anything."""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple

from msgspec import structs

from keywright.core.command import Cost, Query, Rerouted
from keywright.core.errors import UnknownLicense
from keywright.db import ReadTransaction
from keywright.licensing.activations import records, rules
from keywright.licensing.activations.commands import FindLicenses, ListLicenses, Validate, ValidateAlone
from keywright.licensing.activations.model import LicensePage, LicenseRecord, RecordLimits
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License, LicenseFilter
from keywright.licensing.validation import Validated, ValidateLicense
from keywright.licensing.validation_queries import LoadedValidations
from keywright.licensing.views_store import Names

#: How many licenses of a list are counted, or skipped, anew for every page. Beyond them, what is known from
#: the pages before is used, and for how long, in seconds.
MAX_EXACT = 10_000
KNOWN_FOR = 30.0
#: How many lists are remembered, and how many places in each.
_MAX_LISTS, _MAX_PLACES = 64, 64


#: To find the records that an answer lists, all of a license's may have to be looked at. Where there are more
#: than this, no other call waits for that.
MAX_TOGETHER = 500


class _Place(NamedTuple):
    """After the first ``skip`` licenses of a list come those with larger numbers than ``after_id``."""

    skip: int
    after_id: int
    known_until: float


class _Known:
    """The cached facts about a long list."""

    def __init__(self) -> None:
        self.total = 0
        self.total_until = 0.0
        self.places: deque[_Place] = deque(maxlen=_MAX_PLACES)


class Pages:
    """Pages of lists, and how long these are, without a walk through all of a long list for each page: who
    asks for one page after the other goes on where the last one ended. For one thread.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """``clock`` is in seconds and does not jump."""
        self._clock = clock
        self._lists: OrderedDict[LicenseFilter, _Known] = OrderedDict()

    def total(self, tx: ReadTransaction, where: LicenseFilter) -> int:
        """The number of matching licenses; above ``MAX_EXACT`` it may be ``KNOWN_FOR`` seconds old."""
        few = license_store.count_licenses(tx, where, most=MAX_EXACT + 1)
        if few <= MAX_EXACT:
            return few
        known, now = self._facts(where), self._clock()
        if known.total_until <= now:
            known.total, known.total_until = license_store.count_licenses(tx, where), now + KNOWN_FOR
        return known.total

    def page(self, tx: ReadTransaction, where: LicenseFilter, *, skip: int, limit: int) -> list[License]:
        """At most ``limit`` matching licenses after the first ``skip`` of them, oldest first."""
        now = self._clock()
        start = _Place(0, 0, now)
        if skip > MAX_EXACT:
            known = (one for one in self._facts(where).places if one.skip <= skip and one.known_until > now)
            start = max((start, *known))
        found = license_store.list_licenses(
            tx, where, after_id=start.after_id, skip=skip - start.skip, limit=limit
        )
        if found and skip + len(found) > MAX_EXACT:
            place = _Place(skip + len(found), found[-1].id, now + KNOWN_FOR)
            self._facts(where).places.append(place)
        return found

    def _facts(self, where: LicenseFilter) -> _Known:
        known = self._lists.setdefault(where, _Known())
        self._lists.move_to_end(where)
        if len(self._lists) > _MAX_LISTS:
            self._lists.popitem(last=False)
        return known


class QueryContext:
    """The licenses that a batch of queries is about, loaded once for all of them."""

    def __init__(
        self,
        tx: ReadTransaction,
        queries: Sequence[Query],
        limits: RecordLimits,
        pages: Pages,
        names: Names,
    ) -> None:
        """Load what the validations among these need."""
        self.tx = tx
        self.limits = limits
        self.pages = pages
        keys: set[str] = set()
        tokens: set[tuple[str, str]] = set()
        most: int | None = MAX_TOGETHER
        for one in queries:
            if not isinstance(one, Validate):
                continue
            if one.token is not None:
                tokens.add((one.key, one.token))
            else:
                keys.add(one.key)
            if one.cost is Cost.LARGE:
                most = None
        #: Licenses by key, with the activations that an answer lists; None where finding these takes long.
        self.whole = records.find_records(tx, keys, limits.listed, most_read=most) if keys else {}
        #: Licenses by key and token, with the activation that has the token.
        self.named = records.find_named(tx, tokens) if tokens else {}
        of_programs = [one for one in queries if isinstance(one, ValidateLicense)]
        self.validations = LoadedValidations(tx, of_programs, names) if of_programs else None


def validate(read: QueryContext, query: Validate) -> LicenseRecord | Rerouted:
    """Report a license, whatever its status or expiry unless they are asked about. Raises ``UnknownLicense``,
    and what ``require_in_force`` does.
    """
    found: LicenseRecord | None
    if query.token is not None:
        found = read.named.get((query.key, query.token))
    else:
        found = read.whole.get(query.key)
        if found is None and query.key in read.whole:
            return Rerouted(ValidateAlone(**structs.asdict(query)))
    only = query.only_product_id
    if found is None or (only is not None and found.license.product_id != only):
        raise UnknownLicense(query.key)
    if query.refused_at is not None:
        license_rules.require_in_force(found.license, query.refused_at)
    return LicenseRecord(found.license, rules.validate(found.activations, query.token))


def validate_license(read: QueryContext, query: ValidateLicense) -> Validated:
    """Everything that is to be said to a program over v3; an unknown key is no refusal. Raises
    ``OtherProductKey``.
    """
    assert read.validations is not None  # noqa: S101
    return read.validations.answer(query)


def find_licenses(read: QueryContext, query: FindLicenses) -> tuple[LicenseRecord, ...]:
    """The next matching licenses, with some of their activations."""
    found = license_store.list_licenses(read.tx, query.where, after_id=query.after_id, limit=query.limit)
    return tuple(records.list_records(read.tx, found, read.limits.listed))


def list_licenses(read: QueryContext, query: ListLicenses) -> LicensePage:
    """One page of the matching licenses, with some of their activations."""
    skip = (query.page - 1) * query.per_page
    total = read.pages.total(read.tx, query.where)
    found = read.pages.page(read.tx, query.where, skip=skip, limit=query.per_page) if skip < total else []
    return LicensePage(tuple(records.list_records(read.tx, found, read.limits.listed)), total)
