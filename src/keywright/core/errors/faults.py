"""Faults of the server: of its database, settings and processes."""

from typing import ClassVar

from keywright.core.errors.root import V2, KeywrightError

_UNAVAILABLE = "service_unavailable"


class Fault(KeywrightError):
    """An internal error of the server."""

    code = "fault.internal"
    hint = (
        "this is an internal error ({detail}), and nothing was changed. Run with KEYWRIGHT_DEBUG=1 for "
        "details."
    )
    v2 = V2(
        500,
        "internal_server_error",
        "Something went wrong on our side. The request was not carried out.",
    )


class RejectedByDatabase(Fault):
    """The database rejected a write; the whole transaction was rolled back."""

    code = "fault.rejected_by_database"


class Unavailable(Fault):
    """The call cannot be answered now; the same call may succeed later.

    ``retry_after`` is in whole seconds.
    """

    code = "fault.unavailable"
    problem = "database_unavailable"
    status = 503
    sentence = "The database is not responding. Nothing was changed; try again in a moment."
    hint = "the database failed ({detail}). Check that it is running and writable, then try again."
    v2 = V2(503, _UNAVAILABLE, "The service is not available right now. Please try again.")
    retry_after: ClassVar[int] = 1


class QueueFull(Unavailable):
    """More calls are waiting than the server accepts."""

    code = "fault.queue_full"
    problem = "busy"
    sentence = "Too many requests are waiting. Nothing was changed; try again in a moment."
    v2 = V2(503, _UNAVAILABLE, "Too many requests are waiting. Please try again.")


class WaitedTooLong(Unavailable):
    """The call could not be executed within `answer_within_seconds`; nothing was changed."""

    code = "fault.waited_too_long"
    problem = "busy"


class OldSystemUnavailable(Unavailable):
    """The license is not here, and the old system that the relay asks does not answer, or got too many
    requests. A program must not treat this as an unknown license.
    """

    code = "fault.old_system_unavailable"
    problem = "busy"
    problem_detail = "The old system that is asked for unknown licenses is not responding."
    sentence = "The old system that is asked for unknown licenses is not responding. Try again in a moment."
    hint = "the system at relay_url is not responding. Try again."


class ShuttingDown(Unavailable):
    """The server is stopping; it finishes the calls that it has accepted."""

    code = "fault.shutting_down"
    problem = "shutting_down"
    sentence = "The server is shutting down. Nothing was changed; try again later."


class StoreUnavailable(Unavailable):
    """The database cannot be reached, or refuses to write; nothing was changed."""

    code = "fault.store_unavailable"


class StoreReadOnly(StoreUnavailable):
    """The database accepts no changes, because its disk is full or it is read-only. Queries are answered."""

    code = "fault.store_read_only"
    problem_detail = (
        "No change can be saved right now; reads still work. Nothing was changed; try again later."
    )
    sentence = problem_detail
    v2 = V2(503, _UNAVAILABLE, "No change can be saved right now. Please try again later.")


class SecretMissing(StoreUnavailable):
    """The secret was rotated, and this server does not have the new one yet."""

    code = "fault.secret_missing"


class FilesUnavailable(Unavailable):
    """A file cannot be read or written, or the disk is full; nothing of an upload is left."""

    code = "release.files_unavailable"
    problem = "busy"
    problem_detail = "The folder of files is unavailable right now. Nothing was changed; try again later."
    sentence = problem_detail
    hint = "the folder of files ({detail}) cannot be used. Check its permissions and its disk."


class TookTooLong(StoreUnavailable):
    """The database took too long and was interrupted; nothing was changed."""

    code = "fault.took_too_long"


class StoreBusy(Unavailable):
    """Another process is writing to the database."""

    code = "fault.store_busy"
    problem = "busy"
    hint = "another program has been writing to the database for too long. Try again."


class StoreConflict(Unavailable):
    """The database rolled back the transaction, because it conflicted with another one or the connection
    broke.

    Nothing was changed, and running the transaction again may succeed.
    """

    code = "fault.store_conflict"
    problem = "busy"


class LockTimeout(StoreConflict):
    """Another transaction held a lock for too long; nothing was changed."""

    code = "fault.lock_timeout"


class FateUnknown(Unavailable):
    """The database connection broke during the commit, or the server stopped: the outcome is unknown."""

    code = "fault.fate_unknown"
    problem = "fate_unknown"
    heading = "The outcome is unknown"
    sentence = (
        "The database connection broke at the last moment. Check whether the change was made before you "
        "try again."
    )
    v2 = V2(
        503, _UNAVAILABLE, "It is not known whether the request was carried out. Please look, or try again."
    )


class ConfigurationError(KeywrightError):
    """The settings or the data directory cannot be used; the text explains what to do."""

    code = "configuration"
    hint = "{detail}"
    v2 = None


class StoreError(KeywrightError):
    """This version cannot use the database; the text explains what to do."""

    code = "store"
    hint = "{detail}"
    v2 = None


class WorkerFailed(KeywrightError):
    """A server process ended before it was ready; the log contains the reason."""

    code = "worker"
    hint = "a server process could not start. See the log for the reason."
    v2 = None
