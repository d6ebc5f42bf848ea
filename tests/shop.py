"""A shop with *License Manager for WooCommerce*: a real dump of one, and dumps that tests make."""

import hmac
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from keywright_converter import defuse
from keywright_converter.defuse import Secrets

#: A dump of a real shop, its secrets, and what its plugin answered.
REAL = Path(__file__).parent / "data" / "lmfwc"
DUMP, EXPECTED = REAL / "dump.sql", REAL / "expected.json"
DEFUSE, SECRET = REAL / "defuse.txt", REAL / "secret.txt"
SECRETS = Secrets(DEFUSE.read_text(), SECRET.read_text())
_COLUMNS = {
    "lmfwc_licenses": (
        "id order_id product_id user_id license_key hash expires_at valid_for source status times_activated "
        "times_activated_max created_at created_by updated_at updated_by"
    ),
    "lmfwc_activations": (
        "id token license_id label source ip_address user_agent meta_data created_at updated_at "
        "deactivated_at"
    ),
    "lmfwc_licenses_meta": "meta_id license_id meta_key meta_value",
    "lmfwc_generators": "id name charset chunks chunk_length times_activated_max separator prefix suffix",
    "lmfwc_api_keys": "id user_id description permissions consumer_key consumer_secret truncated_key",
    "dlm_licenses": (
        "id order_id product_id user_id license_key hash valid_for expires_at source status "
        "activations_limit created_at created_by updated_at updated_by"
    ),
    "posts": "ID post_title post_type",
    "users": "ID user_login display_name",
    "wc_customer_lookup": "customer_id user_id first_name last_name",
}

_COLUMNS["dlm_license_activations"] = _COLUMNS["lmfwc_activations"]

Value = str | int | None


def seal(key: str) -> str:
    """A license key as the plugin seals it."""
    salt, iv = os.urandom(32), os.urandom(16)
    extracted = hmac.digest(salt, SECRETS._key, "sha256")
    encryptor = Cipher(AES(defuse._expand(extracted, defuse._ENCRYPTION)), CTR(iv)).encryptor()
    message = defuse._MESSAGE_HEADER + salt + iv + encryptor.update(key.encode()) + encryptor.finalize()
    mac = hmac.digest(defuse._expand(extracted, defuse._AUTHENTICATION), message, "sha256")
    return (message + mac).hex()


def a_row(number: int, key: str, **fields: Value) -> dict[str, Any]:
    """A row of the table of licenses."""
    sealed = {"license_key": seal(key), "hash": SECRETS.hash(key)}
    defaults: dict[str, Any] = {"source": "3", "status": 3, "created_at": "2026-01-02 03:04:05"}
    return {"id": number} | sealed | defaults | fields


def an_activation_row(number: int, license_id: int, **fields: Value) -> dict[str, Any]:
    """A row of the table of activations, with a token of its own."""
    defaults: dict[str, Any] = {
        "source": "2",
        "ip_address": "192.0.2.1",
        "user_agent": "",
        "created_at": "2026-01-02 03:04:05",
    }
    return {"id": number, "token": f"{number:040x}", "license_id": license_id} | defaults | fields


_ESCAPES = str.maketrans(
    {"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\0", "\x1a": "\\Z"}
)


def quote(value: Value) -> str:
    """A value as mysqldump writes it."""
    if value is None or isinstance(value, int):
        return "NULL" if value is None else str(value)
    return "'" + value.translate(_ESCAPES) + "'"


def columns_of(table: str) -> list[str]:
    """The columns of a table."""
    return _COLUMNS[table].split()


def write_dump(path: Path, *, prefix: str = "wp_", **tables: Sequence[Mapping[str, Any]]) -> Path:
    """Write a dump of tables: ``licenses``, ``activations`` …, each with its rows."""
    lines = ["-- MySQL dump 10.13"]
    for short, rows in tables.items():
        table = short if short in _COLUMNS else f"lmfwc_{short}"
        columns = columns_of(table)
        lines.append(
            f"CREATE TABLE `{prefix}{table}` (\n" + ",\n".join(f"  `{one}` text" for one in columns) + ");"
        )
        values = (",".join(quote(row.get(one)) for one in columns) for row in rows)
        lines += [f"INSERT INTO `{prefix}{table}` VALUES ({one});" for one in values]  # noqa: S608
    path.write_text("\n".join([*lines, "-- Dump completed", ""]), encoding="utf-8")
    return path
