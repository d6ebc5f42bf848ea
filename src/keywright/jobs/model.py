"""Jobs."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec


class JobState(StrEnum):
    """The state of a job."""

    #: A table was uploaded, and its import is not ordered yet. No worker sees it, and no list.
    DRAFT = "draft"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"
    #: The user who ordered it may no longer do that.
    STOPPED = "stopped"


class Job(msgspec.Struct, frozen=True):
    """Long work in steps: ``done`` of ``total`` (None if it was not counted), ``refused`` of which met a
    refusal; ``position`` is where the next step begins, ``messages`` says, line by line, why it failed and
    what it skipped.
    """

    id: int
    kind: str
    state: JobState
    parameters: Mapping[str, Any]
    total: int | None
    done: int
    refused: int
    position: int
    messages: str | None
    created_at: datetime
    created_by: int
    started_at: datetime | None
    finished_at: datetime | None
    claimed_by: str | None
    claimed_until: datetime | None
