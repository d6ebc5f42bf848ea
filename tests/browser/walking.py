"""From link to link, as far as they lead."""

import re
from collections import Counter, deque
from collections.abc import Iterator
from urllib.parse import parse_qs, urljoin, urlsplit

from playwright.sync_api import Page

#: Where the pages begin.
START = "/admin"


def walk(page: Page, start: str = START, *, alike: int = 1) -> Iterator[str]:
    """The address of every page that links lead to, at most so many that are alike; each is open when it is
    given out.

    Fails at the end if a link led to anything but a page: whoever is shown a link may follow it.
    """
    waiting, known, met, dead = deque([start]), Counter([kind(start)]), {start}, list[str]()
    while waiting:
        address = waiting.popleft()
        answer = page.goto(address)
        if answer is None or answer.status != 200:
            dead.append(f"{address} answers {answer and answer.status}")
            continue
        for link in _links(page):
            if link not in met and known[kind(link)] < alike:
                known[kind(link)] += 1
                met.add(link)
                waiting.append(link)
        # The start sends everybody on.
        if kind(page.url) == kind(address):
            yield address
    assert not dead, "links lead nowhere:\n" + "\n".join(dead)


def menu(page: Page) -> list[str]:
    """Where the entries of the menu lead."""
    links = page.get_by_role("navigation", name="Main menu").get_by_role("link").all()
    return [link.get_attribute("href") or "" for link in links]


def kind(address: str) -> tuple[str, ...]:
    """What pages that differ in their contents only have in common: the path without numbers, and the names
    of what stands behind the ``?``.
    """
    parts = urlsplit(address)
    return (re.sub(r"\d+", "N", parts.path.rstrip("/")), *sorted(parse_qs(parts.query)))


def name_of(address: str) -> str:
    """What its picture is called."""
    return re.sub(r"[^a-z0-9]+", "-", kind(address)[0].lower()).strip("-")


def _links(page: Page) -> list[str]:
    """Where the links of this page lead, below ``START``."""
    found: list[str] = page.eval_on_selector_all(
        "a[href]:not([download])", "links => links.map((one) => one.getAttribute('href'))"
    )
    here = urlsplit(page.url)
    addresses = [urlsplit(urljoin(page.url, link)) for link in found]
    return [
        one._replace(scheme="", netloc="", fragment="").geturl()
        for one in addresses
        if one.netloc == here.netloc and (one.path == START or one.path.startswith(f"{START}/"))
    ]
