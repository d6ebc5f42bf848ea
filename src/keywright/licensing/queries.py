"""Answer queries about licenses: the data for a batch of them is read once, with one query per table."""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

from msgspec import structs

from keywright.core.command import Cost, Query, Rerouted
from keywright.core.errors import NotFound, OtherProductKey, UnknownLicense, UnknownLicenseId
from keywright.db.transaction import ReadTransaction
from keywright.licensing import management, validation
from keywright.licensing.activations import devices, records, rules
from keywright.licensing.activations.model import (
    Activation,
    FindLicenses,
    LicensePage,
    LicenseRecord,
    ListLicenses,
    RecordLimits,
    Validate,
    ValidateAlone,
)
from keywright.licensing.activations.records import find_last_seen
from keywright.licensing.activations.store import find_by_id
from keywright.licensing.leases import store as lease_store
from keywright.licensing.leases.model import Lease
from keywright.licensing.leases.rules import device_number, is_over
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License, LicenseFilter
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.updates import queries as update_queries
from keywright.licensing.updates import queries as updates
from keywright.licensing.updates.rules import Verdict
from keywright.licensing.validation import Facts, Validated, ValidateLicense
from keywright.licensing.views_store import Names, Views, find_activations, list_managed

#: For every page, up to this many licenses of a list are counted, or skipped. Beyond that, facts from former
#: pages are used, for this many seconds.
MAX_EXACT = 10_000
KNOWN_FOR = 30.0
#: The most lists that are cached, and the most positions in each.
_MAX_LISTS, _MAX_PLACES = 64, 64


#: Selecting the records to list may require a scan of all records of a license. If there are more than this,
#: the query runs alone, so that no other call waits for it.
MAX_TOGETHER = 500


class _Place(NamedTuple):
    """A position in a list: its first ``skip`` licenses are followed by those with IDs above ``after_id``."""

    skip: int
    after_id: int
    known_until: float


class _Known:
    """Cached facts about a long list."""

    def __init__(self) -> None:
        self.total = 0
        self.total_until = 0.0
        self.places: deque[_Place] = deque(maxlen=_MAX_PLACES)


class Pages:
    """Pages of lists and the lengths of these lists, without a scan of a long list for each page: a request
    for the next page continues where the last one ended. For one thread.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """``clock`` returns seconds and is monotonic."""
        self._clock = clock
        self._lists: OrderedDict[LicenseFilter, _Known] = OrderedDict()

    def total(self, tx: ReadTransaction, where: LicenseFilter) -> int:
        """Count the matching licenses; a count above ``MAX_EXACT`` may be ``KNOWN_FOR`` seconds old."""
        few = license_store.count_licenses(tx, where, most=MAX_EXACT + 1)
        if few <= MAX_EXACT:
            return few
        known, now = self._facts(where), self._clock()
        if known.total_until <= now:
            known.total, known.total_until = license_store.count_licenses(tx, where), now + KNOWN_FOR
        return known.total

    def page(self, tx: ReadTransaction, where: LicenseFilter, *, skip: int, limit: int) -> list[License]:
        """Return up to ``limit`` matching licenses after the first ``skip``, oldest first."""
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
    """The licenses that a batch of queries needs, loaded once."""

    def __init__(
        self,
        tx: ReadTransaction,
        queries: Sequence[Query],
        limits: RecordLimits,
        pages: Pages,
        names: Names,
    ) -> None:
        """Load the data for the validations and update checks among these."""
        self.tx = tx
        self.limits = limits
        self.pages = pages
        self.names = names
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
        #: Licenses by key, with the activations that an answer lists; None if selecting these takes long.
        self.whole = records.find_records(tx, keys, limits.listed, most_read=most) if keys else {}
        #: Licenses by key and token, with the activation that has the token.
        self.named = records.find_named(tx, tokens) if tokens else {}
        of_programs = [one for one in queries if isinstance(one, ValidateLicense)]
        self.validations = LoadedValidations(tx, of_programs, names) if of_programs else None
        checks = [one for one in queries if isinstance(one, update_queries.CheckForUpdate)]
        self.updates = update_queries.LoadedUpdates(tx, checks, names) if checks else None


def validate(read: QueryContext, query: Validate) -> LicenseRecord | Rerouted:
    """Report a license; with ``refused_at``, only if it is in force. Raises ``UnknownLicense``, and what
    ``require_in_force`` raises.
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
    """Return the whole answer to a program over v3; an unknown key is a finding, not a refusal. Raises
    ``OtherProductKey``.
    """
    assert read.validations is not None  # noqa: S101
    return read.validations.answer(query)


def check_for_update(
    read: QueryContext, query: update_queries.CheckForUpdate
) -> update_queries.CheckedUpdate:
    """Return what is newer than the program, and permitted. Raises ``OtherProductKey``."""
    assert read.updates is not None  # noqa: S101
    return read.updates.answer(query)


def explain_release(read: QueryContext, query: update_queries.ExplainRelease) -> list[Verdict]:
    """Evaluate every rule about a release. Raises ``NotFound``."""
    return updates.explain_release(read.tx, query)


def find_download(read: QueryContext, query: update_queries.FindDownload) -> update_queries.Download:
    """Return the file of a ticket. Raises ``NotFound`` and ``DownloadRefused``."""
    return updates.find_download(read.tx, query)


def find_licenses(read: QueryContext, query: FindLicenses) -> tuple[LicenseRecord, ...]:
    """Return the next matching licenses, with some of their activations."""
    found = license_store.list_licenses(read.tx, query.where, after_id=query.after_id, limit=query.limit)
    return tuple(records.list_records(read.tx, found, read.limits.listed))


def list_licenses(read: QueryContext, query: ListLicenses) -> LicensePage:
    """Return one page of the matching licenses, with some of their activations."""
    skip = (query.page - 1) * query.per_page
    total = read.pages.total(read.tx, query.where)
    found = read.pages.page(read.tx, query.where, skip=skip, limit=query.per_page) if skip < total else []
    return LicensePage(tuple(records.list_records(read.tx, found, read.limits.listed)), total)


def get_license(read: Any, query: management.GetLicense) -> management.ManagedLicense:
    """Return one license. Raises ``UnknownLicenseId``."""
    license = require_license(read.tx, query.license_id, query.only_product_id)
    return list_managed(read.tx, [license], query.now)[0]


def get_activation(read: Any, query: management.GetActivation) -> management.ManagedActivation:
    """Return one activation. Raises ``UnknownLicenseId`` and ``NotFound``."""
    require_license(read.tx, query.license_id, query.only_product_id)
    found = find_by_id(read.tx, [(query.license_id, query.activation_id)])
    if not found:
        raise NotFound(f"activation {query.activation_id}")
    return _show(read.tx, found)[0]


def list_activations(read: Any, query: management.ListActivations) -> management.ActivationPage:
    """Return a page of a license's activations. Raises ``UnknownLicenseId``."""
    license = require_license(read.tx, query.license_id, query.only_product_id)
    total = None
    if query.is_counted:
        active, ended = license.active_count, license.deactivated_count
        total = {None: active + ended, True: active, False: ended}[query.is_active]
    return management.ActivationPage(_show(read.tx, find_activations(read.tx, query)), total)


def _show(tx: ReadTransaction, activations: Sequence[Activation]) -> tuple[management.ManagedActivation, ...]:
    seen = find_last_seen(tx, activations)
    return tuple(management.ManagedActivation(one, seen.get(one.id)) for one in activations)


def require_license(tx: ReadTransaction, license_id: int, only_product_id: int | None) -> License:
    """Return the license with this ID. Raises ``UnknownLicenseId``, also if the caller may not see it."""
    found = find_licenses_by_id(tx, [license_id]).get(license_id)
    if found is None or (only_product_id is not None and found.product_id != only_product_id):
        raise UnknownLicenseId(str(license_id))
    return found


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    management.GetLicense: get_license,
    management.GetActivation: get_activation,
    management.ListActivations: list_activations,
}


class LoadedValidations:
    """The rows that a batch of validations needs, loaded once."""

    def __init__(self, tx: ReadTransaction, queries: Sequence[ValidateLicense], names: Names) -> None:
        """Load the rows."""
        self._tx = tx
        self._views = Views(tx, names)
        #: Licenses by key, and the activations that the queries name, by license.
        self._licenses, self._activations = records.find_devices(
            tx, {(one.key, one.fingerprint, one.token) for one in queries}
        )
        unknown = {one.key for one in queries if one.key not in self._licenses}
        self._rotated = license_store.find_rotated(tx, unknown) if unknown else {}
        self._views.load([*self._licenses.values(), *self._rotated.values()])
        about = [(one, self._licenses[one.key]) for one in queries if one.key in self._licenses]
        #: The leases of floating licenses: by license and ID, and the latest ones by device.
        self._leases: dict[tuple[int, str], Lease] = {}
        self._latest: dict[tuple[int, int], Lease] = {}
        floating = [pair for pair in about if _is_floating(pair[1])]
        self._load_leases(floating)
        #: The clock that decides when leases end, if there may be several servers.
        self._clock = tx.read_clock() if floating else None

    def answer(self, query: ValidateLicense) -> Validated:
        """Return the whole answer. Raises ``OtherProductKey``."""
        license = self._licenses.get(query.key) or self._rotated.get(query.key)
        if license is not None and query.only_product_id not in (None, license.product_id):
            raise OtherProductKey
        if license is None:
            facts = Facts(license=None, now=query.now)
            return Validated(validation.validate(facts), None, None, None)
        is_device_named = query.is_device_named
        activation = self._find_activation(query, license) if is_device_named else None
        now = (self._clock if _is_floating(license) else None) or query.now
        view = self._views.show(license, now)
        built_at = query.built_at or self._views.releases_of(view.product).released_at(query.app_version)
        facts = Facts(
            license=license,
            now=now,
            is_key_rotated=query.key in self._rotated,
            product_id=None if query.product is None else self._product_id(query.product, license),
            is_device_named=is_device_named,
            activation=activation,
            lease=None if license.terms is None else self._find_lease(query, license, activation),
            needs_lease=True,
            entitlements=query.entitlements,
            usage=view.usage,
            built_at=built_at,
        )
        findings = validation.validate(facts)
        next_check_at = validation.next_check_at(facts)
        if not findings.shows_license:
            return Validated(findings, None, None, next_check_at)
        lease = None if facts.lease is None or is_over(facts.lease, now) else facts.lease
        notices = self._views.notices_about(view.product, query.app_version, activation)
        return Validated(findings, view, activation, next_check_at, lease, built_at, notices)

    def _product_id(self, product: int | str, license: License) -> int | None:
        is_own = self._views.is_product(license, product)
        return license.product_id if is_own else license_rules.NO_PRODUCT

    def _find_activation(self, query: ValidateLicense, license: License) -> Activation | None:
        known = self._activations.get(license.id, ())
        return devices.find_own(known, query.fingerprint, query.token)

    def _find_lease(
        self, query: ValidateLicense, license: License, activation: Activation | None
    ) -> Lease | None:
        if query.lease_id is not None:
            return self._leases.get((license.id, query.lease_id))
        number = device_number(activation, query.fingerprint)
        return None if number is None else self._latest.get((license.id, number))

    def _load_leases(self, about: Sequence[tuple[ValidateLicense, License]]) -> None:
        named = {(license.id, one.lease_id) for one, license in about if one.lease_id is not None}
        if named:
            found = lease_store.find_leases(self._tx, named)
            self._leases = {(one.license_id, one.lease_id): one for one in found}
        numbers = (
            (license.id, device_number(self._find_activation(one, license), one.fingerprint))
            for one, license in about
            if one.lease_id is None
        )
        if places := {(license_id, number) for license_id, number in numbers if number is not None}:
            self._latest = lease_store.find_latest(self._tx, places)


def _is_floating(license: License) -> bool:
    return license.terms is not None and license_rules.terms_of(license).max_leases is not None
