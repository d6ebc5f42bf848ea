"""All pages in all languages."""

import pytest

from keywright.http.admin.app import CATALOGS, SECTIONS
from keywright.http.pages.formats import Languages
from tests.http.admin_browser import Visitor
from tests.http.admin_licenses import make
from tests.server import RunningServer

TRANSLATED = [one.code for one in Languages(CATALOGS) if one.code != "en"]
FORMS = ("/licenses/new", "/licenses/import", "/policies/new", "/products/new", "/customers/new")


@pytest.mark.parametrize("code", TRANSLATED)
def test_every_page_can_be_read_in_every_language(server: RunningServer, ada: Visitor, code: str) -> None:
    license = f"/licenses/{make(server, product_id=7, customer_id=8, order_id=9).id}"
    paths = [section.path for section in SECTIONS if section.in_menu]
    pages = ("", "/history", "/edit", "/limit", "/terms", "/delete")
    for path in [*paths, *FORMS, *(f"{license}{one}" for one in pages)]:
        answer = ada.get(path, **{"Accept-Language": code})
        assert (path, answer.status_code) == (path, 200)
        assert f'<html lang="{code}"' in answer.text
