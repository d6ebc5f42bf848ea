"""Every client library in bad networks: with bad certificates, and with names that are never resolved."""

import os
import shutil
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from keywright_client import Keywright, _http
from tests.clients.certificates import Authority
from tests.clients.library import LIBRARIES, Call, Library, build
from tests.clients.signing_server import KEY, LICENSE_KEY, signing_server
from tests.deploy.programs import give_up, program
from tests.proving import record

pytestmark = pytest.mark.tier("rest")

DATABASES = ("sqlite",)
#: A deadline, and how much later a loaded machine may find that the call has returned, in seconds. With these
#: options, the system looks longer for a name.
DEADLINE, SLACK = 1.0, 60.0
OPTIONS = "nameserver 127.0.0.9\noptions timeout:30 attempts:5\n"
#: Runs a command where there is only this machine, and a name server that never answers.
ALONE = """
import os, socket, sys
silent = [socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)]
for one in silent:
    one.bind(("127.0.0.9", 53))
    one.set_inheritable(True)
silent[1].listen()
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="module", params=LIBRARIES)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return build(request.param, tmp_path_factory.mktemp("library"), KEY.x)


def test_only_a_server_with_a_good_certificate_is_asked(library: Library, tmp_path: Path) -> None:
    trusted, other = Authority("Trusted by this machine"), Authority("Another one")
    elsewhere = [x509.DNSName("licenses.example.com")]
    certificates = {
        "good": trusted.certify(tmp_path),
        "of another authority": other.certify(tmp_path),
        "expired": trusted.certify(tmp_path, days=(-9, -1)),
        "not yet valid": trusted.certify(tmp_path, days=(1, 9)),
        "for another host": trusted.certify(tmp_path, names=elsewhere),
    }
    with ExitStack() as stack:
        servers = {name: stack.enter_context(signing_server(time.time)) for name in certificates}
        for name, server in servers.items():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates[name])
            server.socket = context.wrap_socket(server.socket, server_side=True)
        ca_file = str(trusted.write(tmp_path / "trusted.pem"))
        calls = [
            Call(
                "activate",
                f"https://localhost:{one.server_port}",
                library.file(tmp_path / name),
                ca_file=ca_file,
            )
            for name, one in servers.items()
        ]
        made = library.run(*calls, environ=trust(ca_file, tmp_path / "home"))
    told = dict(zip(servers, made, strict=True))
    asked = [name for name, one in servers.items() if one.requests]
    assert (asked, [name for name, one in told.items() if one.valid]) == (["good"], ["good"]), told


def trust(ca_file: str, home: Path) -> dict[str, str]:
    """The variables by which a library trusts this authority alone, as its language wants it."""
    hashed = subprocess.run(
        [program("openssl"), "x509", "-hash", "-noout", "-in", ca_file],
        capture_output=True,
        text=True,
        check=True,
    )
    mono = home / ".mono" / "new-certs" / "Trust"
    mono.mkdir(parents=True)
    shutil.copy(ca_file, mono / f"{hashed.stdout.strip()}.0")
    return {"NODE_EXTRA_CA_CERTS": ca_file, "SSL_CERT_FILE": ca_file, "XDG_CONFIG_HOME": str(home)}


# PHP's own look-up of names has no deadline: its README says so.
@pytest.mark.parametrize("library", [one for one in LIBRARIES if "php" not in str(one)], indirect=True)
def test_a_name_server_that_never_answers_holds_no_library_up(library: Library, tmp_path: Path) -> None:
    resolv = tmp_path / "resolv.conf"
    resolv.write_text(OPTIONS)
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = 'ip link set lo up && mount --bind "$0" /etc/resolv.conf && exec "$@"'
    alone = [program("unshare"), *user, "--mount", "--net", "sh", "-c", script, str(resolv)]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        give_up("unshare", "no network of its own can be made on this machine")
    lonely = library._replace(command=(*alone, sys.executable, "-c", ALONE, *library.command))
    calls = [
        Call(call, "https://licenses.example.com", library.file(tmp_path / call), LICENSE_KEY)
        for call in ("activate", "check")
    ]
    first, second = library.file(tmp_path / "activate"), library.file(tmp_path / "check")
    with signing_server(time.time) as server:
        server.next_check_seconds = -1
        (made,) = library.run(Call("activate", server.url, second))
    assert made.valid, made
    activated, checked = lonely.run(*calls, timeout=DEADLINE)
    over = max(activated.seconds, checked.seconds) - DEADLINE
    record("R29", library.language, {"calls": 2}, {"seconds beyond the deadline": over})
    assert (activated.valid, checked.state) == (False, "unreachable_but_valid_until"), (activated, first)
    assert over < SLACK


def test_a_frozen_program_believes_the_certificates_of_its_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its OpenSSL looks where they were on the computer on which it was built."""
    authority = Authority("Trusted by this machine")
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "on-the-other-computer"))
    with signing_server(time.time) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.certify(tmp_path))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        options: dict[str, Any] = {"product": "editor", "public_keys": [KEY.x], "folder": tmp_path}
        keywright = Keywright(f"https://localhost:{server.server_port}", **options)
        system = [str(tmp_path / "missing.pem"), str(authority.write(tmp_path / "system.pem"))]
        for found, is_valid in ((system[:1], False), (system, True)):
            monkeypatch.setattr(_http, "_CA_FILES", found)
            status = keywright.activate(LICENSE_KEY)
            assert status.valid is is_valid, status
            assert is_valid or status.detail == "The license server cannot be reached."
