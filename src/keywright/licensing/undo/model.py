"""What came of an undo."""

import msgspec


class Undone(msgspec.Struct, frozen=True):
    """The license whose changes were undone; ``is_deleted`` if it was made by them, and is gone now."""

    license_id: int
    is_deleted: bool = False
