"""What Keywright acknowledged, written down from its answers alone, and what a database says of the same."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from keywright.core.command import Command
from keywright.core.errors import KeywrightError, Refusal, UnknownLicense
from keywright.engine.executor import Outcome
from keywright.engine.idempotency import IdempotencyRecord
from keywright.licensing.activations.model import Activation, LicenseRecord
from keywright.licensing.licenses.model import CreateLicense, DeleteLicense, UpdateLicense

#: Licenses with counters, limits and status; activations and whether they are active; how many events there
#: are, and the number of the last one; calls whose answers are kept. None: there are no tables.
State = tuple[list[Any], ...] | None

EMPTY: State = ([], [], [(0, 0)], [])
_QUERIES = (
    "SELECT id, times_activated, times_activated_max, status FROM licenses ORDER BY id",
    "SELECT license_id, token, deactivated_at IS NULL FROM activations ORDER BY license_id, token",
    "SELECT count(*), coalesce(max(id), 0) FROM events",
    "SELECT scope FROM idempotency_records ORDER BY scope",
)


def state_of(connection: sqlite3.Connection) -> State:
    """What the database says. Raises ``sqlite3.DatabaseError`` when it is broken."""
    if not connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'licenses'").fetchone()[0]:
        return None
    return tuple(connection.execute(query).fetchall() for query in _QUERIES)


def active_in(state: State) -> set[str]:
    """The tokens of all active places."""
    return set() if state is None else {token for _, token, is_active in state[1] if is_active}


class Ledger:
    """What should be in the database, as far as the answers tell."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        #: Every token and whether it is active, by license.
        self.tokens: dict[int, dict[str, bool]] = {}
        #: How many places were taken or taken back.
        self.taken = 0
        self._licenses: dict[int, tuple[Any, ...]] = {}
        self._events = 0
        self._scopes: set[bytes] = set()

    @property
    def state(self) -> State:
        """What a database that has all of it says."""
        licenses = [(number, *values) for number, values in sorted(self._licenses.items())]
        activations = [
            (number, token, int(is_active))
            for number, tokens in sorted(self.tokens.items())
            for token, is_active in sorted(tokens.items())
        ]
        # Nothing is ever taken from them, so the last one's number is how many they are.
        events = [(self._events, self._events)]
        return licenses, activations, events, [(scope,) for scope in sorted(self._scopes)]

    def note(self, commands: Sequence[Command], outcomes: Sequence[Outcome]) -> None:
        """A batch was answered."""
        known = set(self.keys)
        for command, outcome in zip(commands, outcomes, strict=True):
            assert isinstance(outcome, Refusal) or not isinstance(outcome, KeywrightError), outcome
            # A refusal for an unknown license is not kept, unless it was deleted in this very batch.
            is_unknown = (
                isinstance(outcome, UnknownLicense) and getattr(command, "license", None) not in known
            )
            is_kept = not is_unknown and not isinstance(outcome, IdempotencyRecord)
            if command.idempotency is not None and is_kept:
                self._scopes.add(command.idempotency.scope)
            if isinstance(outcome, LicenseRecord):
                self._note_change(command, outcome)
            elif isinstance(command, DeleteLicense) and outcome is None:
                self._note_end(command)

    def _note_change(self, command: Command, outcome: LicenseRecord) -> None:
        license = outcome.license
        values = (license.times_activated, license.times_activated_max, license.status)
        self._licenses[license.id] = values
        if isinstance(command, CreateLicense | UpdateLicense):
            self.keys[license.key] = license.id
            self._events += 1
        for activation in outcome.activations:
            self._note_place(activation)

    def _note_place(self, activation: Activation) -> None:
        is_active = activation.deactivated_at is None
        self.tokens.setdefault(activation.license_id, {})[activation.token] = is_active
        self._events += 1
        self.taken += is_active

    def _note_end(self, command: DeleteLicense) -> None:
        number = self.keys.pop(str(command.license))
        self.tokens.pop(number, None)
        del self._licenses[number]
        self._events += 1
