"""What is wrong on our side: with the database, the settings, the processes."""

from typing import ClassVar

from keywright.core.errors.root import KeywrightError


class Fault(KeywrightError):
    """Something is wrong inside the server."""

    code = "fault.internal"


class Unavailable(Fault):
    """Cannot be answered now; asking again in ``retry_after`` whole seconds may succeed."""

    code = "fault.unavailable"
    retry_after: ClassVar[int] = 1


class QueueFull(Unavailable):
    """More calls are waiting than the server accepts."""

    code = "fault.queue_full"


class WaitedTooLong(Unavailable):
    """The call could not be decided within `answer_within_seconds`; nothing was changed."""

    code = "fault.waited_too_long"


class ShuttingDown(Unavailable):
    """The server is stopping; it finishes the calls that it has accepted."""

    code = "fault.shutting_down"


class StoreUnavailable(Unavailable):
    """The database cannot be reached, or refuses to write; nothing was changed."""

    code = "fault.store_unavailable"


class SecretMissing(StoreUnavailable):
    """The secret was rotated, and this server does not have the new one yet."""

    code = "fault.secret_missing"


class TookTooLong(StoreUnavailable):
    """The database took too long and was interrupted; nothing was changed."""

    code = "fault.took_too_long"


class StoreBusy(Unavailable):
    """Another process is writing to the database."""

    code = "fault.store_busy"


class StoreConflict(Unavailable):
    """The database rolled back the transaction: another one was in its way, or the connection broke.

    Nothing was changed, and running the transaction again may succeed.
    """

    code = "fault.store_conflict"


class LockTimeout(StoreConflict):
    """Another transaction has held a lock for too long; nothing was changed."""

    code = "fault.lock_timeout"


class FateUnknown(Unavailable):
    """The connection to the database broke during the commit, or the server stopped: the change may have
    happened or not.
    """

    code = "fault.fate_unknown"


class RejectedByDatabase(Fault):
    """The database rejected a write; the whole transaction was rolled back."""

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
