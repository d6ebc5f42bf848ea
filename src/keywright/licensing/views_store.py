"""Read what views of licenses show, with one query per table needed."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from time import monotonic
from typing import Any

from msgspec.json import decode
from sqlalchemy import or_, select, tuple_

from keywright.core.parsing import MAX_ID
from keywright.db.bulk import Lookup
from keywright.db.rows import to_datetime
from keywright.db.schema import activations, last_seen, policies, products, trials
from keywright.db.transaction import ReadTransaction
from keywright.licensing.activations.model import Activation, LicenseView, NamedPolicy, NamedProduct
from keywright.licensing.activations.sites import Item
from keywright.licensing.activations.store import ACTIVATIONS, IS_ACTIVE, activation_of
from keywright.licensing.leases.store import count_held
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.keys import make_license_ref
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.management import ListActivations, ManagedLicense
from keywright.licensing.updates.model import ProductReleases, Updates
from keywright.licensing.updates.notices import AnsweredNotice, list_about
from keywright.licensing.updates.store import load_releases
from keywright.licensing.updates.versions import VersionScheme
from keywright.licensing.usage.model import MeterUsage
from keywright.licensing.usage.store import list_usage, show_usage

#: How long products and policies are cached, in seconds.
KNOWN_FOR = 1.0
_PRODUCT = tuple(products.c[name] for name in NamedProduct.__struct_fields__)
_PRODUCTS = Lookup(select(*_PRODUCT), products.c.id)
#: The most products whose releases are cached.
_MAX_PRODUCTS = 1_000
_POLICIES = Lookup(select(policies.c.id, policies.c.name), policies.c.id)


class Names:
    """A cache of products and policies, by ID, for one second: they seldom change, and every view of a
    license shows them. For one thread.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """``clock`` returns seconds and is monotonic."""
        self._clock = clock
        self._until = 0.0
        self.products: dict[int, NamedProduct] = {}
        self.policies: dict[int, NamedPolicy] = {}
        #: The releases of products, with the ``releases_changed`` for which they were read.
        self.releases: dict[int, tuple[int, ProductReleases]] = {}

    def forget_old(self) -> None:
        """Clear the cache of products and policies after a second."""
        now = self._clock()
        if now >= self._until:
            self.products, self.policies, self._until = {}, {}, now + KNOWN_FOR


class Views:
    """What views of licenses show; ``load`` reads it in bulk, and what is missing is read one by one."""

    def __init__(self, tx: ReadTransaction, names: Names | None = None) -> None:
        """``names`` is a cache to use."""
        names = names or Names()
        names.forget_old()
        self._tx = tx
        self._products, self._policies = names.products, names.policies
        self._releases = names.releases
        self._usage: dict[int, list[MeterUsage]] = {}

    def load(self, licenses: Iterable[License]) -> None:
        """Read what the views of these licenses show."""
        product_ids, policy_ids, metered = set[int](), set[int](), set[int]()
        for one in licenses:
            if one.product_id is not None and one.product_id not in self._products:
                product_ids.add(one.product_id)
            if one.policy_id is not None and one.policy_id not in self._policies:
                policy_ids.add(one.policy_id)
            if one.terms is not None and one.id not in self._usage and license_rules.terms_of(one).meters:
                metered.add(one.id)
        if product_ids:
            self._load_products(product_ids)
        if policy_ids:
            self._load_policies(policy_ids)
        if metered:
            self._load_usage(metered)

    def product_of(self, license: License) -> NamedProduct | None:
        """Return the license's product."""
        number = license.product_id
        if number is not None and number not in self._products:
            self._load_products({number})
        return None if number is None else self._products[number]

    def find_product(self, product: int | str) -> NamedProduct | None:
        """Return the product with this ID or code."""
        text = str(product)
        if not (text.isascii() and text.isdigit()):
            query = select(*_PRODUCT).where(products.c.code == product)
            return self._tx.first(query, _named_product)
        # Python refuses to convert thousands of digits.
        number = int(text[:20])
        if number > MAX_ID:
            return None
        if number not in self._products:
            self._load_products({number})
        return self._products[number]

    def find_item(self, item: Item) -> NamedProduct | None:
        """Return the product that a site names."""
        column, text = products.c, item.id or item.name
        if text is None:
            return None
        others = [column.external_id == text] if item.id else [column.name == text]
        query = select(*_PRODUCT).where(or_(column.code == text, *others)).order_by(column.id)
        numbered = self.find_product(text) if item.id and text.isdigit() else None
        return numbered if numbered and numbered.name else self._tx.first(query, _named_product)

    def releases_of(self, product: NamedProduct | None) -> ProductReleases:
        """Return the published releases of a product, and its notices; cached until they change."""
        if product is None or product.releases_changed is None:
            return ProductReleases()
        known = self._releases.get(product.id)
        if known is None or known[0] != product.releases_changed:
            found = load_releases(self._tx, [(product.id, product.version_scheme)])[product.id]
            if len(self._releases) >= _MAX_PRODUCTS:
                self._releases.clear()
            known = self._releases[product.id] = (product.releases_changed, found)
        return known[1]

    def notices_about(
        self, product: NamedProduct | None, version: str | None, activation: Activation | None
    ) -> tuple[AnsweredNotice, ...]:
        """Return the notices about the version that a program names, or else about that of its device."""
        if version is None and activation is not None:
            version = activation.app_version
        scheme = VersionScheme.LOOSE if product is None else product.version_scheme
        return list_about(self.releases_of(product).notices, scheme, version)

    def policy_of(self, license: License) -> NamedPolicy | None:
        """Return the license's policy."""
        number = license.policy_id
        if number is not None and number not in self._policies:
            self._load_policies({number})
        return None if number is None else self._policies[number]

    def is_product(self, license: License, product: int | str) -> bool:
        """Whether the license is for the product with this ID or code; an ID may be a text."""
        own = self.product_of(license)
        return own is not None and product in (own.id, own.code, str(own.id))

    def show(self, license: License, now: datetime) -> LicenseView:
        """Return the view of this license."""
        product, policy = self.product_of(license), self.policy_of(license)
        return LicenseView(license, product, policy, self._usage_of(license, now))

    def _usage_of(self, license: License, now: datetime) -> dict[str, int]:
        """Return the current use of the license's meters, by meter."""
        if license.terms is None:
            return {}
        terms = license_rules.terms_of(license)
        if terms.meters and license.id not in self._usage:
            self._load_usage({license.id})
        return show_usage(self._tx, terms, self._usage.get(license.id, ()), now)

    def _load_products(self, ids: set[int]) -> None:
        self._products.update({number: NamedProduct(number) for number in ids})
        for row in _PRODUCTS.find_rows(self._tx.connection, ids):
            self._products[row[0]] = _named_product(row)

    def _load_policies(self, ids: set[int]) -> None:
        self._policies.update({number: NamedPolicy(number) for number in ids})
        for row in _POLICIES.find_rows(self._tx.connection, ids):
            self._policies[row[0]] = NamedPolicy(*row)

    def _load_usage(self, license_ids: set[int]) -> None:
        self._usage |= {number: [] for number in license_ids}
        self._usage |= list_usage(self._tx, license_ids)


_SEEN = Lookup(
    select(last_seen.c.license_id, last_seen.c.seen_at), last_seen.c.license_id, last_seen.c.activation_id
)
_TRIALS = Lookup(select(trials.c.license_id, trials.c.email), trials.c.license_id)


def list_managed(tx: ReadTransaction, licenses: Sequence[License], now: datetime) -> list[ManagedLicense]:
    """Return these licenses as the management API shows them."""
    # Leases, meters and trials require terms other than the default.
    with_terms = [one.id for one in licenses if one.terms is not None]
    held, usages = count_held(tx, with_terms, now), list_usage(tx, with_terms)
    emails = {row.license_id: row.email for row in _TRIALS.find_rows(tx.connection, with_terms)}
    seen = _SEEN.find_rows(tx.connection, [(one.id, 0) for one in licenses])
    validated = {license_id: to_datetime(at) for license_id, at in seen}
    return [
        ManagedLicense(
            one,
            held.get(one.id, 0),
            show_usage(tx, terms_of(one), usages.get(one.id, ()), now),
            validated.get(one.id),
            emails.get(one.id),
            make_license_ref(tx.key_ring, one.id),
        )
        for one in licenses
    ]


def find_activations(tx: ReadTransaction, query: ListActivations) -> list[Activation]:
    """Return the activations of a page, and one more."""
    column = activations.c
    order = (column.created_at, column.id)
    found = ACTIVATIONS.where(column.license_id == query.license_id).limit(query.limit + 1)
    found = found.order_by(*(one.desc() if query.is_descending else one for one in order))
    if query.is_active is not None:
        found = found.where(IS_ACTIVE if query.is_active else ~IS_ACTIVE)
    if query.after is not None:
        place = tuple_(*query.after)
        found = found.where(tuple_(*order) < place if query.is_descending else tuple_(*order) > place)
    return [activation_of(row) for row in tx.connection.execute(found)]


def _named_product(row: Any) -> NamedProduct:
    id, code, name, renew_url, updates, channels, scheme, *others = row
    listed = () if channels == "[]" else decode(channels, type=tuple[str, ...])
    return NamedProduct(id, code, name, renew_url, Updates(updates), listed, VersionScheme(scheme), *others)
