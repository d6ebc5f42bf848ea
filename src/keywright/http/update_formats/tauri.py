"""Tauri 2: the JSON that its updater plugin reads.

Source of the format: https://v2.tauri.app/plugin/updater/#dynamic-update-server
"""

import base64
from typing import Any

import msgspec

from keywright.http.answer import Answer
from keywright.http.update_formats import Format, UpdateRequest, header_of


async def answer(asked: UpdateRequest) -> Answer:
    """Answer with the newest release with a signed file for the target, or 204 with a reason in a header."""
    _, target, arch, version = asked.words
    found = await asked.check(
        app_version=version, platform=target.lower(), arch=arch.lower(), needs_signature=True
    )
    decision = found.decision
    license_id = None if found.license is None else found.license.id
    headers = (*header_of(decision), (b"referrer-policy", b"no-referrer"))
    if decision.offered is None or decision.file is None:
        return Answer(204, b"", headers, license_id=license_id, releases=found.counted)
    release = decision.offered.release
    body: dict[str, Any] = {
        "version": release.version.removeprefix("v"),
        "url": asked.link(found),
        "signature": _wrap(decision.file.signature or ""),
    }
    if release.released_at is not None:
        body["pub_date"] = release.released_at
    if release.notes is not None:
        body["notes"] = release.notes
    content = msgspec.json.encode(body)
    return Answer(200, content, headers, license_id=license_id, releases=found.counted)


def _wrap(signature: str) -> str:
    """Return the signature as Tauri expects it: the base64 of minisign's file."""
    is_bare = signature.startswith("untrusted comment:")
    return base64.b64encode(f"{signature.strip()}\n".encode()).decode() if is_bare else signature


FORMAT = Format({"Tauri": "tauri/{{target}}/{{arch}}/{{current_version}}"}, 4, "tauri", answer)
