"""Statements about the vendor's own templates."""

from typing import Any

from sqlalchemy import Row, delete, insert, select

from keywright.db.rows import to_seconds, with_datetimes
from keywright.db.schema import mail_templates
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.delivery.mail.model import EVERY_PRODUCT, OwnTemplate
from keywright.events.outbox.model import MailTemplate

#: The most own templates that are listed: all of a hundred products.
MAX_TEMPLATES = 5_000
_COLUMNS = mail_templates.c
_TEMPLATE = select(*(_COLUMNS[name] for name in OwnTemplate.__struct_fields__))


def find_template(
    tx: ReadTransaction, name: MailTemplate, product_id: int | None, language: str
) -> OwnTemplate | None:
    """The vendor's template of this product, or else that of every product, in this language."""
    query = _TEMPLATE.where(
        _COLUMNS.name == name.value,
        _COLUMNS.language == language,
        _COLUMNS.product_id.in_({EVERY_PRODUCT, product_id or EVERY_PRODUCT}),
    )
    return tx.first(query.order_by(_COLUMNS.product_id.desc()).limit(1), _template_of)


def list_templates(tx: ReadTransaction) -> list[OwnTemplate]:
    """The vendor's templates, by name, product and language."""
    query = _TEMPLATE.order_by(_COLUMNS.name, _COLUMNS.product_id, _COLUMNS.language).limit(MAX_TEMPLATES)
    return [_template_of(row) for row in tx.connection.execute(query)]


def save_template(tx: WriteTransaction, template: OwnTemplate) -> None:
    """Insert a template, or replace the one of this name, product and language."""
    delete_template(tx, template.name, template.product_id, template.language)
    values = {
        "name": template.name.value,
        "product_id": template.product_id,
        "language": template.language,
        "subject": template.subject,
        "text": template.text,
        "html": template.html,
        "updated_at": to_seconds(template.updated_at),
        "updated_by": template.updated_by,
    }
    tx.connection.execute(insert(mail_templates).values(values))


def delete_template(tx: WriteTransaction, name: MailTemplate, product_id: int, language: str) -> bool:
    """Delete one; False where there is none."""
    is_one = (
        _COLUMNS.name == name.value,
        _COLUMNS.product_id == product_id,
        _COLUMNS.language == language,
    )
    return tx.connection.execute(delete(mail_templates).where(*is_one)).rowcount == 1


def _template_of(row: Row[Any]) -> OwnTemplate:
    values = with_datetimes(row)
    return OwnTemplate(**values | {"name": MailTemplate(values["name"])})
