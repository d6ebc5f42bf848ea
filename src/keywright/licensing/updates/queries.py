"""Answer checks for updates, and explain a release; the data for a batch of them is read once."""

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from keywright.core.command import Query
from keywright.core.errors import DownloadRefused, NotFound, OtherProductKey
from keywright.db import ReadTransaction
from keywright.licensing import validation
from keywright.licensing.activations import devices, records
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import Activation, NamedProduct
from keywright.licensing.activations.sites import Item
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.keys import make_license_ref
from keywright.licensing.licenses.model import License
from keywright.licensing.updates import rules, store
from keywright.licensing.updates.feeds import find_file
from keywright.licensing.updates.model import Known, Release, ReleaseFile, Updates
from keywright.licensing.updates.notices import AnsweredNotice
from keywright.licensing.updates.tickets import Ticket, is_of_key, write_ticket
from keywright.licensing.views_store import Names, Views


class CheckForUpdate(Query, frozen=True, kw_only=True):
    """Return what is newer and permitted: with a license key, an update token, or neither if updates are
    open.

    ``product`` is its ID or code. With ``file_name``, in lower case, the answer contains that file from the
    newest permitted release that has one. With ``is_shown``, the answer contains the newest release as a site
    shows it, even if it is not permitted. With ``item``, the caller is a site, which must hold a place
    whatever the terms are.
    """

    now: datetime
    key: str | None = None
    update_token: str | None = None
    fingerprint: str | None = None
    token: str | None = None
    product: int | str | None = None
    asked: rules.Asked = rules.Asked()
    only_product_id: int | None = None
    file_name: str | None = None
    is_shown: bool = False
    item: Item | None = None


class CheckedUpdate(Struct, frozen=True, gc=False):
    """The answer to a check: the decision, the ticket for the offered file, the license and device it is
    about, where to renew a license that does not cover all, and the notices about the caller's version.
    ``shown`` has the release that a site shows as the newest, and earlier ones, of ``product``.
    """

    decision: rules.Decision
    license: License | None
    activation: Activation | None
    renew_url: str | None
    ticket: str | None
    next_check_at: datetime | None
    current: Known | None = None
    notices: tuple[AnsweredNotice, ...] = ()
    shown: tuple[Known, ...] = ()
    product: NamedProduct | None = None

    @property
    def path_of_file(self) -> str | None:
        """The path to download the offered file; None without one."""
        file = self.decision.file
        return None if file is None else f"/d/{self.ticket}/{quote(file.name)}"

    @property
    def counted(self) -> tuple[tuple[int, str], ...]:
        """What to count: a check by a program that has a release, and the offer of one."""
        of_check = () if self.current is None else ((self.current.release.id, "checks"),)
        offered = self.decision.offered
        return of_check if offered is None else (*of_check, (offered.release.id, "offers"))


class ExplainRelease(Query, frozen=True, kw_only=True):
    """Evaluate every rule about a release for a license, or without one for everyone."""

    release_id: int
    now: datetime
    license_id: int | None = None
    activation_id: int | None = None
    asked: rules.Asked = rules.Asked()
    only_product_id: int | None = None


class FindDownload(Query, frozen=True, kw_only=True):
    """Return the file of a ticket, if the license may still have it."""

    ticket: Ticket
    now: datetime


class Download(Struct, frozen=True, gc=False):
    """A file that may be downloaded, and the license it is for."""

    file: ReleaseFile
    release: Release
    license_id: int | None


class LoadedUpdates:
    """The rows that a batch of checks needs, loaded once."""

    def __init__(self, tx: ReadTransaction, queries: Sequence[CheckForUpdate], names: Names) -> None:
        """Load the rows."""
        self._tx = tx
        self._views = Views(tx, names)
        named = {(one.key, one.fingerprint, one.token) for one in queries if one.key is not None}
        self._licenses, self._activations = records.find_devices(tx, named) if named else ({}, {})
        unknown = {key for key, _, _ in named if key not in self._licenses}
        self._rotated = license_store.find_rotated(tx, unknown) if unknown else {}
        # Clients differ in the case of a token: in a batch, it is one token.
        tokens = {one.update_token.lower(): one.now for one in queries if one.update_token is not None}
        self._holders = store.find_holders_of(tx, tokens) if tokens else {}
        of_tokens = [one.license for one in self._holders.values() if one.license is not None]
        self._views.load([*self._licenses.values(), *self._rotated.values(), *of_tokens])

    def answer(self, query: CheckForUpdate) -> CheckedUpdate:
        """Decide a check. Raises ``OtherProductKey``."""
        subject = self._find_subject(query)
        license = subject.license
        if license is not None and query.only_product_id not in (None, license.product_id):
            raise OtherProductKey
        product = self._find_product(query, license)
        facts = facts_about(product, subject, query.now)
        is_named = query.fingerprint is not None or query.token is not None
        is_other = license is not None and query.product is not None
        is_other = is_other and not self._views.is_product(license, query.product)  # type: ignore[arg-type]
        if query.item is not None:
            is_other = license is not None and not query.item.fits(product)
        facts = replace(
            facts,
            is_key_unknown=license is None and (query.key, query.update_token) != (None, None),
            is_other_product=is_other,
            is_device_named=is_named,
            asked=query.asked,
            releases=self._views.releases_of(product),
        )
        decision = rules.decide(facts) if query.file_name is None else find_file(facts, query.file_name)
        ticket = None
        if decision.file is not None and query.file_name is None:
            ticket = write_ticket(
                *(self._tx.key_ring, decision.file.id, license, subject.activation, query.now),
                needs_place=subject.needs_place,
            )
        is_hidden = decision.code in (rules.UpdateCode.KEY_ROTATED, rules.UpdateCode.PRODUCT_MISMATCH)
        found = validation.Facts(license=license, now=query.now, activation=subject.activation)
        return CheckedUpdate(
            decision,
            None if is_hidden else license,
            None if is_hidden else subject.activation,
            self._link_to_renew(product, license) if decision.not_covered is not None else None,
            ticket,
            validation.next_check_at(found),
            facts.releases.find(query.asked.app_version),
            self._find_notices(product, query, None if is_hidden else subject),
            rules.list_shown(facts, decision) if query.is_shown else (),
            None if is_hidden else product,
        )

    def _find_notices(
        self, product: NamedProduct | None, query: CheckForUpdate, subject: rules.Subject | None
    ) -> tuple[AnsweredNotice, ...]:
        """Return the notices for the product's audience: its licenses, or if it is open, everyone."""
        is_open = product is not None and product.updates is Updates.OPEN
        if subject is None or not (subject.license is not None or is_open):
            return ()
        return self._views.notices_about(product, query.asked.app_version, subject.activation)

    def _link_to_renew(self, product: NamedProduct | None, license: License | None) -> str | None:
        if product is None or license is None:
            return None
        return product.link_to_renew(make_license_ref(self._tx.key_ring, license.id))

    def _find_subject(self, query: CheckForUpdate) -> rules.Subject:
        if query.update_token is not None:
            return self._holders.get(query.update_token.lower(), rules.Subject())
        license = self._licenses.get(query.key or "") or self._rotated.get(query.key or "")
        if license is None:
            return rules.Subject()
        known = self._activations.get(license.id, ())
        own = devices.find_own(known, query.fingerprint, query.token)
        return rules.Subject(license, own, query.key in self._rotated, needs_place=query.item is not None)

    def _find_product(self, query: CheckForUpdate, license: License | None) -> NamedProduct | None:
        if license is not None:
            return self._views.product_of(license)
        if query.item is not None:
            return self._views.find_item(query.item)
        return None if query.product is None else self._views.find_product(query.product)


def facts_about(
    product: NamedProduct | None, subject: rules.Subject, now: datetime, asked: rules.Asked | None = None
) -> rules.UpdateFacts:
    """Return the inputs of the gate about a product and a license with its device; without the product's
    releases, as a download is about one of them.
    """
    of_product = {} if product is None else {
        "updates": product.updates,
        "channels": product.channels,
        "scheme": product.version_scheme,
    }  # fmt: skip
    return rules.UpdateFacts(
        now=now,
        license=subject.license,
        activation=subject.activation,
        is_key_rotated=subject.is_key_rotated,
        needs_place=subject.needs_place,
        asked=asked or rules.Asked(),
        **of_product,  # type: ignore[arg-type]
    )


def find_facts(
    tx: ReadTransaction,
    release: Release,
    named: tuple[int | None, int | None],
    now: datetime,
    asked: rules.Asked | None = None,
    *,
    needs_place: bool = False,
) -> rules.UpdateFacts | None:
    """Return the inputs of the gate about a release and about a license with one of its devices, which are
    ``named`` by their IDs, freshly read; None if there is no such license.
    """
    views, (license_id, activation_id) = Views(tx), named
    license = activation = None
    if license_id is not None:
        license = license_store.find_licenses_by_id(tx, [license_id]).get(license_id)
        if license is None:
            return None
        if activation_id is not None:
            found = activation_store.find_by_id(tx, [(license_id, activation_id)])
            activation = found[0] if found else None
    product = views.find_product(release.product_id)
    facts = facts_about(product, rules.Subject(license, activation, needs_place=needs_place), now, asked)
    is_other = license is not None and license.product_id != release.product_id
    return replace(facts, is_other_product=is_other, is_device_named=activation_id is not None)


def list_covered(tx: ReadTransaction, license: License, now: datetime) -> list[Known]:
    """Return the releases that the customer of a license may download, newest first."""
    views = Views(tx)
    product = views.product_of(license)
    facts = facts_about(product, rules.Subject(license), now)
    return [one for one in views.releases_of(product).releases if rules.may_download(facts, one) is None]


def explain_release(tx: ReadTransaction, query: ExplainRelease) -> list[rules.Verdict]:
    """Evaluate every rule about a release. Raises ``NotFound``."""
    release = store.RELEASES.find(tx, query.release_id)
    if release is None or query.only_product_id not in (None, release.product_id):
        raise NotFound(f"release {query.release_id}")
    facts = find_facts(tx, release, (query.license_id, query.activation_id), query.now, query.asked)
    is_foreign = query.only_product_id is not None and facts is not None and facts.is_other_product
    if facts is None or is_foreign:
        raise NotFound(f"license {query.license_id}")
    return rules.explain(facts, store.to_known(tx, release, facts.scheme))


def find_download(tx: ReadTransaction, query: FindDownload) -> Download:
    """Return the file of a ticket; the gate is checked again as in ``rules.may_download``. Raises
    ``NotFound`` if the file no longer exists, and ``DownloadRefused``.
    """
    ticket = query.ticket
    file = store.FILES.find(tx, ticket.file_id)
    release = None if file is None else store.RELEASES.find(tx, file.release_id)
    if file is None or release is None or not file.is_there:
        raise NotFound("file")
    named = (ticket.license_id, ticket.activation_id)
    facts = find_facts(tx, release, named, query.now, needs_place=ticket.needs_place)
    if facts is None:
        raise DownloadRefused(rules.UpdateCode.UNKNOWN_LICENSE)
    if facts.license is not None and not is_of_key(tx.key_ring, ticket, facts.license):
        raise DownloadRefused(rules.UpdateCode.KEY_ROTATED)
    code = rules.may_download(facts, store.to_known(tx, release, facts.scheme))
    if code is not None:
        raise DownloadRefused(code)
    return Download(file, release, ticket.license_id)
