"""A server with three users, and browsers that open its pages."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from keywright.cli.demo import fill
from tests.browser.axe import Axe
from tests.browser.camera import Camera
from tests.browser.chromium import a_browser
from tests.browser.connected import fill_connected
from tests.browser.watching import Visitor, a_visitor
from tests.http import admin_browser
from tests.http.admin_browser import make_users, opened
from tests.server import MAIL_WAITS, RunningServer, running

#: The folder for the pictures of the pages; without it, none are taken, which takes half as long.
PICTURES = "TESTS_PICTURES"


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One for all tests of this process."""
    with a_browser() as started:
        yield started


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all processes of the test run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def axe(shared_folder: Path) -> Axe:
    return Axe(shared_folder)


@pytest.fixture
def camera() -> Camera:
    folder = os.environ.get(PICTURES)
    return Camera(Path(folder).absolute() if folder else None)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with ada, bob and carol, and nothing else."""
    with running(tmp_path_factory.mktemp("browser") / "data", **MAIL_WAITS) as started:
        make_users(started)
        yield started
    started.assert_consistent()


@pytest.fixture(scope="module")
def busy_server(server: RunningServer) -> RunningServer:
    """The same server with weeks of demo data, shops, webhooks and mails."""
    # Some steps of the demo data do not wait for a server that is writing.
    server.stop()
    with opened(server) as storage:
        fill(storage, datetime.now(UTC).replace(microsecond=0), licenses=120, days=40)
        fill_connected(storage)
    server.start(server.port)
    return server


@pytest.fixture
def visitor(browser: Browser, server: RunningServer) -> Iterator[Visitor]:
    """A browser that is not signed in."""
    with a_visitor(browser, server.base_url) as visitor:
        yield visitor


@pytest.fixture
def page(visitor: Visitor) -> Page:
    """The page of ``visitor``."""
    return visitor.page


@pytest.fixture
def signed_in(browser: Browser, server: RunningServer) -> Iterator[Callable[..., Visitor]]:
    """Open another browser, signed in as a user, without the form: that takes a browser a second. Other
    arguments are those of ``a_visitor``.
    """
    with ExitStack() as stack:

        def open_as(name: str, **how: Any) -> Visitor:
            visitor = stack.enter_context(a_visitor(browser, server.base_url, **how))
            with admin_browser.Visitor(server) as there:
                token = there.sign_in(name).token
            visitor.context.add_cookies(
                [{"name": "keywright", "value": token, "domain": "127.0.0.1", "path": "/admin"}]
            )
            return visitor

        yield open_as
