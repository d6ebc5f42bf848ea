"""What can go wrong. Every error is a KeywrightError."""

from __future__ import annotations

from typing import Any

#: Why a signed answer or a license file is not believed (VerificationError.code).
REASONS = {
    "too_large": "It is larger than 64 KiB.",
    "armour": "The last line of the license file is missing.",
    "not_three_parts": "It is no signed answer: it does not have three parts.",
    "header": "No key that this program trusts has signed it, or it is no license.",
    "base64url": "It is not written as a signed answer is: it was altered or damaged.",
    "signature": "The signature does not hold: it was altered, or made by another server.",
    "payload": "It is signed, and is no license.",
    "issuer": "It comes from another Keywright server.",
    "audience": "It is for another product.",
    "not_yet_valid": "It begins in the future: this computer's clock may be behind.",
    "expired": "It has ended.",
    "device": "It is for another device.",
    "license_key": "It is for another license key.",
    "build": "It is for another build of this program.",
    "nonce": "It is an answer of another time.",
    "question": "It answers another question.",
    "name": "The file has a name that no file may have.",
    "url": "The file is at an address that is not one of the web.",
    "size": "The file has another size than was announced.",
    "sha256": "The bytes of the file are others than were announced.",
    "file_signature": "No key that this program trusts has signed the file.",
}


class KeywrightError(Exception):
    """``code`` says why, ``retry_after`` (in seconds) when to ask again, where the server named a time."""

    def __init__(self, detail: str, code: str, status: int = 0, retry_after: float = 0) -> None:
        super().__init__(detail)
        self.code, self.status, self.retry_after = code, status, retry_after
        #: Those that hold the places of a full license, where its terms let programs choose.
        self.devices: list[dict[str, Any]] = []


class StorageError(KeywrightError):
    """The folder cannot be read or written: the text has its path."""


class VerificationError(KeywrightError):
    """This answer or file must not be believed; ``code`` is one of ``REASONS``."""

    def __init__(self, code: str) -> None:
        super().__init__(REASONS[code], code)


class Unreachable(KeywrightError):
    """The server gave no answer that can be used."""


class Refused(KeywrightError):
    """The server refused a change; ``code`` is one of its problem codes (``limit_reached`` …)."""
