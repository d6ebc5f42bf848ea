"""The view of a license for programs, and the explanation of a license file. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from keywright.core.parsing import MAX_ID
from keywright.licensing.activations.model import Activation, LicenseView
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import State
from keywright.signing.jws import decode_base64url, read_signed
from keywright.signing.rules import hash_key, read_license_file

_EXAMPLE_TIME = "2026-11-22T08:54:00Z"
_Id = Annotated[int, Meta(ge=1, le=MAX_ID, extra_json_schema={"format": "int64"})]


def _about(description: str, *examples: object) -> Meta:
    return Meta(description=description, examples=list(examples) or None)


class NamedProduct(Struct):
    """A product."""

    id: Annotated[_Id, _about("The product's ID.", 17)]
    code: Annotated[str | None, _about("The product's code, if it has one.", "photo-editor")]
    name: Annotated[str | None, _about("The product's name, if it has one.", "Photo Editor")]


class NamedPolicy(Struct):
    """A policy."""

    id: Annotated[_Id, _about("The policy's ID.", 3)]
    name: Annotated[str | None, _about("The policy's name.", "Yearly")]


class RemovedDevice(Struct):
    """A device that lost its place to another one."""

    id: Annotated[_Id, _about("The activation's ID.", 90)]
    name: Annotated[str | None, _about("The device's name.", "Anna's laptop")]
    offline_until: Annotated[
        datetime | None,
        _about("The latest time until which the device may still run; null if nothing was signed for it."),
    ]


def show_removed(removed: Activation | None) -> RemovedDevice | None:
    """Return the device that lost its place, as programs see it."""
    return None if removed is None else RemovedDevice(removed.id, removed.label, removed.runs_until)


class ClientLicense(Struct):
    """A license as programs see it: without customer and order."""

    id: Annotated[_Id, _about("The license's ID.", 4711)]
    product: Annotated[NamedProduct | None, _about("The product that the license is for.")]
    policy: Annotated[NamedPolicy | None, _about("The policy that the license was made from.")]
    state: Annotated[State, _about("Whether the license can be used now.", "valid")]
    expires_at: Annotated[
        datetime | None, _about("When the license expires; null means never.", _EXAMPLE_TIME)
    ]
    grace_until: Annotated[datetime | None, _about("The expiry plus the days of grace.", _EXAMPLE_TIME)]
    max_activations: Annotated[int | None, _about("How many places the license has; null means no limit.", 3)]
    activations: Annotated[int, _about("How many places are taken.", 1)]
    max_leases: Annotated[
        int | None, _about("How many leases may be held at once; null if the license is not floating.", None)
    ]
    usage: Annotated[
        Mapping[str, int], _about("What each meter counted in the current period.", {"exports": 12})
    ]
    metadata: Annotated[Any, _about("The member `public` of the license's metadata.", {})]
    leases: Annotated[
        int | UnsetType, _about("How many leases are held now; only in answers about leases.")
    ] = UNSET
    key_hash: Annotated[
        str | UnsetType,
        _about("The hash of the license key; only in signed answers, which are valid only for this key."),
    ] = UNSET


def show_license(view: LicenseView, now: datetime) -> ClientLicense:
    """Return the license as it is at that time."""
    license, product, policy = view.license, view.product, view.policy
    return ClientLicense(
        license.id,
        None if product is None else NamedProduct(product.id, product.code, product.name),
        None if policy is None else NamedPolicy(policy.id, policy.name),
        license_rules.state(license, now),
        license.expires_at,
        None if license.expires_at is None else license_rules.grace_until(license),
        license.times_activated_max,
        license.times_activated,
        None if license.terms is None else license_rules.terms_of(license).max_leases,
        view.usage,
        {} if license.metadata is None else _public_part(license.metadata),
    )


def show_signed_license(view: LicenseView, now: datetime) -> ClientLicense:
    """Return the same with the hash of the license key, for an answer that fits only this key."""
    shown = show_license(view, now)
    shown.key_hash = hash_key(view.license.key)
    return shown


@lru_cache(maxsize=1024)
def _public_part(metadata: str) -> Any:
    return msgspec.json.decode(metadata).get("public", {})


_ARMORED = b"-----BEGIN"


class Explained(msgspec.Struct, frozen=True):
    """The claims of a token, and the reason to reject it, None if it is genuine. ``kid`` is the ID of the key
    that the token names as its signer.
    """

    claims: dict[str, Any]
    kid: str | None
    problem: str | None


def explain(content: bytes, public_keys: Sequence[str]) -> Explained:
    """Read a license file or a token, and verify it with one of these keys.

    Raises ``ValueError`` with a reason for any other content.
    """
    token = read_license_file(content) if _ARMORED in content else content.strip()
    parts = token.split(b".")
    if len(parts) != 3:
        raise ValueError("is neither a license file nor a signed answer")
    header, claims = (_decode_object(part) for part in parts[:2])
    kid = header.get("kid")
    problem: str | None = "was signed with another key, or is not a token of this type"
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
    """Return the line by language; keys are base64url, which needs no escapes in any of them."""
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
    """Return a program's code by language. Product codes and URLs need no escapes, either."""
    keys = ", ".join(f'"{one}"' for one in public_keys)
    programs = {}
    for language, pattern in _PROGRAMS.items():
        product = "" if product_code is None else _PRODUCTS[language].format(f'"{product_code}"')
        text = pattern.replace("{keys}", keys).replace("{product}", product)
        programs[language] = text.replace("{url}", f'"{url}"')
    return programs
