"""Count the use of meters."""

from keywright.licensing.activations.commands import ProgramCommand


class RecordUsage(ProgramCommand, frozen=True, kw_only=True):
    """Count an amount of a meter of the license."""

    meter: str
    amount: int
