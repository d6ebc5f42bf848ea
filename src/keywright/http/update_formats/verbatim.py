"""Frameworks whose feeds the vendor builds: a feed and its files are sent as they are stored."""

from keywright.core.errors import DownloadRefused, NoSuchAddress
from keywright.http.answer import Answer
from keywright.http.update_formats import Format, UpdateRequest, begins, header_of
from keywright.licensing.updates.model import INSTALLED, FileKind
from keywright.licensing.updates.rules import UpdateCode

#: The counter of a release for each kind of file.
_COUNTED = {FileKind.FEED: "offers", **dict.fromkeys((*INSTALLED, FileKind.DELTA), "downloads")}


async def answer(asked: UpdateRequest) -> Answer:
    """Answer with the file of this name; a feed comes from the newest release that may be offered. Raises
    ``NoSuchAddress`` if no release has the file, and ``DownloadRefused``.
    """
    found = await asked.check(file_name=asked.words[0].lower())
    decision = found.decision
    if decision.file is None or decision.offered is None:
        if decision.code is UpdateCode.NOT_PUBLISHED:
            raise NoSuchAddress
        raise DownloadRefused(decision.code)
    sent = asked.send(asked.call, decision.file)
    sent.headers += header_of(decision)
    sent.license_id = None if found.license is None else found.license.id
    if begins(asked.call) and decision.file.kind in _COUNTED:
        sent.releases = ((decision.offered.release.id, _COUNTED[decision.file.kind]),)
    return sent


FORMAT = Format(
    {
        "electron-updater": "",
        "Velopack": "",
        "Sparkle, WinSparkle, NetSparkle": "appcast.xml",
    },
    1,
    None,
    answer,
)
