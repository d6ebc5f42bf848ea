"""Which file of a name a client gets: feeds have the same name in every release. Pure."""

import re

from keywright.licensing.updates import rules
from keywright.licensing.updates.model import FileKind, Known, ReleaseFile, ReleaseState

#: The kinds of files whose names clients know; the others are named by a feed.
_ASKED_FIRST = (FileKind.FEED, FileKind.SIGNATURE)


def find_file(facts: rules.UpdateFacts, name: str) -> rules.Decision:
    """The file of this name, in lower case, of the newest release that is offered and has one. A file that a
    feed names may also be of another release that may be downloaded. The last code is ``NOT_PUBLISHED`` where
    nothing is found; where something is, the codes after the first are why newer ones are not offered.
    """
    refused = rules.find_refusal_of_caller(facts)
    if refused is not None:
        return rules.Decision((refused,), is_refused=True)
    channel = _find_channel(facts, name)
    channels, found = rules.list_channels(facts, channel), _list_named(facts, name, channel)
    codes: dict[rules.UpdateCode, None] = {}
    for known, file in found:
        if known.release.channel not in channels:
            continue
        refusal = _find_refusal(facts, known)
        if refusal is None:
            return rules.Decision((rules.UpdateCode.UPDATE_AVAILABLE, *codes), known, file)
        codes[refusal] = None
    for known, file in found:
        if file.kind not in _ASKED_FIRST:
            refusal = rules.may_download(facts, known)
            if refusal is None:
                return rules.Decision((rules.UpdateCode.UPDATE_AVAILABLE,), known, file)
            codes[refusal] = None
    return rules.Decision((*codes, rules.UpdateCode.NOT_PUBLISHED))


def _find_refusal(facts: rules.UpdateFacts, known: Known) -> rules.UpdateCode | None:
    """The first no; what a feed installs may be elsewhere."""
    codes = (one.code for one in rules.explain(facts, known) if not one.passed)
    return next((one for one in codes if one is not rules.UpdateCode.NO_FILE_FOR_PLATFORM), None)


def _find_channel(facts: rules.UpdateFacts, name: str) -> str:
    """The channel that the name of a file has, such as ``beta-mac.yml``, or else the one asked for."""
    named = (one for one in facts.channels if re.search(rf"(?<![a-z0-9]){re.escape(one)}(?![a-z0-9])", name))
    return next(named, facts.asked.channel)


def _list_named(facts: rules.UpdateFacts, name: str, channel: str) -> list[tuple[Known, ReleaseFile]]:
    """The published files of this name, the newest first. A release that has no ``beta.yml`` may have what is
    newest there in its ``latest.yml``.
    """
    general = re.sub(rf"^{re.escape(channel)}(?=[.-])", "latest", name)
    by_file = facts.releases.by_file
    found = [pair for one in dict.fromkeys((name, general)) for pair in by_file.get(one, ())]
    published = [pair for pair in found if pair[0].release.state is ReleaseState.PUBLISHED]
    return sorted(published, key=lambda pair: -pair[0].rank)
