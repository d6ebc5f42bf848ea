"""Choose the file that a client gets by name: feeds have the same name in every release. Pure."""

import re

from keywright.licensing.updates import rules
from keywright.licensing.updates.model import FileKind, Known, ReleaseFile, ReleaseState

#: The kinds of files that clients request by a fixed name; the others are referenced by a feed.
_ASKED_FIRST = (FileKind.FEED, FileKind.SIGNATURE)


def find_file(facts: rules.UpdateFacts, name: str) -> rules.Decision:
    """Return the file with this name, in lower case, from the newest release that is offered and has one. A
    file that a feed references may also be from another release that may be downloaded. If nothing is found,
    the last code is ``NOT_PUBLISHED``; otherwise, the codes after the first state why newer ones are not
    offered.
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
    """The first refusal, except for a missing file for the platform: a feed's file may be elsewhere."""
    codes = (one.code for one in rules.explain(facts, known) if not one.passed)
    return next((one for one in codes if one is not rules.UpdateCode.NO_FILE_FOR_PLATFORM), None)


def _find_channel(facts: rules.UpdateFacts, name: str) -> str:
    """Return the channel in the name of a file, such as ``beta-mac.yml``, or else the requested one."""
    named = (one for one in facts.channels if re.search(rf"(?<![a-z0-9]){re.escape(one)}(?![a-z0-9])", name))
    return next(named, facts.asked.channel)


def _list_named(facts: rules.UpdateFacts, name: str, channel: str) -> list[tuple[Known, ReleaseFile]]:
    """Return the published files with this name, newest first. A release without ``beta.yml`` may have a
    newer version for that channel in its ``latest.yml``.
    """
    general = re.sub(rf"^{re.escape(channel)}(?=[.-])", "latest", name)
    by_file = facts.releases.by_file
    found = [pair for one in dict.fromkeys((name, general)) for pair in by_file.get(one, ())]
    published = [pair for pair in found if pair[0].release.state is ReleaseState.PUBLISHED]
    return sorted(published, key=lambda pair: -pair[0].rank)
