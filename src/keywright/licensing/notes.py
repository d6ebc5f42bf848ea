"""Notes and tags of licenses, for people. Pure."""

import re

import msgspec

from keywright.core.parsing import is_storable
from keywright.licensing.licenses.model import LicenseCommand


class Notes(msgspec.Struct, frozen=True):
    """The note and tags of a license; the tags are sorted and unique."""

    note: str = ""
    tags: tuple[str, ...] = ()


#: The most characters of a note and of a tag, and the most tags of a license.
MAX_NOTE, MAX_TAG, MAX_TAGS = 2_000, 40, 20
_TAG = re.compile(r"[\w.+-]+")


def parse_note(text: str) -> str:
    """Return a note without surrounding white space. Raises ``ValueError``."""
    if len(text) > MAX_NOTE or not is_storable(text):
        raise ValueError(f"must be a text of at most {MAX_NOTE:,} characters, without null characters")
    return text.strip()


def parse_tag(text: str) -> str:
    """Return a tag in lower case. Raises ``ValueError``."""
    tag = text.strip().casefold()
    if not _TAG.fullmatch(tag) or len(tag) > MAX_TAG:
        raise ValueError(f"must be words of at most {MAX_TAG} letters, digits and - _ . +")
    return tag


def parse_tags(text: str) -> tuple[str, ...]:
    """The tags in a text, sorted; white space, commas and semicolons separate. Raises ``ValueError``."""
    tags = sorted({parse_tag(one) for one in re.split(r"[\s,;]+", text) if one})
    if len(tags) > MAX_TAGS:
        raise ValueError(f"must be at most {MAX_TAGS} tags")
    return tuple(tags)


class SaveNotes(LicenseCommand, frozen=True, kw_only=True):
    """Replace the note and the tags of the license; with ``instead_of``, only if it still has these."""

    notes: Notes
    instead_of: Notes | None = None
