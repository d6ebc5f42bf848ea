"""Explain a license file, and write what is pasted into programs. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from keywright.signing.jws import decode_base64url, read_signed
from keywright.signing.rules import read_license_file

_ARMORED = b"-----BEGIN"


class Explained(msgspec.Struct, frozen=True):
    """The claims of a token, and why they are not to be believed; None where they are. ``kid`` names the key
    that the token says it was signed with.
    """

    claims: dict[str, Any]
    kid: str | None
    problem: str | None


def explain(content: bytes, public_keys: Sequence[str]) -> Explained:
    """Read a license file or a token, and verify it with one of these keys.

    Raises ``ValueError`` with a reason for what is neither.
    """
    token = read_license_file(content) if _ARMORED in content else content.strip()
    parts = token.split(b".")
    if len(parts) != 3:
        raise ValueError("is neither a license file nor a signed answer")
    header, claims = (_decode_object(part) for part in parts[:2])
    kid = header.get("kid")
    problem: str | None = "was signed with another key, or is no token of this type"
    for key in public_keys:
        try:
            read_signed(token, key)
        except ValueError as reason:
            if str(reason) != problem:
                problem = str(reason)
                break
        else:
            problem = None
            break
    return Explained(claims, kid if isinstance(kid, str) else None, problem)


def _decode_object(part: bytes) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(decode_base64url(part))
    except (msgspec.DecodeError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        raise ValueError("is neither a license file nor a signed answer")
    return decoded


_PATTERNS = {
    "Python": "PUBLIC_KEYS = [{keys}]",
    "JavaScript": "const publicKeys = [{keys}];",
    "PHP": "$publicKeys = [{keys}];",
    "Go": "var publicKeys = []string{{{keys}}}",
    "C": "static const char *const public_keys[] = {{{keys}, NULL}};",
    "C#": "static readonly string[] PublicKeys = {{ {keys} }};",
}


def lines_to_paste(public_keys: Sequence[str]) -> dict[str, str]:
    """The line by language; keys are base64url, which needs no escapes in any of them."""
    keys = ", ".join(f'"{one}"' for one in public_keys)
    return {language: pattern.format(keys=keys) for language, pattern in _PATTERNS.items()}


_PROGRAMS = {
    "Python": """\
from keywright_client import Keywright

keywright = Keywright({url}, {product}public_keys=[{keys}])
status = keywright.check()
if not status.valid:
    status = keywright.activate(input("License key: "))
""",
    "JavaScript": """\
import { fileStore, Keywright } from "./keywright.js";

const keywright = new Keywright({
  url: {url}, {product}publicKeys: [{keys}],
  store: await fileStore("license.json"),
});
let status = await keywright.check();
if (!status.valid) status = await keywright.activate(licenseKey);
""",
    "Go": """\
client := &keywright.Client{URL: {url}, Path: "license.json"}
client.Expected = keywright.Expected{
	PublicKeys: []string{{keys}}, {product}
	Fingerprint: device,
}
status := client.Check()
if !status.Valid {
	status = client.Activate(licenseKey, "")
}
""",
    "PHP": """\
require 'keywright.php';

$keywright = new Keywright\\Keywright({url}, [{keys}], '/var/lib/license.json', $device{product});
$status = $keywright->check();
if (!$status->valid) {
    $status = $keywright->activate($licenseKey);
}
""",
    "C": """\
static const char *const KEYS[] = {{keys}, NULL};

struct keywright_expected expected = {
    .public_keys = KEYS, {product}.license_key = key, .fingerprint = device, .now = time(NULL),
};
int valid;
const char *rule = keywright_verify(text, strlen(text), &expected, &valid, NULL);
""",
    "C#": """\
var program = new Keywright.Expected {
    PublicKeys = new[] { {keys} }, {product}Fingerprint = device,
};
var client = new Keywright.Client { Url = {url}, Path = "license.json", Program = program };
var status = client.Check();
if (!status.Valid) status = client.Activate(licenseKey);
""",
}
_PRODUCTS = {
    "Python": "product={}, ",
    "JavaScript": "product: {}, ",
    "Go": "Product: {},",
    "PHP": ", product: {}",
    "C": ".product = {}, ",
    "C#": "Product = {}, ",
}


def programs_to_paste(url: str, product_code: str | None, public_keys: Sequence[str]) -> dict[str, str]:
    """How a program is licensed, by language. Codes of products and addresses need no escapes, either."""
    keys = ", ".join(f'"{one}"' for one in public_keys)
    programs = {}
    for language, pattern in _PROGRAMS.items():
        product = "" if product_code is None else _PRODUCTS[language].format(f'"{product_code}"')
        text = pattern.replace("{keys}", keys).replace("{product}", product)
        programs[language] = text.replace("{url}", f'"{url}"')
    return programs
