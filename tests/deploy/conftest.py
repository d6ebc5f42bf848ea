"""Each proxy of deploy/ in front of one Keywright server, for as long as the tests run."""

from collections.abc import Iterator

import pytest

from tests.deploy.proxies import KINDS, Certificate, Proxy, SecureClient, running_proxy
from tests.server import NO_LIMITS, RunningServer, running


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="session")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The server behind the proxies; it believes them."""
    data_dir = tmp_path_factory.mktemp("behind") / "data"
    with running(data_dir, trusted_proxies="127.0.0.1", **NO_LIMITS) as server:
        yield server
    server.assert_consistent()


@pytest.fixture(scope="session", params=KINDS)
def proxy(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    certificate: Certificate,
    behind: RunningServer,
) -> Iterator[Proxy]:
    """Each of the proxies in turn. It knows two instances, so that it could shut one out."""
    kind: str = request.param
    ports = (behind.port, behind.port)
    with running_proxy(kind, tmp_path_factory.mktemp(kind), certificate, *ports) as started:
        yield started


@pytest.fixture(scope="session")
def credentials(behind: RunningServer) -> tuple[str, str]:
    return behind.api_key()


@pytest.fixture
def vendor(proxy: Proxy, credentials: tuple[str, str]) -> Iterator[SecureClient]:
    """Who sells licenses, through the proxy."""
    with SecureClient(proxy, credentials) as client:
        yield client


@pytest.fixture
def program(proxy: Proxy) -> Iterator[SecureClient]:
    """A shipped program, through the proxy."""
    with SecureClient(proxy) as client:
        yield client
