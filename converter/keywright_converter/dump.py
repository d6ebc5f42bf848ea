"""Read records from the tables of a shop with *License Manager for WooCommerce* or *Digital License Manager*.
The latter is a fork of the former; its ``includes/Database/Schema.php`` names its tables.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from keywright.core import parsing
from keywright.core.errors import SourceUnusable
from keywright.provisioning.importers.lmfwc import Sealing, Values, place_of
from keywright.provisioning.importers.model import (
    ImportedApiKey,
    ImportedNames,
    Notice,
    Outcome,
    Verdict,
)
from keywright.provisioning.importers.run import Report
from keywright.provisioning.products import NameKind
from keywright_converter.mysqldump import Row, RowSource
from keywright_converter.rows import read_api_key, try_secrets
from keywright_converter.source import AT_ONCE, GENERATORS, SpooledSource, id_of

_LICENSES, _ACTIVATIONS, _META = "licenses", "activations", "meta"
_API_KEYS = "api_keys"
_POSTS, _USERS, _CUSTOMERS = "posts", "users", "wc_customer_lookup"
_SHOP = {one: one for one in (_POSTS, _USERS, _CUSTOMERS)}
#: The site part of a table prefix: the users of all sites of a network are in the tables of the first site.
_SITE = re.compile(r"\d+_$")
#: How many licenses to try the secrets on before anything is imported.
_TRIED = 100


class Family(NamedTuple):
    """A plugin: its short name, its title, its tables without prefix, and columns to rename."""

    name: str
    title: str
    tables: Mapping[str, str]
    columns: Mapping[str, str]


LMFWC = Family(
    "lmfwc",
    "License Manager for WooCommerce",
    {
        "lmfwc_licenses": _LICENSES,
        "lmfwc_activations": _ACTIVATIONS,
        "lmfwc_licenses_meta": _META,
        "lmfwc_generators": GENERATORS,
        "lmfwc_api_keys": _API_KEYS,
    },
    {},
)
DLM = Family(
    "dlm",
    "Digital License Manager",
    {
        "dlm_licenses": _LICENSES,
        "dlm_license_activations": _ACTIVATIONS,
        "dlm_license_meta": _META,
        "dlm_generators": GENERATORS,
        "dlm_api_keys": _API_KEYS,
    },
    {"activations_limit": "times_activated_max"},
)


class Dump(SpooledSource):
    """The records in a dump or a database; call ``load``, which reads everything, first."""

    def __init__(
        self,
        tables: RowSource,
        family: Family,
        secrets: Sealing,
        report: Report,
        *,
        now: datetime,
        prefix: str | None = None,
    ) -> None:
        super().__init__(family.name, secrets, report, now=now)
        self._source, self._family, self._prefix = tables, family, prefix
        self._secrets = secrets
        self._table_name = re.compile(rf"(.*?)({'|'.join((*family.tables, *_SHOP))})")
        self._is_prefix_given = prefix is not None
        self._split = lru_cache(self._split_name)
        self._tables: Counter[str] = Counter()
        self._rows = {
            _LICENSES: self._add_license,
            _ACTIVATIONS: self._add_activation,
            _META: self._add_meta,
            GENERATORS: self._add_other,
            _API_KEYS: self._add_other,
            _POSTS: self._add_post,
            _USERS: self._add_user,
            _CUSTOMERS: self._add_customer,
        }

    # --- reading ----------------------------------------------------------------------------------

    def load(self, progress: Callable[[int], None] = lambda _: None) -> None:
        """Read the tables and try the secrets; ``progress`` gets the number of rows so far. Raises
        ``SourceUnusable`` if the tables or the secrets are wrong.
        """
        for number, row in enumerate(self._source.rows(self._is_wanted)):
            kind = self._split(row.table)[1]
            self._tables[kind] += 1
            self._rows[kind](row)
            if number % 1_000 == 0:
                progress(number)
        if not self._tables[_LICENSES]:
            raise SourceUnusable(
                f"{self._source.name} has no licenses of {self._family.title}: it has no rows of a table "
                f"{self.name}_licenses. Provide the shop's whole database, or its tables with {self.name} "
                "in their names."
            )
        self._spool.finish()
        self._try_secrets()
        self._note_strays()

    def _is_wanted(self, table: str) -> bool:
        """Whether a table belongs to the shop, whose prefix is that of the plugin's first table."""
        prefix, kind = self._split(table)
        if not kind or kind in _SHOP:
            known = self._prefix
            return bool(kind) and (
                known in (None, prefix) or (kind == _USERS and _SITE.sub("", known or "") == prefix)
            )
        if self._prefix is None:
            self._prefix = prefix
        if prefix != self._prefix and not self._is_prefix_given:
            raise SourceUnusable(
                f"{self._source.name} has the licenses of several shops: choose one with --prefix "
                f"{self._prefix} or --prefix {prefix}."
            )
        return prefix == self._prefix

    def _split_name(self, table: str) -> tuple[str, str]:
        """The prefix and kind of a table; empty if the table is not read."""
        match = self._table_name.fullmatch(table)
        if match is None:
            return "", ""
        return match[1], self._family.tables.get(match[2], match[2])

    def _add_license(self, row: Row) -> None:
        number = id_of(row.values, "id")
        if number is None:
            self._report.note(Notice("number_odd", place_of(row.line, "a license"), "its id"))
            self._report.count(Outcome("license", Verdict.LEFT_OUT))
        else:
            values = {self._family.columns.get(name, name): value for name, value in row.values.items()}
            self._spool.add_license(number, row.line, values.get("hash") or f"{number}", values)

    def _add_activation(self, row: Row) -> None:
        license_id, number = id_of(row.values, "license_id") or 0, id_of(row.values, "id") or 0
        self._spool.add_activation(license_id, number, row.line, row.values)

    def _add_meta(self, row: Row) -> None:
        license_id, name = id_of(row.values, "license_id"), row.values.get("meta_key")
        if license_id is not None and name:
            self._spool.add_meta(license_id, row.line, name, row.values.get("meta_value"))

    def _add_other(self, row: Row) -> None:
        values = {self._family.columns.get(name, name): value for name, value in row.values.items()}
        self._spool.add_other(self._split(row.table)[1], row.line, values)

    def _add_post(self, row: Row) -> None:
        if row.values.get("post_type") in ("product", "product_variation"):
            self._add_name(NameKind.PRODUCT, row.values, "ID", 0, row.values.get("post_title"))

    def _add_user(self, row: Row) -> None:
        name = row.values.get("display_name") or row.values.get("user_login")
        self._add_name(NameKind.CUSTOMER, row.values, "ID", 1, name)

    def _add_customer(self, row: Row) -> None:
        name = f"{row.values.get('first_name') or ''} {row.values.get('last_name') or ''}"
        self._add_name(NameKind.CUSTOMER, row.values, "user_id", 0, name)

    def _add_name(self, kind: NameKind, values: Values, column: str, rank: int, name: str | None) -> None:
        number = id_of(values, column)
        text = "".join(filter(str.isprintable, name or "")).strip()[: parsing.MAX_NAME_LENGTH]
        if number and text:
            self._spool.add_name(kind, number, rank, text)

    # --- checking ---------------------------------------------------------------------------------

    def _try_secrets(self) -> None:
        tried = [
            try_secrets(self._secrets, row.values) for _, row in self._spool.licenses(after=0, limit=_TRIED)
        ]
        where = f"They are in wp-content/uploads/{self.name}-files/ of the shop."
        if tried and not any(is_unsealed for is_unsealed, _ in tried):
            raise SourceUnusable(
                f"defuse.txt belongs to another shop: no license key can be decrypted. {where}"
            )
        if tried and not any(is_found for _, is_found in tried):
            raise SourceUnusable(
                f"secret.txt belongs to another shop: no license key matches its hash. {where}"
            )

    def _note_strays(self) -> None:
        if not self._tables[_ACTIVATIONS]:
            self._report.note(
                Notice("table_missing", f"{self.name}: {_ACTIVATIONS}", "no activations are imported")
            )
        self._note_joined()
        for line, number in self._spool.strays():
            self._report.note(Notice("license_missing", place_of(line, f"license {number}")))
            self._report.count(Outcome("activation", Verdict.LEFT_OUT))

    # --- records ----------------------------------------------------------------------------------

    def api_keys(self) -> Iterator[ImportedApiKey]:
        """Yield the usable API keys; if WordPress users were read, only keys owned by one of them."""
        has_users = bool(self._tables[_USERS])
        for row in self._spool.others(_API_KEYS):
            one = read_api_key(row, self._report.note)
            owner = id_of(row.values, "user_id") or 0
            if one is not None and has_users and not self._spool.has_name(NameKind.CUSTOMER, owner):
                self._report.note(Notice("api_key_owner", one.place, one.name))
                one = None
            self._count_left_out("API key", one is None)
            if one is not None:
                yield one

    def names(self) -> Iterator[ImportedNames]:
        """Yield the names of the products and customers that licenses refer to, in batches."""
        for kind in NameKind:
            names: dict[int, str] = {}
            for number, name in self._spool.names(kind):
                if number in self._named[kind]:
                    names[number] = name
                if len(names) == AT_ONCE:
                    yield ImportedNames(kind, names)
                    names = {}
            if names:
                yield ImportedNames(kind, names)
