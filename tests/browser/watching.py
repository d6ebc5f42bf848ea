"""A browser window, and a watch over errors that its user would not see."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    Response,
    WebError,
)

from tests.browser.chromium import TIMEOUT
from tests.browser.waiting import undisturbed

#: Not UTC: a time that is not converted to the reader's time zone is noticed.
ZONE = "Asia/Kolkata"
_REFUSED = "Failed to load resource: the server responded with a status of {}"
# The request was canceled: the page was left, or the answer is a download.
_LEFT = "net::ERR_ABORTED"


class Watch:
    """Collects what a browser must not do, as ``complaints`` in order."""

    def __init__(self, context: BrowserContext, host: str) -> None:
        self._context = context
        self._host = host
        self._complaints: list[str] = []
        self._expected: set[int] = set()
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("request", self._on_request)
        context.on("requestfailed", self._on_failed)
        context.on("response", self._on_response)
        context.on("dialog", self._on_dialog)

    def expect(self, *statuses: int) -> None:
        """Expect answers with these statuses; Chromium writes a line about each to the console."""
        self._expected.update(statuses)

    @property
    def complaints(self) -> list[str]:
        """The complaints so far."""
        for page in self._context.pages:
            # The events before the answer to this have arrived when it has.
            undisturbed(page, partial(page.evaluate, "0"))
        return self._complaints

    def _complain(self, what: str) -> None:
        self._complaints.append(what)

    def _on_console(self, message: ConsoleMessage) -> None:
        is_expected = any(message.text.startswith(_REFUSED.format(status)) for status in self._expected)
        if message.type in ("error", "warning") and not is_expected:
            where = f"{message.location['url']}:{message.location['lineNumber']}"
            self._complain(f"console {message.type}: {message.text} ({where})")

    def _on_error(self, error: WebError) -> None:
        self._complain(f"uncaught error: {error.error}")

    def _on_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.netloc != self._host:
            self._complain(f"request to another host: {request.method} {request.url}")

    def _on_failed(self, request: Request) -> None:
        if request.failure != _LEFT:
            self._complain(f"request failed: {request.method} {request.url}: {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 500 and response.status not in self._expected:
            self._complain(f"status {response.status}: {response.request.method} {response.url}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self._complain(f"dialog: {dialog.type} {dialog.message!r}")
        dialog.dismiss()


class Visitor:
    """A user with a new browser: its ``page``, and the ``watch`` over it."""

    def __init__(self, context: BrowserContext, base_url: str) -> None:
        self.watch = Watch(context, urlsplit(base_url).netloc)
        self.context = context
        self.page: Page = context.new_page()


@contextmanager
def a_visitor(
    browser: Browser, base_url: str, *, has_scripts: bool = True, locale: str = "en-US"
) -> Iterator[Visitor]:
    """Open a browser at this server, with scripts or without, in a language. Fails at the end on a complaint:
    an error or a warning on the console, an uncaught error, a failed request, a status of 500 or more, a
    request to any other host, or a dialog.
    """
    context = browser.new_context(
        base_url=base_url,
        java_script_enabled=has_scripts,
        locale=locale,
        timezone_id=ZONE,
        reduced_motion="reduce",
        viewport={"width": 1280, "height": 800},
    )
    context.set_default_timeout(TIMEOUT)
    try:
        visitor = Visitor(context, base_url)
        yield visitor
        complaints = visitor.watch.complaints
        assert not complaints, "the browser complains:\n" + "\n".join(complaints)
    finally:
        context.close()
