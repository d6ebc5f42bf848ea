"""Commands and queries of the management API about licenses."""

from collections.abc import Collection
from datetime import datetime

from keywright.core.command import Command, Cost, Query
from keywright.licensing.licenses.commands import LicenseCommand


class GetLicense(Query, frozen=True, kw_only=True):
    """A license as the management API shows it ``now``; ``only_product_id`` as in ``LicenseCommand``."""

    license_id: int
    now: datetime
    only_product_id: int | None = None


class OfLicense(Query, frozen=True, kw_only=True):
    """A question about the activations of a license; all of them may have to be looked at."""

    cost = Cost.LIST

    license_id: int
    only_product_id: int | None = None


class GetActivation(OfLicense, frozen=True, kw_only=True):
    """The activation with this id."""

    activation_id: int


class ListActivations(OfLicense, frozen=True, kw_only=True):
    """The next ``limit`` activations and one more, by creation and id: after a position, which has the
    seconds and the id. ``is_active`` None is any.
    """

    limit: int
    after: tuple[int, int] | None = None
    is_descending: bool = True
    is_active: bool | None = None
    is_counted: bool = False


class ChangeAndShow(Command, frozen=True, kw_only=True):
    """A change of a license whose outcome is the license as the management API shows it."""

    change: LicenseCommand

    @property
    def parts(self) -> Collection[Command]:
        """The change."""
        return (self.change,)

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses that the change locks."""
        return self.change.locks
