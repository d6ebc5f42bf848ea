"""Notes and tags in the database."""

from collections.abc import Collection

from sqlalchemy import insert, select

from keywright.db.bulk import Lookup, bulk_delete
from keywright.db.schema import license_notes, license_tags
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.notes import Notes

_NOTES_OF = Lookup(select(license_notes.c.license_id, license_notes.c.note), license_notes.c.license_id)
_TAGS_OF = Lookup(select(license_tags.c.license_id, license_tags.c.tag), license_tags.c.license_id)
_DELETE = [bulk_delete(table, "license_id") for table in (license_notes, license_tags)]


def find_notes(tx: ReadTransaction, license_ids: Collection[int]) -> dict[int, Notes]:
    """What is written about these licenses, by license; nothing is ``Notes()``."""
    notes = {row.license_id: row.note for row in _NOTES_OF.find_rows(tx.connection, license_ids)}
    tags: dict[int, set[str]] = {}
    for license_id, tag in _TAGS_OF.find_rows(tx.connection, license_ids):
        tags.setdefault(license_id, set()).add(tag)
    return {one: Notes(notes.get(one, ""), tuple(sorted(tags.get(one, ())))) for one in license_ids}


def save_notes(tx: WriteTransaction, license_id: int, notes: Notes) -> None:
    """Store these in the place of what is written."""
    for change in _DELETE:
        change.execute(tx.connection, [{"where_license_id": license_id}])
    if notes.note:
        values = {"license_id": license_id, "note": notes.note}
        tx.connection.execute(insert(license_notes).values(values))
    if notes.tags:
        rows = [{"license_id": license_id, "tag": one} for one in notes.tags]
        tx.connection.execute(insert(license_tags), rows)
