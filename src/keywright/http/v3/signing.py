"""License files, and the key sets by which programs that know an older public key get the current ones."""

from typing import Annotated

from msgspec import Struct

from keywright.core.fields import about
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import client_schemas as schemas
from keywright.http.v3.answers import ok
from keywright.http.v3.call import Call
from keywright.http.v3.client import require_device
from keywright.http.v3.route import TEXT_TYPE, Route
from keywright.http.v3.signed import about_program
from keywright.signing.commands import MakeLicenseFile
from keywright.signing.model import LicenseFile

_TEXT = (b"content-type", f"{TEXT_TYPE}; charset=UTF-8".encode())


class KeySets(Struct):
    """Signed sets of public keys."""

    keys: Annotated[list[str], about("One token for each older key, signed by that key.", ["eyJhbGci…"])]


async def make_license_file(call: Call, body: schemas.MakeFile) -> Answer:
    """Make a license file.

    Returns the signed answer of `validate` as a text file, for machines without a network. The file is bound
    to this license key and to the named device, which must hold a place: without a device, it would fit every
    machine. It is valid for `days`, but no longer than the terms' `offline_days`, and never longer than the
    license.
    """
    command = MakeLicenseFile(
        **about_program(call, body),
        alg=call.signatures.alg,
        days=body.days,
        nonce=body.nonce,
    )
    require_device(command)

    def write(file: LicenseFile) -> Answer:
        activation_id = None if file.activation is None else file.activation.id
        answer = Answer(200, file.content, license_id=file.license_id, activation_id=activation_id)
        answer.content_type, answer.is_unchanged = _TEXT, True
        return answer

    return await call.change(command, write)


async def list_key_sets(call: Call) -> Answer:
    """List the signed key sets.

    A program trusts the public keys that it was shipped with. After a key rotation, it finds here the current
    keys in a set that is signed by a key it knows: a token of the type `keywright-keys+jwt` with `iss`,
    `iat`, `exp` and `keys`. There is one set for each older key that was not withdrawn. Once any key was
    withdrawn, there is also a set signed by the newest key, from which programs learn to distrust withdrawn
    keys.
    """
    return ok(KeySets(await call.signatures.list_key_sets(call.context)))


ROUTES = (
    Route(
        "POST",
        "/license-file",
        Right.CORE,
        make_license_file,
        produces=(TEXT_TYPE,),
        refusals=(
            "unknown_license",
            "offline_not_allowed",
            "expired",
            "inactive",
            "disabled",
            "product_mismatch",
            "not_activated",
            "key_rotated",
        ),
        example={"license_key": "KEY-1", "fingerprint": "device-7f3a9c0e12b4", "days": 14},
    ),
    Route("GET", "/signing-keys", Right.NONE, list_key_sets, gives=KeySets),
)
