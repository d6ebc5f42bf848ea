"""Updates: what is newer and covered, and its file, which is kept only once its bytes are right."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ._deadline import deadline
from .errors import KeywrightError, Refused, Unreachable, VerificationError
from .verify import MAX_BYTES, encode, is_signed, open_token, require

if TYPE_CHECKING:
    from .client import Keywright

_PIECE, _TYP = 1 << 20, "keywright-update+jwt"
_ED, _PREHASHED = b"Ed", b"ED"


class File(NamedTuple):
    """The file to install."""

    name: str
    url: str
    size: int
    sha256: str
    signature: str | None


class Update(NamedTuple):
    """The answer: ``code`` says why there is something, or nothing; ``version`` and ``file`` are what the
    license covers, ``not_covered`` is a newer version that it does not cover, with ``renew_url``; ``notices``
    are about this program's version.
    """

    available: bool
    code: str
    codes: tuple[str, ...]
    version: str | None
    notes: str | None
    is_critical: bool
    file: File | None
    not_covered: dict[str, Any] | None
    notices: list[dict[str, Any]]


def check_for_update(
    keywright: Keywright, *, platform: str | None = None, arch: str | None = None, **asked: Any
) -> Update:
    """Ask what is newer than this program. ``asked``: ``channel``, ``by_hand``, ``os_version``. The answer is
    signed and bound to this question: an old build cannot be offered as new.

    Raises Unreachable, Refused and VerificationError.
    """
    with deadline(keywright._timeout):
        named = {"platform": platform or _platform(), "arch": arch, **asked}
        claims = _ask(keywright, named)
    release, file = claims.get("release") or {}, claims.get("file")
    return Update(
        bool(claims.get("available")),
        str(claims.get("code")),
        tuple(claims.get("codes") or ()),
        release.get("version"),
        release.get("notes"),
        bool(release.get("is_critical")),
        None if file is None else File(*(file.get(name) for name in File._fields)),
        claims.get("not_covered"),
        claims.get("notices") or [],
    )


def verify_update(text: str, *, public_keys: Sequence[str], nonce: str, body: bytes) -> dict[str, Any]:
    """The claims of a signed answer about updates to this question. Raises VerificationError."""
    require(len(text.encode(errors="replace")) <= MAX_BYTES, "too_large")
    claims = open_token(text, _TYP, public_keys)
    asked = hashlib.sha256(b"keywright-question:updates\n" + body).digest()
    require(claims.get("nonce") == nonce, "nonce")
    require(claims.get("asked") == encode(asked), "question")
    return claims


def _ask(keywright: Keywright, asked: dict[str, Any]) -> dict[str, Any]:
    """The claims of a signed answer, also where the server has a newer key."""
    kept, nonce = keywright._store.read(), os.urandom(16).hex()
    device = keywright._body(kept, kept.license_key) if kept.license_key else keywright._build
    question = {**device, "product": keywright._product, **asked, "nonce": nonce}
    body = json.dumps({name: value for name, value in question.items() if value is not None}).encode()
    answer = keywright._server.call("/v3/updates", body, "application/jwt").strip()
    trust = keywright._trust(kept)
    try:
        return verify_update(answer, public_keys=trust.keys, nonce=nonce, body=body)
    except VerificationError as error:
        newer = keywright._learn_keys(trust) if error.code == "header" else trust
        if newer == trust:
            raise
    return verify_update(answer, public_keys=newer.keys, nonce=nonce, body=body)


def download(
    file: File,
    folder: str | os.PathLike[str],
    *,
    file_keys: Sequence[str] = (),
    on_progress: Callable[[int, int], None] = lambda _done, _size: None,
    timeout: float = 30.0,
) -> Path:
    """Download the file into a folder, and go on where an earlier attempt was cut off. With ``file_keys``,
    the vendor's public keys (Ed25519 or minisign), a signature of one of them is needed.

    Raises VerificationError (``size``, ``sha256``, ``file_signature``): nothing is kept then; Unreachable:
    what came is kept for the next attempt; and Refused.
    """
    name = os.path.basename(file.name.replace("\\", "/"))
    if not name or name.startswith("."):
        raise VerificationError("name")
    target = Path(folder) / name
    part = target.with_name(f"{name}.{file.sha256[:16]}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _fetch(file, part, on_progress, timeout)
        _require_right(file, part, file_keys)
    except VerificationError:
        part.unlink(missing_ok=True)
        raise
    os.replace(part, target)
    return target


def _fetch(file: File, part: Path, on_progress: Callable[[int, int], None], timeout: float) -> None:
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    done = part.stat().st_size if part.exists() else 0
    if done >= file.size:
        return
    if not file.url.startswith(("https://", "http://")):
        raise VerificationError("url")
    headers = {"Range": f"bytes={done}-", "If-Range": f'"{file.sha256}"'} if done else {}
    try:
        with urlopen(Request(file.url, headers=headers), timeout=timeout) as answer:  # noqa: S310
            is_rest = answer.status == 206
            with part.open("ab" if is_rest else "wb") as opened:
                for piece in _pieces(answer, file.size - (done if is_rest else 0)):
                    opened.write(piece)
                    on_progress(opened.tell(), file.size)
    except HTTPError as error:
        with error:
            raise Refused("The download is refused.", "download_refused", error.code) from None
    except (URLError, OSError, ValueError) as error:
        raise Unreachable("The download was cut off.", "unreachable") from error
    if part.stat().st_size < file.size:
        raise Unreachable("The download was cut off.", "unreachable")


def _pieces(answer: Any, most: int) -> Iterable[bytes]:
    """The body; no more than was announced and one byte, which shows that it is another file."""
    left = most + 1
    while left > 0 and (piece := answer.read(min(_PIECE, left))):
        left -= len(piece)
        yield piece


def _require_right(file: File, part: Path, file_keys: Sequence[str]) -> None:
    if part.stat().st_size != file.size:
        raise VerificationError("size")
    with part.open("rb") as opened:
        hashed = hashlib.sha256()
        while piece := opened.read(_PIECE):
            hashed.update(piece)
    if hashed.hexdigest() != file.sha256:
        raise VerificationError("sha256")
    if file_keys and not any(_is_of(key, file.signature or "", part) for key in file_keys):
        raise VerificationError("file_signature")


def _is_of(key: str, signature: str, part: Path) -> bool:
    """Whether a key has made a signature of these bytes: base64 of Ed25519, or what minisign writes."""
    with suppress(ValueError, IndexError, OSError):
        public, lines = base64.b64decode(key, validate=True), signature.strip().splitlines()
        if lines[0].startswith("dW50cnVzdGVk"):
            lines = base64.b64decode("".join(lines)).decode().strip().splitlines()
        bare = [one for one in lines if not one.startswith("untrusted comment:")]
        decoded = base64.b64decode(bare[0], validate=True)
        if len(decoded) == 64:
            return is_signed(public[-32:], part.read_bytes(), decoded)
        if len(decoded) != 74 or (len(public) == 42 and decoded[2:10] != public[2:10]):
            return False
        content = _prehash(part) if decoded[:2] == _PREHASHED else part.read_bytes()
        return decoded[:2] in (_ED, _PREHASHED) and is_signed(public[-32:], content, decoded[10:])
    return False


def _prehash(part: Path) -> bytes:
    hashed = hashlib.blake2b()
    with part.open("rb") as opened:
        while piece := opened.read(_PIECE):
            hashed.update(piece)
    return hashed.digest()


def _platform() -> str:
    return {"win32": "windows", "darwin": "macos"}.get(sys.platform, "linux")


__all__ = ["File", "KeywrightError", "Update", "check_for_update", "download"]
