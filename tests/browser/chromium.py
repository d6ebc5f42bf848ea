"""Debian's Chromium, driven by Playwright; nothing is downloaded."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, expect, sync_playwright

from tests.deploy.programs import give_up

#: In milliseconds: a busy machine is no reason to fail.
TIMEOUT = 60_000.0
#: The first is the same browser without a window of its own, which takes half the processor time.
_PROGRAMS = ("chromium-headless-shell", "chromium")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No other host can be reached.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Chromium with a new profile, for as long as the block runs."""
    path = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if path is None:
        give_up("chromium", "no Chromium here: apt install chromium-headless-shell")
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS, timeout=2 * TIMEOUT)
        try:
            yield browser
        finally:
            browser.close()
