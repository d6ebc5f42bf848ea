"""A new user finds the right page."""

import json
import re
from pathlib import Path

import httpx
import pytest

from keywright.http.openapi.library import INDEX, read_documents, render, search
from tests.server import running

pytestmark = pytest.mark.tier("ordinary")

#: What a new user types, and the page that answers it.
SEARCHES = {
    "upgrade a customer to pro": "how-to/upgrade-and-downgrade",
    "downgrade plan": "how-to/upgrade-and-downgrade",
    "test mode": "how-to/test-mode",
    "typescript": "how-to/typescript",
    "unity game": "how-to/unity",
    "faq": "explanation/faq",
    "does it run on windows": "how-to/windows-and-macos",
    "macos": "how-to/windows-and-macos",
    "how do I leave / export everything": "how-to/how-to-leave",
    "single sign-on okta": "how-to/sign-in-with-company-accounts",
    "SSO entra": "how-to/sign-in-with-company-accounts",
    "splunk siem": "how-to/siem",
    "backup to s3": "how-to/back-up-and-restore",
    "kubernetes manifests": "how-to/kubernetes",
    "cyber resilience act sbom": "reference/cyber-resilience-act",
    "what if the vendor goes out of business": "explanation/if-the-vendor-stops",
    "offline activation without internet": "how-to/sell-to-machines-without-a-network",
    "stripe": "how-to/connect-stripe",
    "floating licenses": "how-to/sell-floating-licenses",
    "trial": "how-to/offer-trials",
    "gdpr": "reference/privacy",
    "lost license key customer": "how-to/customer-portal",
    "docker compose": "how-to/run-in-containers",
    "prometheus alerts": "how-to/watch-it",
}


def test_the_searches_of_a_new_user_end_on_the_right_page() -> None:
    assert len(SEARCHES) >= 20
    found = {question: [one.name for one in search(question)[:1]] for question in SEARCHES}
    assert {question: names for question, names in found.items() if names != [SEARCHES[question]]} == {}


def test_the_index_leads_to_every_page_that_is_no_part_of_another() -> None:
    index = read_documents()[INDEX].text
    missing = [one for one in SEARCHES.values() if f"({one}.md" not in index]
    assert missing == []


def test_a_page_shows_no_markup_of_its_document_and_leads_to_pages() -> None:
    page = render("how-to/sign-in-with-company-accounts").decode()
    assert '<h2 id="2-set-it-up">' in page
    pages = {name: render(name).decode() for name in read_documents()}
    html = {name: text.replace(f'href="/docs/{name}.md"', "") for name, text in pages.items()}
    assert [name for name, text in html.items() if 'href="../' in text or '.md"' in text] == []
    assert [name for name, text in html.items() if "<script" in text] == []


def test_the_changes_of_the_page_about_upgrades_are_taken(tmp_path: Path) -> None:
    page = read_documents()["how-to/upgrade-and-downgrade"].text
    bodies = [json.loads(one) for one in re.findall(r"`(\{\"[^`]*\})`", page)]
    assert len(bodies) >= 5
    with running(tmp_path / "data") as server, httpx.Client(base_url=server.base_url) as vendor:
        vendor.auth = httpx.BasicAuth(*server.api_key())
        made = [vendor.post("/v3/policies", json={"name": f"Edition {number}"}) for number in range(8)]
        assert [one.status_code for one in made] == [201] * 8
        license_id = vendor.post("/v3/licenses", json={"policy_id": 1}).json()["id"]
        answers = [vendor.patch(f"/v3/licenses/{license_id}", json=body) for body in bodies]
    assert [(one.status_code, one.text) for one in answers if one.status_code != 200] == []


def test_nothing_is_found_for_nothing() -> None:
    assert [search(one) for one in ("", "the of", "qqqqq xxxxx", "%" * 300)] == [[], [], [], []]
