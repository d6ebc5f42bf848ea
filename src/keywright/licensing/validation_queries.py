"""Answer validations: what a batch of them needs is read once, one query for each table."""

from collections.abc import Sequence

from keywright.core.errors import OtherProductKey
from keywright.db import ReadTransaction
from keywright.licensing import validation
from keywright.licensing.activations import devices, records
from keywright.licensing.activations.model import Activation
from keywright.licensing.leases import store as lease_store
from keywright.licensing.leases.model import Lease
from keywright.licensing.leases.rules import device_number, is_over
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License
from keywright.licensing.validation import Facts, Validated, ValidateLicense
from keywright.licensing.views_store import Names, Views


class LoadedValidations:
    """The rows that a batch of validations needs, loaded once for all of them."""

    def __init__(self, tx: ReadTransaction, queries: Sequence[ValidateLicense], names: Names) -> None:
        """Load it."""
        self._tx = tx
        self._views = Views(tx, names)
        #: By key; and their activations that are named, by license.
        self._licenses, self._activations = records.find_devices(
            tx, {(one.key, one.fingerprint, one.token) for one in queries}
        )
        unknown = {one.key for one in queries if one.key not in self._licenses}
        self._rotated = license_store.find_rotated(tx, unknown) if unknown else {}
        self._views.load([*self._licenses.values(), *self._rotated.values()])
        about = [(one, self._licenses[one.key]) for one in queries if one.key in self._licenses]
        #: The leases of floating licenses: by license and ID, and by device.
        self._leases: dict[tuple[int, str], Lease] = {}
        self._latest: dict[tuple[int, int], Lease] = {}
        floating = [pair for pair in about if _is_floating(pair[1])]
        self._load_leases(floating)
        #: The clock by which leases end, where there may be several servers.
        self._clock = tx.read_clock() if floating else None

    def answer(self, query: ValidateLicense) -> Validated:
        """Everything that is to be said. Raises ``OtherProductKey``."""
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
            built_at=query.built_at,
        )
        findings = validation.validate(facts)
        next_check_at = validation.next_check_at(facts)
        if not findings.shows_license:
            return Validated(findings, None, None, next_check_at)
        lease = None if facts.lease is None or is_over(facts.lease, now) else facts.lease
        return Validated(findings, view, activation, next_check_at, lease)

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
