"""The handlers of the commands about license files."""

import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import OfflineNotAllowed
from keywright.licensing.activations import devices
from keywright.licensing.activations.device_handlers import activate_device, find_activation, get_license
from keywright.licensing.licenses.rules import allows_files, terms_of
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.validation import Facts, next_check_at, validate
from keywright.signing import rules, store
from keywright.signing.commands import ActivateForFile, MakeLicenseFile
from keywright.signing.explanation import show_signed_license
from keywright.signing.jws import Signer
from keywright.signing.keys import make_first
from keywright.signing.model import FileWithPlace, LicenseFile, LoadedKeys
from keywright.signing.rules import SignedContent, write_license_file

_encode = msgspec.json.Encoder().encode


def make_license_file(
    work: LicenseWork, command: MakeLicenseFile, keys: LoadedKeys | None = None
) -> LicenseFile:
    """Make a license file, with these keys if they are already loaded. Raises what ``get_license`` does,
    ``OfflineNotAllowed``, and the refusal for the finding that blocks the license.
    """
    license, now = get_license(work, command), command.context.now
    activation = find_activation(work, license, command)
    view, terms = work.devices.views.show(license, now), terms_of(license)
    facts = Facts(
        license=license,
        now=now,
        is_device_named=command.is_device_named,
        activation=activation,
        usage=view.usage,
        built_at=command.built_at,
    )
    findings = validate(facts)
    rules.require_valid(findings, license)
    if not allows_files(terms):
        raise OfflineNotAllowed
    content = SignedContent(
        findings=findings,
        now=now,
        view=view,
        shown=show_signed_license(view, now),
        activation=activation,
        entitlements=terms.entitlements,
        next_check_at=next_check_at(facts),
        nonce=command.nonce,
        built_at=command.built_at,
        days=command.days,
        ends_at=command.ends_at,
        is_file=True,
    )
    token = _sign(work, command, content, keys or make_first(work, command))
    ends_at = rules.ends_at(content)
    if activation is not None and activation.deactivated_at is None:
        activation = devices.keep_offline(activation, terms, ends_at, now)
        work.set_activation(activation)
    if command.is_recorded:
        work.record_license_event("license.file_made", license, command, activation, {"ends_at": ends_at})
    return LicenseFile(write_license_file(token), license.id, ends_at, activation)


def activate_for_file(work: LicenseWork, command: ActivateForFile) -> FileWithPlace:
    """Activate a device and make its license file. Raises what ``activate_device`` does, and
    ``OfflineNotAllowed``; then nothing is changed.
    """
    if not allows_files(terms_of(get_license(work, command))):
        raise OfflineNotAllowed
    place = activate_device(work, command)
    making = MakeLicenseFile(
        context=command.context,
        license=command.license,
        only_product_id=command.only_product_id,
        device=command.device,
        product=command.product,
        built_at=command.built_at,
        alg=command.alg,
    )
    return FileWithPlace(make_license_file(work, making), place)


def load_keys(work: LicenseWork, command: Command, until: datetime) -> LoadedKeys:
    """Load the keys for several files that expire at this moment at the latest, and record it for the key."""
    loaded = make_first(work, command)
    store.extend_key(work.tx, loaded.newest.id, rules.extended(until))
    newest = replace(loaded.newest, signed_until=max(loaded.newest.signed_until, until))
    return replace(loaded, keys=(newest, *loaded.keys[1:]))


def _sign(work: LicenseWork, command: MakeLicenseFile, content: SignedContent, loaded: LoadedKeys) -> bytes:
    ends_at = rules.ends_at(content)
    if ends_at > loaded.newest.signed_until:
        store.extend_key(work.tx, loaded.newest.id, rules.extended(ends_at))
    claims = rules.build_claims(content, rules.issuer_of(loaded.oldest.kid), secrets.token_urlsafe(16))
    return Signer(loaded.private_key, command.alg).sign(_encode(claims))


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    MakeLicenseFile: make_license_file,
    ActivateForFile: activate_for_file,
}
