"""Follow the links of pages."""

import re
from collections import deque
from collections.abc import Iterator
from urllib.parse import parse_qs, urljoin, urlsplit

from playwright.sync_api import Page

from tests.browser.waiting import undisturbed

#: Where the pages begin.
START = "/admin"
_TARGETS = """() => [...document.querySelectorAll("a[href]:not([download])")]
    .map((one) => one.getAttribute("href"))"""


def walk(page: Page, start: str = START) -> Iterator[str]:
    """The address of a page of every kind that links lead to; each is open when it is yielded.

    Fails at the end if a link did not lead to a page: a user may follow every link that is shown.
    """
    waiting, kinds, dead = deque([start]), {kind(start)}, list[str]()
    while waiting:
        address = waiting.popleft()
        answer = page.goto(address)
        if answer is None or answer.status != 200:
            dead.append(f"{address} answers {answer and answer.status}")
            continue
        for link in _links(page):
            if kind(link) not in kinds:
                kinds.add(kind(link))
                waiting.append(link)
        # The start redirects.
        if kind(page.url) == kind(address):
            yield address
    assert not dead, "links lead nowhere:\n" + "\n".join(dead)


def menu(page: Page) -> list[str]:
    """The addresses in the menu."""
    links = page.locator("nav.menu a").all()
    return [link.get_attribute("href") or "" for link in links]


def kind(address: str) -> tuple[str, ...]:
    """The kind of a page: its path without numbers, and the names in its query."""
    parts = urlsplit(address)
    return (re.sub(r"\d+", "N", parts.path.rstrip("/")), *sorted(parse_qs(parts.query)))


def name_of(address: str) -> str:
    """The name of its picture."""
    return re.sub(r"[^a-z0-9]+", "-", kind(address)[0].lower()).strip("-")


def _links(page: Page) -> list[str]:
    """The addresses below ``START`` that this page links to."""
    found: list[str] = undisturbed(page, lambda: page.evaluate(_TARGETS))
    here = urlsplit(page.url)
    addresses = [urlsplit(urljoin(page.url, link)) for link in found]
    return [
        one._replace(scheme="", netloc="", fragment="").geturl()
        for one in addresses
        if one.netloc == here.netloc and (one.path == START or one.path.startswith(f"{START}/"))
    ]
