"""Generators."""

from datetime import datetime

import msgspec


class Generator(msgspec.Struct, frozen=True):
    """The recipe that makes license keys: prefix, ``chunks`` runs of ``chunk_length``, suffix."""

    id: int
    name: str
    charset: str
    chunks: int
    chunk_length: int
    times_activated_max: int | None
    separator: str | None
    prefix: str | None
    suffix: str | None
    expires_in_days: int | None
    created_at: datetime
    created_by: int | None
    updated_at: datetime
    updated_by: int | None
