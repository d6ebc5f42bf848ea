"""The proxies of deploy/, really running: their files but for addresses, certificate and folders."""

import os
import random
import select
import signal
import socket
import ssl
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.deploy.programs import program
from tests.http.asking import Client
from tests.server import RunningServer, wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
_HOST = "127.0.0.1"


class Certificate:
    """A certificate for this machine, with which nothing but these tests begins anything."""

    def __init__(self, folder: Path) -> None:
        self.chain, self.key, self.both = (folder / name for name in ("chain.pem", "key.pem", "both.pem"))
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .sign(key, hashes.SHA256())
        )
        self.chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        self.both.write_bytes(self.chain.read_bytes() + self.key.read_bytes())


class Proxy(ABC):
    """A reverse proxy with the file of deploy/, in front of the upstreams on these ports."""

    def __init__(self, folder: Path, certificate: Certificate, upstreams: Sequence[int]) -> None:
        self.folder = folder
        self.certificate = certificate
        self.upstreams = upstreams
        self.port, self.plain_port = _a_port(), _a_port()
        self.log_file = folder / "proxy.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.config = self._write()

    @abstractmethod
    def _write(self) -> Path:
        """Write the file as it is used here."""

    @abstractmethod
    def check_command(self) -> list[str]:
        """The program's own check of its file."""

    @abstractmethod
    def _run_command(self) -> list[str]: ...

    @property
    def log(self) -> str:
        """All that it has written to anything that is kept."""
        files = sorted(self.folder.glob("*.log"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder)}

    def start(self) -> None:
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._run_command(), cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
        process = self._process

        def listens() -> bool:
            assert process.poll() is None, f"it ended at once:\n{self.log}"
            with socket.socket() as probe:
                return probe.connect_ex((_HOST, self.port)) == 0

        wait_until(listens, f"the proxy to listen:\n{self.log}")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(30)

    def connect(self) -> ssl.SSLSocket:
        """A connection for bytes of one's own."""
        plain = socket.create_connection((_HOST, self.port), timeout=30)
        return trusting(self.certificate).wrap_socket(plain, server_hostname="localhost")

    def _from_deploy(self, name: str, changes: Mapping[str, str]) -> str:
        """A file of deploy/ with these pieces changed; each must be there."""
        text = (DEPLOY / name).read_text(encoding="utf-8")
        for piece, instead in changes.items():
            assert piece in text, f"{piece} is no more in {name}"
            text = text.replace(piece, instead)
        return text

    def _upstream_changes(self, line: str) -> dict[str, str]:
        """``line`` names the upstream 127.0.0.1:8000; a second one stands in a comment below it."""
        first, *others = self.upstreams
        second = line.replace("8000", "8001").replace(" one ", " two ")
        changes = {line: line.replace("8000", str(first))}
        if others:
            changes[f"# {second}"] = second.replace("8001", str(others[0]))
        return changes


class Nginx(Proxy):
    """nginx with deploy/nginx.conf, included as Debian's nginx.conf includes it."""

    def _write(self) -> Path:
        names = {
            "listen 80;": f"listen {_HOST}:{self.plain_port};",
            "listen [::]:80;": f"listen unix:{self.folder}/80.sock;",
            "listen 443 ssl": f"listen {_HOST}:{self.port} ssl",
            "listen [::]:443 ssl": f"listen unix:{self.folder}/443.sock ssl",
            "/etc/ssl/keywright/fullchain.pem": str(self.certificate.chain),
            "/etc/ssl/keywright/privkey.pem": str(self.certificate.key),
            "/var/log/nginx/": f"{self.folder}/",
        }
        upstreams = self._upstream_changes("server 127.0.0.1:8000 max_fails")
        (self.folder / "keywright.conf").write_text(self._from_deploy("nginx.conf", names | upstreams))
        file = self.folder / "nginx.conf"
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "\n".join(f"    {kind}_temp_path {self.folder}/{kind};" for kind in kinds)
        file.write_text(
            f"daemon off;\nworker_processes 2;\npid {self.folder}/nginx.pid;\n"
            f"error_log {self.folder}/error.log;\nevents {{}}\n"
            f"http {{\n    access_log {self.folder}/access.log;\n    gzip on;\n{temporary}\n"
            f"    include {self.folder}/keywright.conf;\n}}\n"
        )
        return file

    def check_command(self) -> list[str]:
        return [*self._run_command(), "-t"]

    def _run_command(self) -> list[str]:
        folder = ["-p", str(self.folder), "-e", f"{self.folder}/e.log"]
        return [program("nginx"), "-c", str(self.config), *folder]


class Haproxy(Proxy):
    """HAProxy with deploy/haproxy.cfg."""

    def _write(self) -> Path:
        names = {
            "log /dev/log local0": "log stdout format raw local0",
            "stats socket /run/haproxy/admin.sock": f"stats socket {self.folder}/admin.sock",
            "bind :80\n": f"bind {_HOST}:{self.plain_port}\n",
            "bind :443 ssl": f"bind {_HOST}:{self.port} ssl",
            "/etc/haproxy/keywright.pem": str(self.certificate.both),
        }
        if os.geteuid() != 0:
            # Only root can become somebody else.
            lines = ("chroot /var/lib/haproxy", "user haproxy", "group haproxy")
            names |= {f"    {line}\n": "" for line in lines}
        upstreams = self._upstream_changes("server one 127.0.0.1:8000")
        file = self.folder / "haproxy.cfg"
        file.write_text(self._from_deploy("haproxy.cfg", names | upstreams))
        return file

    def check_command(self) -> list[str]:
        return [program("haproxy"), "-c", "-f", str(self.config)]

    def _run_command(self) -> list[str]:
        return [program("haproxy"), "-db", "-f", str(self.config)]


class Caddy(Proxy):
    """Caddy with deploy/Caddyfile, and a certificate that is given instead of fetched."""

    def _write(self) -> Path:
        tls = f"tls {self.certificate.chain} {self.certificate.key}"
        ports = (
            f"\thttp_port {self.plain_port}\n\thttps_port {self.port}\n\tadmin unix/{self.folder}/admin.sock"
        )
        names = {
            "\n{\n\tservers {": f"\n{{\n{ports}\n\tservers {{",
            "licenses.example.com {": f"localhost {{\n\tbind {_HOST}\n\t{tls}",
        }
        file = self.folder / "Caddyfile"
        file.write_text(self._from_deploy("Caddyfile", names | self._upstream_changes("to 127.0.0.1:8000")))
        return file

    def check_command(self) -> list[str]:
        return [program("caddy"), "validate", "--adapter", "caddyfile", "--config", str(self.config)]

    def _run_command(self) -> list[str]:
        return [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(self.config)]


KINDS: dict[str, type[Proxy]] = {"nginx": Nginx, "haproxy": Haproxy, "caddy": Caddy}


class SecureClient(Client):
    """A client that speaks TLS with a proxy."""

    def __init__(
        self, proxy: Proxy, credentials: tuple[str, str] | None = None, *, address: str = _HOST
    ) -> None:
        # Nothing of a server but its port is used.
        super().__init__(cast(RunningServer, proxy), credentials)
        self._proxy = proxy
        #: From where it comes: on Linux, every address of 127.0.0.0/8 is this machine's.
        self._address = address

    def _opened(self) -> HTTPConnection:
        connection = self._connection
        # Readable before anything was asked: the proxy has closed it.
        if connection is not None and connection.sock is not None:
            if not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()
        self._connection = HTTPSConnection(
            "localhost",
            self._proxy.port,
            timeout=30,
            context=trusting(self._proxy.certificate),
            source_address=(self._address, 0),
        )
        return self._connection


@contextmanager
def running_proxy(kind: str, folder: Path, certificate: Certificate, *upstreams: int) -> Iterator[Proxy]:
    """A proxy for as long as the block runs."""
    program(kind)
    proxy = KINDS[kind](folder, certificate, upstreams)
    try:
        proxy.start()
        yield proxy
    finally:
        proxy.stop()


def trusting(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate.chain))


def _a_port() -> int:
    """A free port, below those that the system gives to any program that asks for one."""
    # Not the tests' seeded draws: processes that run tests side by side would draw the same ports.
    draws = random.SystemRandom()
    while True:
        port = draws.randint(10_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            if probe.connect_ex((_HOST, port)) != 0:
                probe.bind((_HOST, port))
                return port
