"""What is wrong on our side: with the database, the settings, the processes."""

from typing import ClassVar

from keywright.core.errors.root import KeywrightError


class Fault(KeywrightError):
    """Something is wrong on our side."""

    code = "fault.internal"


class Unavailable(Fault):
    """Cannot be answered now; asking again in ``retry_after`` whole seconds may succeed."""

    code = "fault.unavailable"
    retry_after: ClassVar[int] = 1


class QueueFull(Unavailable):
    """More callers are waiting than the desk takes."""

    code = "fault.queue_full"


class WaitedTooLong(Unavailable):
    """The call could not be decided in time, or its caller had gone before; nothing was changed."""

    code = "fault.waited_too_long"


class ShuttingDown(Unavailable):
    """The desk is closed; what it had accepted is being finished."""

    code = "fault.shutting_down"


class StoreUnavailable(Unavailable):
    """The database cannot be reached or refuses to write; nothing was acknowledged."""

    code = "fault.store_unavailable"


class SecretMissing(StoreUnavailable):
    """The database needs a secret that this process does not have."""

    code = "fault.secret_missing"


class TookTooLong(StoreUnavailable):
    """The database was broken off because its answer took too long; nothing was changed."""

    code = "fault.took_too_long"


class StoreBusy(Unavailable):
    """Another process is writing; the lock was not free at once."""

    code = "fault.store_busy"


class StoreConflict(Unavailable):
    """The database undid the transaction because of another one, or because the connection broke; nothing
    was changed, and running it again may succeed.
    """

    code = "fault.store_conflict"


class LockTimeout(StoreConflict):
    """Another transaction holds what this one needs, and has not let go of it; nothing was changed."""

    code = "fault.lock_timeout"


class FateUnknown(Unavailable):
    """The connection broke while the change was being made durable, or the server stopped meanwhile: it may
    have happened or not.
    """

    code = "fault.fate_unknown"


class RejectedByDatabase(Fault):
    """The database itself turned a write down; the whole transaction is undone."""

    code = "fault.rejected_by_database"


class ConfigurationError(KeywrightError):
    """The settings or the data directory cannot be used; the text says what to do."""

    code = "configuration"


class StoreError(KeywrightError):
    """The database is not one that this version can use; the text says what to do."""

    code = "store"


class WorkerFailed(KeywrightError):
    """A server process ended before it was ready; the log says why."""

    code = "worker"
