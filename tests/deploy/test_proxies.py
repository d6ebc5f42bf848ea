"""What goes through the proxies of deploy/ to a real server, and what comes back."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from tests.deploy.proxies import KINDS, Certificate, Proxy, SecureClient, running_proxy
from tests.deploy.test_failing_upstreams import assert_problem
from tests.deploy.upstreams import Upstream, an_upstream
from tests.http.asking import V2, Reply, a_key, assert_refused, basic, core, license_path, read_reply
from tests.http.test_odd_keys import ODD

PROXY = "127.0.0.1"
ELSEWHERE = "127.0.0.2"
KIB = 1024
UPLOAD = "/admin/licenses/import"


@pytest.fixture(params=KINDS)
def noted(
    request: pytest.FixtureRequest, tmp_path: Path, certificate: Certificate
) -> Iterator[tuple[Proxy, Upstream]]:
    """Each proxy before an upstream that notes what arrives."""
    with (
        an_upstream() as upstream,
        running_proxy(request.param, tmp_path, certificate, upstream.port) as proxy,
    ):
        yield proxy, upstream


# --- the client's address -------------------------------------------------------------------------

FORGED: list[list[tuple[str, str]]] = [
    [],
    [("X-Forwarded-For", "203.0.113.9")],
    [("X-Forwarded-For", PROXY)],
    [("X-Forwarded-For", "203.0.113.9, 127.0.0.1")],
    [("X-Forwarded-For", "203.0.113.9"), ("x-forwarded-for", "198.51.100.7")],
    [("X-Forwarded-For", "")],
    [("X-Forwarded-For", "203.0.113.9,")],
    [("X_Forwarded_For", "203.0.113.9")],
    [("Forwarded", "for=203.0.113.9"), ("X-Real-IP", "203.0.113.9")],
    # Whoever believes this takes away what the proxy itself has written.
    [("Connection", "X-Forwarded-For, close")],
    [("Connection", "close, X-Forwarded-For"), ("X-Forwarded-For", "203.0.113.9")],
]


@pytest.mark.parametrize("forged", FORGED, ids=repr)
def test_the_server_sees_the_clients_address_whatever_the_client_writes(
    proxy: Proxy, vendor: SecureClient, forged: list[tuple[str, str]]
) -> None:
    key = vendor.license()
    with SecureClient(proxy, address=ELSEWHERE) as program:
        activation = program.get(core("activate", key), headers=forged).data["activationData"]
    assert activation["ip_address"] == ELSEWHERE


def test_nothing_is_said_of_other_protocols(noted: tuple[Proxy, Upstream]) -> None:
    proxy, upstream = noted
    with SecureClient(proxy) as program:
        for protocol in ("websocket", "h2c"):
            headers = {"Connection": "Upgrade", "Upgrade": protocol}
            assert program.post("/", body=b"{}", headers=headers).status == 200
    assert len(upstream.requests) == 2
    assert not [request for request in upstream.requests if b"\r\nupgrade:" in request.lower()]


# --- no answer but the server's -------------------------------------------------------------------


def test_nothing_is_cached(vendor: SecureClient, program: SecureClient) -> None:
    key = vendor.license(times_activated_max=3)
    for count in range(3):
        assert program.validate(key).data["timesActivated"] == count
        assert program.activate(key).data["timesActivated"] == count + 1
    assert program.activate(key).status == 404
    assert program.deactivate(key).data["timesActivated"] == 0
    assert program.validate(key).data["timesActivated"] == 0


def test_a_head_request_stays_one_and_activates_nothing(vendor: SecureClient, program: SecureClient) -> None:
    key = vendor.license()
    assert program.ask("HEAD", core("activate", key)).status == 405
    assert program.activate(key, headers={"Sec-Purpose": "prefetch"}).status == 403
    assert program.validate(key).data["timesActivated"] == 0


def test_a_call_that_is_sent_again_is_known_again(vendor: SecureClient, program: SecureClient) -> None:
    key = vendor.license()
    first, again = (program.activate(key, headers={"Idempotency-Key": "one"}) for _ in range(2))
    assert again.body == first.body
    assert again.header("idempotency-replayed") == "true"
    assert program.counter(key) == 1


def test_refusals_come_through_as_they_are(program: SecureClient) -> None:
    key = a_key()
    assert_refused(program.validate(key), f"License Key: {key} could not be found.")
    missing = program.get("licenses")
    assert missing.header("www-authenticate") is not None
    sentence = "Consumer key or secret is missing."
    assert_refused(missing, sentence, code="lmfwc_rest_authentication_error", status=401)


def test_a_long_list_comes_through_whole(vendor: SecureClient) -> None:
    recipe = {"name": "many", "charset": "ABCDEFGHIJ0123456789", "chunks": 5, "chunk_length": 5}
    generator = vendor.post("generators", json_body=recipe).data["id"]
    made = vendor.post(f"generators/{generator}/generate", json_body={"amount": 5000, "order_id": 77}).data
    listed = vendor.get("licenses", query={"order_id": 77}).data
    assert [one["licenseKey"] for one in listed[-5000:]] == [one["licenseKey"] for one in made]


def test_without_tls_there_is_a_way_to_tls_and_nothing_else(proxy: Proxy, vendor: SecureClient) -> None:
    path = V2 + core("activate", vendor.license(license_key=a_key("a/b")))
    connection = HTTPConnection(PROXY, proxy.plain_port, timeout=30)
    connection.request("GET", f"{path}?label=x%2Fy", headers={"Host": "localhost"})
    response = connection.getresponse()
    location = response.getheader("Location") or ""
    assert (response.status, location.startswith("https://localhost")) == (308, True)
    assert location.endswith(f"{path}?label=x%2Fy")
    connection.close()


def test_browsers_come_back_with_tls(proxy: Proxy, vendor: SecureClient, program: SecureClient) -> None:
    too_large = update(proxy, vendor, 2 * KIB * KIB)
    assert too_large.status == 413
    for reply in (program.get("/readyz"), program.get("licenses"), too_large):
        assert reply.header("strict-transport-security") == "max-age=31536000"
    with closing(HTTPConnection(PROXY, proxy.plain_port, timeout=30)) as connection:
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        assert connection.getresponse().getheader("Strict-Transport-Security") is None


# --- addresses ------------------------------------------------------------------------------------


def test_odd_keys_arrive_unchanged(vendor: SecureClient, program: SecureClient) -> None:
    for odd in ODD:
        key = a_key(odd)
        created = vendor.post("licenses", json_body={"license_key": key})
        assert created.data["licenseKey"] == key
        token = program.activated(key)
        assert program.validate(key, token).data["licenseKey"] == key
        assert vendor.put(license_path(key), json_body={"order_id": 3}).data["licenseKey"] == key
        assert program.deactivate(key, token).data["timesActivated"] == 0
        assert vendor.delete(license_path(key)).data == []


@pytest.mark.parametrize("odd", [".", "..", "/", "//", "%", "a//b", "a/../b", "?", "#"])
def test_a_key_of_dots_or_slashes_alone_arrives_unchanged(
    vendor: SecureClient, program: SecureClient, odd: str
) -> None:
    vendor.post("licenses", json_body={"license_key": odd})
    assert program.validate(odd).data["licenseKey"] == odd
    assert vendor.delete(license_path(odd)).data == []


TARGETS = [
    "/", "//", "/a//b", "/a/./b", "/a/../b", "/a/b/", "/a%2Fb", "/a%2fb", "/a%252Fb", "/a/%2E%2E/b", "/a%20b",
    "/a+b", "/a;b=c", "/a,b:c@d!$&'()*", "/%D0%BA", "/~a", "/%7Ea", "/a%5Bb%5D",
    "/?", "/?a=1&a=2&b", "/?rest_route=/lmfwc/v2/licenses/validate/a%2Fb", "/?rest_route=%2Flmfwc%2Fv2",
    "/index.php?a[]=1", "/?a;b", "/a?b=/c//d/../e", "/a?%zz", "/a?b=c%00d", "/a?b?c",
]  # fmt: skip


def test_addresses_arrive_as_they_were_sent(noted: tuple[Proxy, Upstream]) -> None:
    proxy, upstream = noted
    with SecureClient(proxy) as program:
        for target in TARGETS:
            assert program.get(target).status == 200, target
    assert upstream.targets == TARGETS


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "status"), [(8 * KIB, 404), (8 * KIB + 1, 414), (24 * KIB, 414)])
@pytest.mark.parametrize("where", ["path", "query"])
def test_the_server_itself_judges_the_length_of_an_address(
    program: SecureClient, size: int, status: int, where: str
) -> None:
    path = f"{V2}licenses/validate/x"
    filling = "x" * (size - len(path))
    reply = program.get(path + filling) if where == "path" else program.get(path, query=filling)
    assert reply.status == status
    if status == 414:
        assert_refused(reply, "The address is too long.", code="rest_uri_too_long", status=414)


@pytest.mark.parametrize("count", [1, 60])
@pytest.mark.parametrize(("size", "status"), [(31 * KIB, 404), (33 * KIB, 431)])
def test_the_server_itself_judges_the_size_of_headers(
    program: SecureClient, count: int, size: int, status: int
) -> None:
    each = size // count
    headers = [(f"X-Filling-{number:02}", "x" * (each - 20)) for number in range(count)]
    reply = program.get(core("validate", "x"), headers=headers)
    assert reply.status == status
    if status == 431:
        sentence = "The request headers are too large."
        assert_refused(reply, sentence, code="rest_headers_too_large", status=431)


@pytest.mark.parametrize(("size", "status"), [(KIB * KIB, 200), (KIB * KIB + 1, 413), (4 * KIB * KIB, 413)])
def test_a_body_may_have_as_much_as_the_server_takes(
    proxy: Proxy, vendor: SecureClient, size: int, status: int
) -> None:
    reply = update(proxy, vendor, size)
    assert reply.status == status
    if status == 413:
        assert_refused(reply, "The request body is too large.", code="rest_body_too_large", status=413)


def test_a_body_that_is_too_large_for_v3_is_a_problem(proxy: Proxy) -> None:
    assert_problem(send(proxy, "POST", "/v3/validate", "", b" " * (KIB * KIB + 1)), "body_too_large")


def update(proxy: Proxy, vendor: SecureClient, size: int) -> Reply:
    """Change a license with a body of that size."""
    body = b'{"order_id": 5' + b" " * (size - 15) + b"}"
    lines = f"Authorization: {basic(*(vendor.credentials or ('', '')))}\r\nContent-Type: application/json\r\n"
    return send(proxy, "PUT", f"{V2}{license_path(vendor.license())}", lines, body)


def send(proxy: Proxy, method: str, path: str, lines: str, body: bytes) -> Reply:
    """Send a body; what is refused before it is whole is answered nonetheless."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    with proxy.connect() as connection:
        with suppress(OSError):
            connection.sendall(head.encode() + body)
        response = HTTPResponse(connection, method=method)
        response.begin()
        return read_reply(response)


@pytest.mark.parametrize(("size", "status"), [(9 * KIB * KIB, 200), (9 * KIB * KIB + 1, 413)])
def test_a_table_on_the_pages_may_be_larger(noted: tuple[Proxy, Upstream], size: int, status: int) -> None:
    proxy, upstream = noted
    head, _ = upload(proxy, size)
    assert head.split()[1] == str(status).encode()
    assert upstream.targets == [UPLOAD] * (status == 200)


def test_a_table_without_a_session_is_refused_before_it_is_there(proxy: Proxy) -> None:
    head, sent = upload(proxy, 8 * KIB * KIB)
    assert head.split()[1] == b"303"
    assert sent < KIB * KIB


def upload(proxy: Proxy, size: int) -> tuple[bytes, int]:
    """Send a table of that size, piece by piece, until there is an answer. The answer, and the bytes sent."""
    lines = f"Host: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: {size}\r\n"
    with proxy.connect() as connection:
        connection.sendall(f"POST {UPLOAD} HTTP/1.1\r\n{lines}\r\n".encode())
        connection.settimeout(0.2)
        for sent in range(0, size, 32 * KIB):
            with suppress(TimeoutError):
                return connection.recv(64 * KIB), sent
            # Caddy passes an answer on when more of the body comes.
            connection.sendall(bytes(32 * KIB))
    raise TimeoutError


def test_what_is_much_too_large_ends_at_the_proxy_and_hurts_nobody(
    proxy: Proxy, vendor: SecureClient, program: SecureClient
) -> None:
    asks: list[Callable[[], Reply]] = [
        lambda: program.get(core("validate", "x" * 200 * KIB)),
        lambda: program.get(core("validate", "x"), headers={"X-Filling": "x" * 200 * KIB}),
        lambda: update(proxy, vendor, 20 * KIB * KIB),
    ]
    for ask in asks:
        # Some hang up before they have read it all: then there is no answer to read, either.
        with suppress(OSError):
            assert ask().status in (400, 413, 414, 431)
        for client in (program, vendor):
            client.close()
        with SecureClient(proxy) as another:
            assert another.get("/readyz").status == 200
