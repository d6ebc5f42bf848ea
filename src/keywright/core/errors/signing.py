"""Refusals about license files and signing keys. No call of v2 meets them."""

from typing import Any, ClassVar

from keywright.core.errors.root import Refusal

_EXAMPLE_KID = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


class OfflineNotAllowed(Refusal):
    """The license's terms let no answer be kept, so there is no license file."""

    code = "license.offline_not_allowed"
    problem = "offline_not_allowed"
    sentence = (
        "The license's terms allow no use without a network: they give no days offline, or bound the use by "
        "leases alone."
    )
    hint = (
        "the license's terms allow no use without a network. Change that with --offline-days, or with --max "
        "for a floating license."
    )
    v2 = None


class SigningKeyRefusal(Refusal):
    """A refusal about one signing key, by its ``kid``."""

    example: ClassVar[tuple[Any, ...]] = (_EXAMPLE_KID,)

    kid: str


class UnknownSigningKey(SigningKeyRefusal):
    """No signing key has this ``kid``."""

    code = "signing_key.unknown"
    problem = "not_found"
    problem_detail = "There is no such signing key."
    status = 404
    sentence = "There is no such signing key."
    hint = "there is no signing key {kid}. `keywright signing-key show` lists them."
    v2 = None


class SigningKeyInUse(SigningKeyRefusal):
    """The key signs every answer now; it can be withdrawn when another one does."""

    code = "signing_key.in_use"
    problem = "still_in_use"
    problem_detail = "The key signs every answer now."
    sentence = "This key signs every answer now. Make a new key first."
    hint = "this key signs every answer now. Run `keywright signing-key rotate` first."
    v2 = None
