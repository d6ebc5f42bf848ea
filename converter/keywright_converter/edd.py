"""Read records from the tables of a shop with *EDD Software Licensing* 3.6 or later. The columns are those in
its ``includes/classes/class-sl-licenses-db.php`` and ``class-sl-activations-db.php``.
"""

import hmac
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from keywright.core import parsing
from keywright.core.crypto import mask
from keywright.core.errors import InvalidLicenseKey
from keywright.licensing.activations.model import ActivationSource
from keywright.licensing.activations.sites import SITE, parse_site
from keywright.licensing.licenses.keys import normalize_key
from keywright.licensing.licenses.model import LicenseSource, Status
from keywright.provisioning.importers.lmfwc import MAX_KEPT_ID, Fields, PlainKeys, Spooled, Values
from keywright.provisioning.importers.model import ImportedActivation, ImportedLicense
from keywright.provisioning.importers.run import Report
from keywright.provisioning.products import NameKind
from keywright_converter.dump import Dump, Family
from keywright_converter.mysqldump import Row, RowSource
from keywright_converter.source import id_of

_CUSTOMERS, _POSTMETA = "edd_customers", "postmeta"
EDD = Family(
    "edd",
    "EDD Software Licensing",
    {
        "edd_licenses": "licenses",
        "edd_license_activations": "activations",
        "edd_licensemeta": "meta",
        _CUSTOMERS: _CUSTOMERS,
        _POSTMETA: _POSTMETA,
    },
    {"site_id": "id", "edd_license_id": "license_id"},
)
#: The limit of a license or a product; and the prices of a product, each with its own limit.
_LIMIT, _PRICES = "_edd_sl_limit", "edd_variable_prices"
_PRICE = re.compile(r"i:(\d+);a:\d+:\{(.*?)\}", re.DOTALL)
_PRICE_LIMIT = re.compile(r'"license_limit";(?:s:\d+:"(\d+)"|i:(\d+))')
_DISABLED = ("disabled", "revoked")


class Person(NamedTuple):
    """A customer of the shop."""

    email: str
    name: str


class EddDump(Dump):
    """The records in a dump or a database; call ``load``, which reads everything, first."""

    members = Dump.members | {"customer_email": "customer_email", "customer_name": "customer_name"}

    def __init__(
        self, tables: RowSource, report: Report, *, now: datetime, prefix: str | None = None
    ) -> None:
        super().__init__(tables, EDD, PlainKeys(), report, now=now, prefix=prefix)
        #: Limits by product and price; the key of a product's own limit has the price "".
        limits: dict[tuple[int, str], int] = {}
        people: dict[int, Person] = {}
        self._limits, self._people = limits, people
        self._plugin = Edd(report, limits, people, now)
        self._rows |= {_CUSTOMERS: self._add_person, _POSTMETA: self._add_limit}

    def _is_wanted(self, table: str) -> bool:
        prefix, kind = self._split(table)
        if kind == _POSTMETA:
            # Each site of a network has its own.
            return self._prefix in (None, prefix)
        return super()._is_wanted(table)

    def _add_license(self, row: Row) -> None:
        # The key identifies the license: another row with it is a duplicate.
        key = row.values.get("license_key") or ""
        super()._add_license(Row(row.table, row.line, row.values | {"hash": key}))

    def _add_activation(self, row: Row) -> None:
        super()._add_activation(Row(row.table, row.line, self._rename(row.values)))

    def _add_meta(self, row: Row) -> None:
        super()._add_meta(Row(row.table, row.line, self._rename(row.values)))

    def _rename(self, values: Values) -> Values:
        return {self._family.columns.get(name, name): value for name, value in values.items()}

    def _add_post(self, row: Row) -> None:
        if row.values.get("post_type") == "download":
            self._add_name(NameKind.PRODUCT, row.values, "ID", 0, row.values.get("post_title"))

    def _add_person(self, row: Row) -> None:
        number = id_of(row.values, "id")
        if number is not None:
            person = Person((row.values.get("email") or "").strip(), (row.values.get("name") or "").strip())
            self._people[number] = person

    def _add_limit(self, row: Row) -> None:
        name, product = row.values.get("meta_key"), id_of(row.values, "post_id") or 0
        text = row.values.get("meta_value") or ""
        if name == _LIMIT and text.isdigit():
            self._limits[product, ""] = int(text)
        elif name == _PRICES:
            for price, body in _PRICE.findall(text):
                found = _PRICE_LIMIT.search(body)
                if found is not None:
                    self._limits[product, price] = int(found[1] or found[2])

    def _try_secrets(self) -> None:
        """Do nothing: the plugin does not seal license keys."""


class Edd:
    """Converts rows to licenses."""

    def __init__(
        self,
        report: Report,
        limits: Mapping[tuple[int, str], int],
        people: Mapping[int, Person],
        now: datetime,
    ) -> None:
        self._report, self._limits, self._people, self._now = report, limits, people, now

    def license(
        self, row: Spooled, activations: list[Spooled], meta: Mapping[str, str | None]
    ) -> ImportedLicense | None:
        """Convert a row, with its sites, to a license; None if its key is unusable."""
        fields = Fields(row.values, f"{row.place}license {row.values.get('id')}", self._report.note)
        try:
            key = normalize_key(fields.text("license_key"))
        except InvalidLicenseKey:
            fields.report("key_unusable")
            return None
        fields.place += f" ({mask(key)})"
        created_at = fields.moment("date_created") or self._now
        product, customer = (fields.integer(name) or None for name in ("download_id", "customer_id"))
        person = self._people.get(customer or 0, Person("", ""))
        number = fields.integer("id")
        kept = {
            f"edd_{name}": text
            for name in ("parent", "price_id")
            if (text := fields.text(name)) not in ("", "0")
        }
        return ImportedLicense(
            key=key,
            status=Status.DISABLED if fields.text("status") in _DISABLED else Status.ACTIVE,
            created_at=created_at,
            updated_at=created_at,
            id=number if number and number <= MAX_KEPT_ID else None,
            order_id=fields.integer("payment_id") or None,
            product_id=product,
            customer_id=customer,
            customer_email=person.email or None,
            customer_name=person.name or None if person.email else None,
            expires_at=_to_moment(fields),
            source=LicenseSource.MIGRATION,
            times_activated_max=self._limit(fields, product, meta),
            metadata=parsing.parse_metadata(dict(kept)),
            activations=tuple(self._sites(key, created_at, activations)),
            place=row.place.removesuffix(", "),
        )

    def _limit(self, fields: Fields, product: int | None, meta: Mapping[str, str | None]) -> int | None:
        own = meta.get(_LIMIT) or ""
        if own.isdigit():
            return min(int(own), parsing.MAX_COUNT) or None
        of_price = self._limits.get((product or 0, fields.text("price_id")))
        found = self._limits.get((product or 0, ""), 0) if of_price is None else of_price
        return min(found, parsing.MAX_COUNT) or None

    def _sites(self, key: str, created_at: datetime, rows: Iterable[Spooled]) -> Iterable[ImportedActivation]:
        """The sites, each once; an active site takes precedence over an inactive one."""
        found: dict[str, ImportedActivation] = {}
        for row in rows:
            fields = Fields(row.values, f"{row.place}site {row.values.get('id')}", self._report.note)
            site = parse_site(fields.text("site_name"))
            if site is None:
                fields.report("site_unusable")
                continue
            is_active = fields.text("activated") == "1"
            if site in found:
                fields.report("site_twice", site)
                if found[site].deactivated_at is None or not is_active:
                    continue
            found[site] = ImportedActivation(
                # The same in each import, and not guessable.
                token=hmac.digest(key.encode(), site.encode(errors="surrogatepass"), "sha1").hex(),
                created_at=created_at,
                label=site,
                source=ActivationSource.MIGRATION,
                deactivated_at=None if is_active else created_at,
                fingerprint=f"{SITE}{site}",
                is_counted=fields.text("is_local") != "1",
            )
        return found.values()


def _to_moment(fields: Fields) -> datetime | None:
    """The expiry of a license, stored in seconds since 1970; 0 means never."""
    seconds = fields.integer("expiration")
    if not seconds:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        fields.report("date_odd", f"expiration: {seconds}")
        return None
