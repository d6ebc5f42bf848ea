"""License a program with Keywright: signed answers, which are the license until they end."""

from .aio import AsyncKeywright
from .client import Keywright
from .errors import KeywrightError, Refused, StorageError, Unreachable, VerificationError
from .status import Status

__version__ = "0.9.0"
__all__ = [
    "AsyncKeywright",
    "Keywright",
    "KeywrightError",
    "Refused",
    "Status",
    "StorageError",
    "Unreachable",
    "VerificationError",
]
