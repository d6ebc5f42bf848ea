"""Unseal license keys of *License Manager for WooCommerce*: messages of defuse/php-encryption, version 2.

A message consists of a header, a salt, an IV, the text in AES-256-CTR, and the HMAC-SHA-256 of everything
before it; both keys are derived from the file's key and the salt (HKDF-SHA-256, RFC 5869). See
https://github.com/defuse/php-encryption/blob/master/docs/CryptoDetails.md
"""

import hashlib
import hmac

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from keywright.core.errors import SourceUnusable

_KEY_HEADER, _MESSAGE_HEADER = bytes.fromhex("def00000"), bytes.fromhex("def50200")
_KEY_BYTES, _SALT_BYTES, _IV_BYTES, _MAC_BYTES = 32, 32, 16, 32
_BODY_AT = len(_MESSAGE_HEADER) + _SALT_BYTES + _IV_BYTES
_ENCRYPTION, _AUTHENTICATION = b"DefusePHP|V2|KeyForEncryption", b"DefusePHP|V2|KeyForAuthentication"
_WHERE = "It is in wp-content/uploads/{plugin}-files/ of the shop, or in wp-config.php as {constant}."


class Secrets:
    """The plugin's two secrets: one unseals license keys, the other hashes them for lookups."""

    def __init__(self, defuse: str, secret: str, plugin: str = "lmfwc") -> None:
        """Parse the contents of ``defuse.txt`` and ``secret.txt``. Raises ``SourceUnusable``."""
        self._key = _parse_key(defuse, plugin)
        self._secret = secret.strip().encode()
        if not self._secret:
            raise SourceUnusable(f"secret.txt is empty. {_where(plugin, 'SECRET')}")

    def unseal(self, sealed: str) -> str:
        """Return the license key in a hexadecimal message. Raises ``ValueError`` if it is sealed with another
        key, or damaged.
        """
        message = bytes.fromhex(sealed)
        if not message.startswith(_MESSAGE_HEADER) or len(message) < _BODY_AT + _MAC_BYTES:
            raise ValueError("not a message of defuse/php-encryption")
        salt, iv = message[4 : 4 + _SALT_BYTES], message[4 + _SALT_BYTES : _BODY_AT]
        extracted = hmac.digest(salt, self._key, "sha256")
        mac = hmac.digest(_expand(extracted, _AUTHENTICATION), message[:-_MAC_BYTES], "sha256")
        if not hmac.compare_digest(mac, message[-_MAC_BYTES:]):
            raise ValueError("encrypted with another key, or damaged")
        decryptor = Cipher(AES(_expand(extracted, _ENCRYPTION)), CTR(iv)).decryptor()
        return (decryptor.update(message[_BODY_AT:-_MAC_BYTES]) + decryptor.finalize()).decode()

    def hash(self, key: str) -> str:
        """Return the hash by which the plugin looks up this license key."""
        return hmac.digest(self._secret, key.encode(), "sha256").hex()


def _where(plugin: str, name: str) -> str:
    return _WHERE.format(plugin=plugin, constant=f"{plugin.upper()}_PLUGIN_{name}")


def _parse_key(text: str, plugin: str) -> bytes:
    where = _where(plugin, "DEFUSE")
    try:
        data = bytes.fromhex(text.strip())
    except ValueError:
        data = b""
    key, checksum = data[: -hashlib.sha256().digest_size], data[-hashlib.sha256().digest_size :]
    if len(key) != len(_KEY_HEADER) + _KEY_BYTES or not key.startswith(_KEY_HEADER):
        raise SourceUnusable(
            f"defuse.txt is not the plugin's key file, which has 136 hexadecimal digits. {where}"
        )
    if hashlib.sha256(key).digest() != checksum:
        raise SourceUnusable(f"defuse.txt is damaged: its checksum is wrong. {where}")
    return key[len(_KEY_HEADER) :]


def _expand(extracted: bytes, purpose: bytes) -> bytes:
    """HKDF's second step, for one block."""
    return hmac.digest(extracted, purpose + b"\x01", "sha256")
