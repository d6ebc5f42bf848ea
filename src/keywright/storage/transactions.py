"""What can be asked of the database and written to it, within one transaction.

``find_x`` may return nothing, ``lock_x`` gets for change, ``list_x`` is paged or small, ``count_x``
counts, ``save_x`` writes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import Connection, Select, Table, delete, func, insert, select, update

from keywright import rules
from keywright.errors import StoreConflict
from keywright.keys import KeyRing
from keywright.model import (
    Activation,
    ApiKey,
    Event,
    Generator,
    KeptAnswer,
    License,
    LicenseFilter,
    User,
)
from keywright.storage import queries, rows
from keywright.storage.many import Change, Lookup, Values, is_postgres
from keywright.storage.schema import api_keys, generators, kept_answers, users
from keywright.storage.secret_marks import lock_ring

_MOST_FORGOTTEN = 5_000


class Numbers(Protocol):
    """Where new licenses and activations get their numbers; each database has its own way."""

    def next(self, kind: str) -> int:
        """A number for a new ``license`` or ``activation`` that was never given before."""

    def save(self) -> None:
        """Remember what was given."""


class Reading:
    """A transaction that sees one moment of the database and changes nothing."""

    def __init__(self, connection: Connection, key_ring: KeyRing) -> None:
        self._connection = connection
        self._key_ring = key_ring

    @property
    def connection(self) -> Connection:
        """What it goes over; for this package."""
        return self._connection

    @property
    def key_ring(self) -> KeyRing:
        """What seals and signs with the installation's secret."""
        return self._key_ring

    def find_licenses(self, keys: Iterable[str]) -> dict[str, License]:
        """The licenses that have these keys, by key."""
        return self._licenses_by_key(keys, queries.LICENSES_WITH)

    def list_licenses(self, where: LicenseFilter, *, after_id: int, limit: int) -> list[License]:
        """At most ``limit`` matching licenses with larger numbers than ``after_id``, oldest first."""
        query = queries.listed(where)
        return self._unsealed(query.where(query.selected_columns.id > after_id).limit(limit))

    def list_license_page(
        self, where: LicenseFilter, *, skip: int, limit: int, after_id: int = 0
    ) -> list[License]:
        """At most ``limit`` matching licenses after the first ``skip`` of those with larger numbers than
        ``after_id``, oldest first.
        """
        return self._unsealed(queries.page(where, after_id=after_id, skip=skip).limit(limit))

    def count_licenses(self, where: LicenseFilter, *, most: int | None = None) -> int:
        """The number of matching licenses; no more than ``most`` are counted."""
        return int(self._connection.execute(queries.counted(where, most)).scalar_one())

    def list_activations(self, license_ids: Iterable[int]) -> dict[int, list[Activation]]:
        """Every record of these licenses, by license, oldest first."""
        return self._by_license(queries.ACTIVATIONS_OF, license_ids)

    def list_active(self, license_ids: Iterable[int]) -> dict[int, list[Activation]]:
        """Every active record of these licenses, by license, oldest first."""
        return self._by_license(queries.ACTIVE_OF, license_ids)

    def find_activations(self, tokens: Iterable[tuple[int, str]]) -> list[Activation]:
        """The records with these tokens, each only within its license."""
        # No database needs to be asked for a text that none can hold.
        possible = [pair for pair in tokens if "\0" not in pair[1]]
        found = {
            (row.license_id, row.token): rows.activation_of(row)
            for row in queries.ACTIVATIONS_WITH.rows(self._connection, possible)
        }
        return list(found.values())

    def find_generator(self, generator_id: int) -> Generator | None:
        """The generator with this number."""
        query = select(*rows.GENERATOR).where(generators.c.id == generator_id)
        row = self._connection.execute(query).first()
        return None if row is None else rows.generator_of(row)

    def list_generators(self) -> list[Generator]:
        """Every generator, oldest first."""
        query = select(*rows.GENERATOR).order_by(generators.c.id)
        return [rows.generator_of(row) for row in self._connection.execute(query)]

    def find_api_key(self, consumer_key_hash: str) -> ApiKey | None:
        """The API key in force with this hashed consumer key."""
        values = {"key_hash": consumer_key_hash}
        row = self._connection.execute(queries.API_KEY_IN_FORCE, values).first()
        return None if row is None else rows.api_key_of(row)

    def list_api_keys(self) -> list[ApiKey]:
        """Every API key, revoked ones included, oldest first."""
        query = select(*rows.API_KEY).order_by(api_keys.c.id)
        return [rows.api_key_of(row) for row in self._connection.execute(query)]

    def find_user(self, name: str) -> User | None:
        """The user with this name."""
        row = self._connection.execute(select(*rows.USER).where(users.c.name == name)).first()
        return None if row is None else rows.user_of(row)

    def list_events(self, license_id: int, *, limit: int) -> list[Event]:
        """The latest ``limit`` events of a license, latest first."""
        query = queries.latest_events(license_id, limit)
        return [rows.event_of(row) for row in self._connection.execute(query)]

    def _licenses_by_key(self, keys: Iterable[str], query: Lookup) -> dict[str, License]:
        key_of = self._key_ring.fingerprints(keys)
        found = {}
        for row in self._rows_with(query, key_of):
            key = key_of[row[0]]
            found[key] = rows.license_of(row, key)
        return found

    def _by_license(self, query: Lookup, license_ids: Iterable[int]) -> dict[int, list[Activation]]:
        found: dict[int, list[Activation]] = {}
        for row in self._rows_with(query, license_ids):
            found.setdefault(row[2], []).append(rows.activation_of(row))
        for records in found.values():
            records.sort(key=rules.by_age)
        return found

    def _unsealed(self, query: Select[Any]) -> list[License]:
        unseal = self._key_ring.unseal_key
        return [
            rows.license_of(row[:-1], unseal(row.sealed_key, row.id))
            for row in self._connection.execute(query)
        ]

    def _rows_with(self, query: Lookup, values: Iterable[Any]) -> list[Any]:
        return query.rows(self._connection, [(value,) for value in values])


class Writing(Reading):
    """A transaction that changes things: all of it is durable after it ends, or none of it is."""

    def __init__(self, connection: Connection, key_ring: KeyRing, numbers: Numbers) -> None:
        super().__init__(connection, key_ring)
        self._numbers = numbers
        self._sealing: KeyRing | None = None

    @property
    def sealing(self) -> KeyRing:
        """The secret that everything new is written with until the end of the transaction."""
        if self._sealing is None:
            is_rotated = len(self._key_ring.rings) > 1
            self._sealing = lock_ring(self._connection, self._key_ring) if is_rotated else self._key_ring
        return self._sealing

    def next_id(self, kind: str) -> int:
        """A number for a new ``license`` or ``activation`` that was never given before."""
        return self._numbers.next(kind)

    def save_numbers(self) -> None:
        """Remember the numbers that were given out."""
        self._numbers.save()

    def lock_licenses(self, keys: Iterable[str]) -> dict[str, License]:
        """The licenses that have these keys, by key, locked in id order until the end."""
        return self._licenses_by_key(keys, queries.LICENSES_LOCKED)

    def find_holders(self, keys: Iterable[str]) -> dict[str, str]:
        """Which of these licenses another transaction holds that waits for no lock itself: the numbers of
        those transactions, by key. Nothing is locked, and nothing waited for.
        """
        if not is_postgres(self._connection):
            return {}
        key_of = self._key_ring.fingerprints(keys)
        return {key_of[row[0]]: row[1] for row in self._rows_with(queries.HOLDERS, key_of)}

    def lock_kept_answers(self, scopes: Iterable[bytes]) -> dict[bytes, KeptAnswer]:
        """The answers that were kept for these calls, by scope; when this transaction has ended, they are as
        durable as what it changed itself.
        """
        unseal = self._key_ring.unseal
        return {
            row.scope: KeptAnswer(row.request_digest, row.status, unseal(row.sealed_body, row.scope))
            for row in self._rows_with(queries.ANSWERS_LOCKED, scopes)
        }

    def save_new_licenses(self, new: Sequence[License]) -> None:
        """Insert; the database rejects a key that is taken."""
        values = [self._license_values(one, None) | {"id": one.id} for one in new]
        self._change(queries.INSERT_LICENSES, values)
        self._refuse_other_fingerprints(new)

    def save_licenses(self, changed: Sequence[License], before: Mapping[int, License]) -> None:
        """Update everything, the key too; the database rejects a key that is taken, and a counter that rose
        above the limit it had ``before`` (by id).
        """
        values = [self._license_values(one, before[one.id]) | {"at_id": one.id} for one in changed]
        self._change(queries.UPDATE_LICENSES, values)
        self._refuse_other_fingerprints(changed)

    def save_places_taken(self, changed: Sequence[License]) -> None:
        """Update what taking a place changes; the table's CHECK judges the new counter."""
        self._change(queries.UPDATE_COUNTERS, [rows.counter_values(one) for one in changed])

    def save_first_places_taken(self, changed: Sequence[License]) -> None:
        """The same where the license's time begins with it: the expiry, too."""
        values = [
            rows.counter_values(one) | rows.history_values(one) | rows.expiry_values(one) for one in changed
        ]
        self._change(queries.UPDATE_COUNTERS_AND_EXPIRY, values)

    def save_places_taken_back(self, changed: Sequence[License]) -> None:
        """The same where some of the places were given up before."""
        values = [rows.counter_values(one) | rows.history_values(one) for one in changed]
        self._change(queries.UPDATE_COUNTERS_AND_RECORDS, values)

    def save_places_given_up(self, changed: Sequence[License], before: Mapping[int, License]) -> None:
        """Update what giving up places changes, since ``before`` (by id)."""
        values = [
            rows.counter_values(one) | rows.history_values(one) | {"places": rows.places(one, before[one.id])}
            for one in changed
        ]
        self._change(queries.UPDATE_COUNTERS_AND_PLACES, values)

    def recount(self, license_id: int) -> dict[str, list[int]] | None:
        """Set a license's counters to the numbers of its active activations and of those that were given up;
        returns what the wrong ones were and are, by name, None when there is no such license any more.
        """
        row = self._connection.execute(queries.COUNTERS_LOCKED, {"at_id": license_id}).first()
        if row is None:
            return None
        active, ended = self._connection.execute(queries.RECORDS_COUNTED, {"at_id": license_id}).one()
        limit = row.times_activated_max
        room = None if limit is None else max(limit, active)
        values = {"at_id": license_id, "taken": active, "ended": ended, "room": room}
        self._connection.execute(queries.RECOUNT, values)
        pairs = {
            "times_activated": [row.times_activated, active],
            "deactivated_records": [row.deactivated_records, ended],
        }
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def delete_licenses(self, license_ids: Collection[int]) -> None:
        """Delete these licenses and their activations; their events stay."""
        self._change(queries.DELETE_ACTIVATIONS, [{"at_license_id": number} for number in license_ids])
        self._change(queries.DELETE_LICENSES, [{"at_id": number} for number in license_ids])

    def save_new_activations(self, new: Sequence[Activation]) -> None:
        """Insert."""
        values = [rows.activation_values(one) for one in new]
        self._change(queries.INSERT_ACTIVATIONS, values)

    def save_activations(self, changed: Sequence[Activation]) -> None:
        """Update what reactivating and deactivating change."""
        values = [rows.activation_changes(one) for one in changed]
        self._change(queries.UPDATE_ACTIVATIONS, values)

    def deactivate_all(self, license_id: int, now: datetime) -> None:
        """Give up every place of a license, in one statement however many there are."""
        values = {"at_id": license_id, "moment": rows.seconds(now)}
        self._connection.execute(queries.DEACTIVATE_ACTIVATIONS, values)

    def save_events(self, happened: Sequence[Event]) -> None:
        """Add to the record of what happened."""
        if is_postgres(self._connection) and any(not one.license_id for one in happened):
            # The transaction has a number before its events have; those of a license were written after it.
            self._connection.execute(queries.BEGIN_TO_WRITE)
        self._change(queries.INSERT_EVENTS, [rows.event_values(one) for one in happened])

    def save_kept_answer(self, scope: bytes, answer: KeptAnswer, now: datetime) -> None:
        """Keep the answer to a call; the body is sealed, for it holds a license key."""
        values = {
            "scope": scope,
            "request_digest": answer.request_digest,
            "status": answer.status,
            "sealed_body": self.sealing.seal(answer.body, scope),
            "kept_at": rows.seconds(now),
        }
        self._change(queries.INSERT_KEPT_ANSWERS, [values])

    def newest_kept_answer(self) -> datetime | None:
        """When the newest answer was kept; None when there is none."""
        at = self._connection.execute(select(func.max(kept_answers.c.kept_at))).scalar_one()
        return None if at is None else rows.moment(at)

    def delete_kept_answers(self, before: datetime) -> int:
        """Forget some thousand of the answers kept before this moment; returns how many they were."""
        old = select(kept_answers.c.scope).where(kept_answers.c.kept_at < rows.seconds(before))
        query = delete(kept_answers).where(kept_answers.c.scope.in_(old.limit(_MOST_FORGOTTEN)))
        return self._connection.execute(query).rowcount

    def save_new_generator(self, generator: Generator) -> int:
        """Insert, and return the number that the generator has from now on."""
        return self._insert(generators, rows.values_of(generator))

    def lock_generator(self, generator_id: int) -> Generator | None:
        """The generator with this number, locked until the end."""
        query = select(*rows.GENERATOR).where(generators.c.id == generator_id).with_for_update()
        row = self._connection.execute(query).first()
        return None if row is None else rows.generator_of(row)

    def save_generator(self, generator: Generator) -> None:
        """Update every field."""
        query = update(generators).where(generators.c.id == generator.id)
        self._connection.execute(query.values(rows.values_of(generator)))

    def delete_generator(self, generator_id: int) -> None:
        """Delete; the licenses it made stay."""
        self._connection.execute(delete(generators).where(generators.c.id == generator_id))

    def save_new_api_key(self, api_key: ApiKey, consumer_key_hash: str) -> int:
        """Insert, and return the number that the API key has from now on."""
        return self._insert(api_keys, rows.values_of(api_key) | {"key_hash": consumer_key_hash})

    def revoke_api_key(self, api_key_id: int, now: datetime) -> bool:
        """Revoke; False when there is no such key in force."""
        query = update(api_keys).where(api_keys.c.id == api_key_id, api_keys.c.revoked_at.is_(None))
        return self._connection.execute(query.values(revoked_at=rows.seconds(now))).rowcount == 1

    def save_new_user(self, user: User) -> int:
        """Insert, and return the number that the user has from now on."""
        return self._insert(users, rows.values_of(user))

    def _change(self, change: Change, rows: Sequence[Values]) -> None:
        change.execute(self._connection, rows)

    def _insert(self, table: Table, values: Values) -> int:
        result = self._connection.execute(insert(table).values(values))
        return int(result.inserted_primary_key[0])  # type: ignore[index]

    def _refuse_other_fingerprints(self, written: Sequence[License]) -> None:
        """Raise ``StoreConflict`` for a key that another license has under the other secret. The table's
        constraint holds for each secret by itself; nothing is written with the other one any more, so what
        is not found now cannot come.
        """
        if len(self._key_ring.rings) == 1 or not written:
            return
        own = {self.sealing.fingerprint(one.key) for one in written}
        others = self._key_ring.fingerprints([one.key for one in written]).keys() - own
        if self._rows_with(queries.LICENSES_WITH, others):
            raise StoreConflict("a license key is taken, and still sealed with the other secret")

    def _license_values(self, license: License, before: License | None) -> Values:
        return rows.license_values(license) | {
            "places": rows.places(license, before),
            "fingerprint": self.sealing.fingerprint(license.key),
            "sealed_key": self.sealing.seal_key(license.key, license.id),
        }
