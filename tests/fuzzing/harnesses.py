"""A harness for every parser of bytes from outside: it takes any bytes, and fails when the parser does not
keep its promise. The seeds are good inputs, and those that were bad once.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.fuzzing import of_backups, of_connections, of_fields, of_requests, of_settings, of_signed_answers
from tests.fuzzing.pieces import joined


class Harness(NamedTuple):
    """``runs`` is how many inputs the long form tries."""

    check: Callable[[bytes], None]
    runs: int
    seeds: tuple[bytes, ...]

    @property
    def name(self) -> str:
        return self.check.__name__


_V2 = "/wp-json/lmfwc/v2"
_FORM = "Content-Type: application/x-www-form-urlencoded"
_HEAD = f"{_V2}/licenses HTTP/1.1\r\nHost: x\r\nAuthorization: {{shop}}\r\n"

ALL = (
    Harness(of_fields.integers, 60_000, (b"7", b'"007"', b"9223372036854775807", b"1e3", b"null", b"true")),
    Harness(of_fields.statuses, 60_000, (b"active", b'" Sold "', b"5", b'"6"', "ſold".encode(), b"null")),
    Harness(
        of_fields.moments,
        90_000,
        (
            b"2026-02-03 04:05:06",
            b"2028-02-29",
            b"2026-02-03T04:05:06.999Z",
            b"2026-02-03T04:05,5-0230",
            b"0001-01-01T00:00:00+23:59",
            b"9999-12-31T23:59:59-23:59",
        ),
    ),
    Harness(
        of_fields.texts,
        60_000,
        (
            b"laptop",
            b'{"os": "linux", "n": ""}',
            b'"{\\"a\\": \\"b\\"}"',
            b"12",
            b'"\\u0000"',
            b'{"a": ["b"]}',
        ),
    ),
    Harness(
        of_fields.license_keys,
        60_000,
        (b" KEY-1\t", "ключ/🔑".encode(), b"\xff", b"a\x00b", b"x" * 256, "\u2028x\u00a0".encode()),
    ),
    Harness(of_fields.sealed_keys, 20_000, (b"", bytes(28), bytes(100))),
    Harness(
        of_fields.recipes,
        60_000,
        (
            b'{"name": "g", "charset": "ABC", "chunks": 4, "chunk_length": 6, "separator": "-"}',
            b'{"charset": "A ", "chunks": "1", "chunk_length": 255, "prefix": "\\u00a0", "suffix": "\\n"}',
            b'{"times_activated_max": 0, "expires_in": "30", "prefix": "x", "chunks": 2147483647}',
        ),
    ),
    Harness(
        of_fields.changes,
        60_000,
        (
            b'{"license_key": " A ", "status": "sold", "expires_at": "2030-01-01", "valid_for": 3}',
            b'{"order_id": "1", "product_id": null, "times_activated_max": 0, "token": "", "amount": 5}',
            b'{"amount": 10001, "user_id": [], "token": {}}',
        ),
    ),
    Harness(
        of_fields.command_options, 60_000, (b"KEY-1", b"none", b"disabled", b"2030-12-31", b"5", b"\xff\x00")
    ),
    Harness(
        of_requests.paths,
        90_000,
        (
            b"licenses/activate/KEY%2F1",
            b"licenses/a%ffb",
            b"/lmfwc/v2/generators/7/generate",
            b"%2Flmfwc%2Fv2%2Flicenses%2Fvalidate%2Fa+b",
            b"licenses/%",
        ),
    ),
    Harness(
        of_requests.queries,
        90_000,
        (
            b"page=2&per_page=100&status=active&order_id=7",
            b"meta[os]=linux&meta[a]=b&meta=x&label=%C3%A9",
            b"consumer_key=ck_1&consumer_secret=cs_1&consumer%5Fkey=ck_2",
            b"=&&a=%ff&page=0",
        ),
    ),
    Harness(
        of_requests.credentials,
        60_000,
        (
            joined("", "Basic Y2tfMTpjc18x"),
            joined("consumer_key=ck_1&consumer_secret=cs_1", "basic Og=="),
            joined("consumer_key=ck_1", "Bearer x", "Basic Y2tf"),
        ),
    ),
    Harness(
        of_requests.client_addresses,
        60_000,
        (
            joined("10.0.0.1", "203.0.113.9, 10.1.2.3"),
            joined("::ffff:127.0.0.1", "::ffff:203.0.113.9", "fd00::1%eth0"),
            joined("203.0.113.1", "1.1.1.1"),
            joined("", ",unknown"),
        ),
    ),
    Harness(of_requests.idempotency_keys, 20_000, (b"one", b"x" * 256, b"a b", b"\xff", b"")),
    Harness(
        of_requests.bodies,
        90_000,
        (
            joined("application/json", "", "3", '{"label": "x", "meta": {"a": "b"}}'),
            joined("application/x-www-form-urlencoded", "", "1", "label=x&meta[a]=b"),
            joined(
                "multipart/form-data; boundary=b",
                "identity",
                "9",
                '--b\r\nContent-Disposition: form-data; name="label"\r\n\r\nx\r\n--b--\r\n',
            ),
            joined("application/ld+json; charset=utf-16", "gzip", "", "{}"),
            joined("application/json", "", "", "[" * 40),
        ),
    ),
    Harness(
        of_settings.settings_files,
        30_000,
        (
            b'port = 8080\nhost = "::1"\nnamespace = "shop"\ntrusted_proxies = ["10.0.0.0/8", "::1"]\n',
            b'database_url = "postgresql://kw:secret@db/keywright?sslmode=require"\nworkers = "4"\n',
            b'allowed_origins = "https://shop.example"\nlog_level = "DEBUG"\nrequire_api_key = true\n',
            b'secret = "a secret of thirty-two characters"\nprot = 1\n',
        ),
    ),
    Harness(
        of_settings.database_urls,
        60_000,
        (
            b"postgresql://kw:pass%40word@one,two:5433/keywright?target_session_attrs=read-write",
            b"postgresql://db/keywright?user=kw&password=secret",
            b"sqlite:////srv/key%20wright.db",
            b"sqlite:///relative.db",
            b"postgres://[::1]:5432/x",
            b"postgresql://kw:Secret@[::1/keywright",
            b"postgresql://kw:\xff@db/keywright",
            b"postgresql://db/keywright?pass%77ord=secret",
            b"sqlite:///a\0b.db",
        ),
    ),
    Harness(
        of_settings.secret_files, 20_000, (b"0123456789abcdef" * 4 + b"\n", b"short\n", b"\xff" * 40, b"")
    ),
    Harness(of_backups.backups, 60_000, of_backups.SEEDS),
    Harness(
        of_connections.requests,
        30_000,
        (
            joined("GET licenses/activate/KEY-1?label=laptop"),
            joined(
                "POST licenses/activate/KEY-1", "Content-Type: application/json", "", '{"token": "{gone}"}'
            ),
            joined("GET licenses/deactivate/KEY-1?token={taken}", "Idempotency-Key: 1\nX-Forwarded-For: ::1"),
            joined("GET licenses/validate/KEY-2", "Authorization: {client}\nOrigin: https://shop.example"),
            joined("GET licenses?page=1&per_page=2&status=active", "Authorization: {shop}"),
            joined("GET licenses", "Authorization: {shop}"),
            joined(
                "PUT licenses/KEY-3", "Authorization: {shop}", "half", '{"status": "active", "valid_for": 3}'
            ),
            joined("POST licenses", "Authorization: {shop}", "gone", '{"license_key": "NEW"}'),
            joined("DELETE licenses/KEY%2D1", "Authorization: {shop}"),
            joined("POST generators/1/generate?amount=3", "Authorization: {shop}"),
            joined("PATCH generators/1", "Authorization: {shop}", "", '{"charset": "AB", "chunks": 9}'),
            joined("GET /?rest_route=/lmfwc/v2/licenses/validate/KEY-1"),
            joined("GET /openapi/v2", "Host: keywright.example:8000"),
            joined("OPTIONS licenses", "Origin: https://shop.example"),
            joined("HEAD licenses", "Authorization: {shop}"),
        ),
    ),
    Harness(
        of_connections.plugin_calls,
        60_000,
        (
            joined(
                "GET /edd?edd_action=activate_license&license=KEY-1&url=https%253A%252F%252Fa.example%252F"
            ),
            joined("POST /edd", _FORM, "edd_action=check_license&license=KEY-3&item_id=1&url=a.test"),
            joined("POST /edd-sl-api/", _FORM, "edd_action=deactivate_license&license=KEY-1&item_name=Paint"),
            joined(
                "POST /edd", _FORM, "edd_action=get_version&license=KEY-2&item_id=false&version=1.0&beta=1"
            ),
            joined(
                "POST /edd", _FORM, "edd_action=get_version&products[a][license]=KEY-1&products[b][url]=b"
            ),
            joined(
                "POST /edd",
                "Content-Type: multipart/form-data; boundary=b",
                '--b\r\nContent-Disposition: form-data; name="edd_action"\r\n\r\nget_version\r\n--b--\r\n',
            ),
            joined(
                "GET /edd?edd_action=check_license&license=KEY-1&item_name=%7B%22a%22%3A%5B1%5D%7D",
                "User-Agent: WordPress/6.8.1; https://xn--mnchen-3ya.example:8080/wp/",
            ),
            joined("GET /edd-sl/package_download/MTc5OktFWS0xOjE6MDpodHRwc0AvL2EuZXhhbXBsZTow"),
            joined("GET /u/open/paint/wordpress.json?installed_version=1.0&php=8.2.7&locale=en_US"),
            joined("GET /u/open/paint/tauri/darwin/aarch64/1.0.0"),
            joined("GET /u/open/paint/channel/beta/latest.yml?noCache=1"),
            joined("GET /u/upd_wrong/paint/RELEASES?id=x&localVersion=1"),
        ),
    ),
    Harness(
        of_connections.connections,
        30_000,
        (
            joined(f"GET {_V2}/licenses/activate/KEY-1 HT", "TP/1.1\r\nHost: x\r\n", "\r\n"),
            f"GET {_V2}/licenses/validate/KEY-1 HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 3,
            joined(
                f'POST {_HEAD}Content-Length: 22\r\n\r\n{{"license_key":', ' "NEW"}GET / HTTP/1.1\r\n\r\n'
            ),
            joined(f"POST {_HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\n", "a=b&c\r\n0\r\nX: y\r\n\r\n"),
            f"GET {_V2}/licenses/x HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nPRI".encode(),
            f"POST {_HEAD}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n".encode(),
            f"POST {_HEAD}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode(),
            b"GET / HTTP/1.0\r\n\r\nnonsense",
            b"HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00",
        ),
    ),
    Harness(of_signed_answers.signed_answers, 1_000_000, of_signed_answers.SEEDS),
)
BY_NAME = {one.name: one for one in ALL}
