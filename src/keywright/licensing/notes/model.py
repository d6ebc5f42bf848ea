"""A note and tags."""

import msgspec


class Notes(msgspec.Struct, frozen=True):
    """What people have written about a license; the tags are sorted, each once."""

    note: str = ""
    tags: tuple[str, ...] = ()
