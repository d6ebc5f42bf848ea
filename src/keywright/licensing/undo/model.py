"""What can be undone, and what came of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License


class PastChange(msgspec.Struct, frozen=True, array_like=True):
    """A change of a license, as its event tells it."""

    name: str
    changed_at: datetime
    activation_id: int | None = None
    details: Mapping[str, Any] | None = None


class Undone(msgspec.Struct, frozen=True):
    """The license whose changes were undone; ``is_deleted`` if it was made by them, and is gone now."""

    license_id: int
    is_deleted: bool = False


class Deleted(NamedTuple):
    """A license that a transaction deletes, as it was then, with those of its activations that the
    transaction knows; all of its places may have been given up before.
    """

    license: License
    activations: Mapping[str, Activation]
    emptied_at: datetime | None
    deleted_at: datetime


class DeletedLicense(NamedTuple):
    """A license that was deleted and can be brought back."""

    license: License
    deleted_at: datetime


class Snapshot(msgspec.Struct, frozen=True):
    """A deleted license: its key, its row, the rows of other tables by their names, the keys that it had
    before and when they were replaced, and the e-mail address of its trial. Times are seconds since 1970.
    """

    key: str
    license: dict[str, Any]
    rows: dict[str, list[dict[str, Any]]]
    rotated_keys: list[tuple[str, int]] = []
    trial_email: str | None = None
