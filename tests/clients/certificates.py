"""Certificates of servers, good and bad, and the authority that has signed them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

#: Not by its address: Mono compares names alone.
HERE: Sequence[x509.GeneralName] = [x509.DNSName("localhost")]
_PEM = serialization.Encoding.PEM


class Authority:
    """A certificate authority, or a certificate that signs itself."""

    def __init__(self, name: str) -> None:
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(
            self.name, self.key, (-1, 1), x509.BasicConstraints(ca=True, path_length=None)
        )

    def write(self, path: Path) -> Path:
        """Its own certificate."""
        path.write_bytes(self.certificate.public_bytes(_PEM))
        return path

    def certify(
        self, folder: Path, days: tuple[int, int] = (-1, 1), names: Sequence[x509.GeneralName] = HERE
    ) -> Path:
        """The file of a server's certificate and its key; ``days`` are from and until when, from now on."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A server")])
        certificate = self._sign(name, key, days, x509.SubjectAlternativeName(names))
        plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path = folder / f"{certificate.serial_number}.pem"
        path.write_bytes(key.private_bytes(_PEM, *plain) + certificate.public_bytes(_PEM))
        return path

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        days: tuple[int, int],
        extension: x509.ExtensionType,
    ) -> x509.Certificate:
        now, serial = datetime.now(UTC), x509.random_serial_number()
        builder = x509.CertificateBuilder(self.name, name, key.public_key(), serial)
        builder = builder.not_valid_before(now + timedelta(days[0])).not_valid_after(now + timedelta(days[1]))
        return builder.add_extension(extension, critical=False).sign(self.key, hashes.SHA256())
