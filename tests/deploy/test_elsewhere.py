"""A call for which there was no connection goes to another instance, once and just as it is."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.deploy.programs import program
from tests.deploy.proxies import KINDS, Certificate, Proxy, SecureClient
from tests.deploy.test_proxies import TARGETS
from tests.deploy.upstreams import Upstream, an_upstream
from tests.http.asking import Client, a_key
from tests.server import RunningServer, running

#: Makes a proxy of this kind before two instances: the one on this port, and one that takes no connections
#: any more. The proxy does not know that yet, and nginx never learns it.
Halved = Callable[[str, int], AbstractContextManager[Proxy]]


@pytest.fixture
def halved(tmp_path: Path, certificate: Certificate) -> Halved:
    @contextmanager
    def make(kind: str, port: int) -> Iterator[Proxy]:
        program(kind)
        with an_upstream() as gone, ExitStack() as stack:
            proxy = KINDS[kind](tmp_path, certificate, (gone.port, port))
            if kind == "nginx":
                file = tmp_path / "keywright.conf"
                file.write_text(file.read_text().replace("max_fails=1", "max_fails=0"))
            stack.callback(proxy.stop)
            proxy.start()
            gone.close()
            yield proxy

    return make


@pytest.fixture
def there() -> Iterator[Upstream]:
    with an_upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("there") / "data", trusted_proxies="127.0.0.1") as server:
        yield server


@pytest.mark.parametrize("kind", KINDS)
def test_its_address_arrives_as_it_was_sent(kind: str, halved: Halved, there: Upstream) -> None:
    with halved(kind, there.port) as proxy, SecureClient(proxy) as client:
        assert [client.get(target).status for target in TARGETS] == [200] * len(TARGETS)
    assert there.targets == TARGETS


# Caddy 2.6 loses the body of such a call, and says 503: https://github.com/caddyserver/caddy/issues/7546
@pytest.mark.parametrize("kind", ["nginx", "haproxy"])
def test_its_body_arrives_as_it_was_sent(kind: str, halved: Halved, server: RunningServer) -> None:
    with halved(kind, server.port) as proxy, SecureClient(proxy, server.api_key()) as vendor:
        for number in range(10):
            fields = {"license_key": a_key(), "order_id": number}
            made = vendor.post("licenses", json_body=fields).data
            assert (made["licenseKey"], made["orderId"]) == tuple(fields.values())


@pytest.mark.parametrize("kind", KINDS)
def test_its_client_is_known_there(kind: str, halved: Halved, server: RunningServer) -> None:
    with Client(server, server.api_key()) as vendor:
        key = vendor.license()
    with halved(kind, server.port) as proxy, SecureClient(proxy, address="127.0.0.2") as client:
        told = [client.activate(key).data["activationData"]["ip_address"] for _ in range(10)]
    assert told == ["127.0.0.2"] * 10
