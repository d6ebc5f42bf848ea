"""Refusals about licenses and their activations."""

from datetime import UTC, datetime
from typing import Any, ClassVar

from keywright.core.errors import root
from keywright.core.fields import EXAMPLE_KEY
from keywright.core.parsing import write_time


class UnknownLicense(root.LicenseRefusal):
    """No license has this key, or the caller may not see it."""

    code = "license.unknown"
    problem = "unknown_license"
    status = 404
    sentence = "There is no such license. It may have been deleted."
    hint = "there is no license with the key {key}. `keywright license list` lists all licenses."
    v2: ClassVar[root.V2 | None] = root.v2_data_error("License Key: {key} could not be found.")


class UnknownLicenseId(UnknownLicense):
    """No license has this ID, or the caller may not see it."""

    code = "license.unknown_id"
    problem = "not_found"
    problem_detail = "There is no license {key}."
    hint = "there is no license {key}. `keywright license list` lists all licenses."
    v2 = None
    example = ("17",)


class LicenseExpired(root.PlaceRefusal):
    """The license has expired.

    It was valid until ``expires_at``, exclusive.
    """

    code = "license.expired"
    problem = "expired"
    problem_detail = "The license expired on {expires_at} (UTC)."
    sentence = "The license expired on {expires_at} (UTC). Extend it first."
    hint = (
        "the license expired at {expires_at} (UTC). Extend it with `keywright license update KEY "
        "--expires-at TIME`."
    )
    v2: ClassVar[root.V2 | None] = root.V2(
        404, "lmfwc_rest_license_expired", "The license Key expired on {expires_at} (UTC)."
    )
    example = (datetime(2020, 1, 1, tzinfo=UTC),)

    expires_at: datetime

    def facts(self) -> dict[str, Any]:
        """``expires_at`` in the usual format of times."""
        return super().facts() | {"expires_at": write_time(self.expires_at)}


class LicenseInactive(root.LicenseRefusal, root.PlaceRefusal):
    """The license's status is inactive."""

    code = "license.inactive"
    problem = "inactive"
    sentence = "The license is inactive. Set its status to active first."
    hint = "the license {key} is inactive. Change that with `keywright license update KEY --status active`."
    v2 = root.V2(404, "lmfwc_rest_license_inactive", "License Key: {key} is inactive.")


class LicenseDisabled(root.LicenseRefusal, root.PlaceRefusal):
    """The license's status is disabled."""

    code = "license.disabled"
    problem = "disabled"
    sentence = "The license is disabled. Enable it first."
    hint = "the license {key} is disabled. Change that with `keywright license update KEY --status active`."
    v2 = root.V2(404, "lmfwc_rest_license_inactive", "License Key: {key} is disabled.")


class LimitReached(root.LicenseRefusal, root.PlaceRefusal):
    """Every place of the license is taken.

    ``limit`` is the number of its places, ``activations`` the number of places taken.
    """

    code = "license.limit_reached"
    problem = "limit_reached"
    problem_detail = "Every place of the license is taken: {activations} of {limit}."
    sentence = "Every place of the license is taken. Deactivate one, or raise the limit."
    hint = (
        "every place of the license {key} is taken. Deactivate one, or raise its limit with "
        "`keywright license update KEY --max N`."
    )
    v2 = root.v2_data_error("License Key: {key} reached maximum activation count.")
    example = (EXAMPLE_KEY, 3, 3, None)

    limit: int | None = None
    activations: int | None = None
    #: The devices that hold the places, if the caller may see them.
    devices: list[dict[str, Any]] | None = None

    def problem_members(self) -> dict[str, Any]:
        """The numbers, and the devices if they are known."""
        figures = {"limit": self.limit, "activations": self.activations}
        return figures if self.devices is None else figures | {"devices": self.devices}


class NothingActive(root.LicenseRefusal):
    """The license has no active activation."""

    code = "license.nothing_active"
    sentence = "The license has no active places."
    hint = "the license {key} has no active place; there is nothing to deactivate."
    v2 = root.v2_data_error("License Key: {key} has not been activated yet.")


class InvalidLicenseKey(root.ValueRefusal):
    """The key is missing, empty or longer than 255 characters, or contains control characters."""

    code = "license.key_invalid"
    sentence = "This is not a valid license key: it must have 1 to 255 characters, and no control characters."
    hint = "this is not a valid license key: it must have 1 to 255 characters, and no control characters."
    v2 = root.v2_data_error("License key is invalid.")


class LicenseKeyTaken(root.ValueRefusal):
    """Another license has this key."""

    code = "license.key_taken"
    problem = "already_exists"
    problem_detail = "Another license has this key."
    status = 409
    sentence = "Another license already has this key."
    hint = "another license already has this key. Choose another key."
    v2 = root.v2_data_error("This license key already exists.")


class OrderLineTaken(root.Refusal):
    """Another license was made for this order line."""

    code = "license.order_line_taken"
    problem = "already_exists"
    problem_detail = "Another license already exists for this order line and index."
    sentence = "There is already a license for this order line."
    v2 = None


class InvalidStatus(root.ValueRefusal):
    """The status is neither the name nor the number of a status."""

    code = "license.status_invalid"
    sentence = "The status must be sold, delivered, active, inactive or disabled."
    hint = "there is no such status. Use sold, delivered, active, inactive or disabled."
    v2 = root.v2_data_error("License Key status is invalid")


class NothingToChange(root.Refusal):
    """The call has no field to change."""

    code = "license.nothing_to_change"
    status = 422
    sentence = "There was nothing to change."
    hint = "there is nothing to change. Give at least one option such as --max."
    v2 = root.v2_data_error("No parameters were provided.")


class CannotUndo(root.Refusal):
    """The history does not contain, or no longer contains, the previous state."""

    code = "license.cannot_undo"
    sentence = "This cannot be undone: the history does not contain the previous state."
    v2 = None


class ChangedSince(root.Refusal):
    """The license has changed since the change that was to be undone."""

    code = "license.changed_since"
    problem = "changed_meanwhile"
    problem_detail = "Nothing was undone, because of later changes: {fields_in_words}."
    sentence = "Nothing was undone, because of later changes: {fields_in_words}."
    v2 = None
    example = (("expires_at",),)

    fields: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """Add ``fields_in_words``, the names with spaces."""
        words = ", ".join(one.removesuffix("_at").replace("_", " ") for one in self.fields)
        return super().facts() | {"fields_in_words": words}


class SetByHand(ChangedSince):
    """All terms that would change were set by hand."""

    code = "license.set_by_hand"
    sentence = "Nothing was changed, because these terms were set by hand: {fields_in_words}."
    example = (("max_activations",),)


class FieldNotWritable(root.FieldRefusal):
    """A field is unknown or read-only; nothing was changed."""

    code = "license.field_not_writable"
    sentence = "The field {field_in_words} cannot be changed."
    hint = "the field {field} cannot be changed."
    v2 = root.v2_data_error("The license key could not be updated.")


class NoLicenses(root.Refusal):
    """No license matches."""

    code = "license.none"
    status = 404
    sentence = "There are no licenses yet."
    hint = "there are no licenses. Create one with `keywright license create`."
    v2 = root.v2_data_error("No License Keys available")


class NeverExpires(root.LicenseRefusal):
    """The license has no expiry that could be extended."""

    code = "license.never_expires"
    problem = "never_expires"
    sentence = "The license never expires, so it cannot be renewed."
    v2 = None


class ExpiresLater(root.LicenseRefusal):
    """The license is already valid at least until then."""

    code = "license.expires_later"
    problem = "invalid"
    problem_detail = "The license already expires later than that; a renewal must extend it."
    sentence = "The license is already valid for longer than that."
    v2 = None

    example = (EXAMPLE_KEY, "days")

    field: str = "days"

    def problem_members(self) -> dict[str, Any]:
        """``errors``, with the member."""
        detail = "does not extend the license"
        return {"errors": [{"pointer": f"/{self.field}", "code": "too_small", "detail": detail}]}


class NoLimit(root.LicenseRefusal):
    """The license has no limit that could be raised."""

    code = "license.no_limit"
    sentence = "The license has no limit that could be raised."
    v2 = None


class UnknownToken(root.TokenRefusal):
    """This license has no activation with this token."""

    code = "activation.unknown"
    problem = "unknown_device"
    status = 404
    sentence = "The license has no such activation."
    hint = "the license has no activation with the token {token}. `keywright license show KEY` lists them."
    v2 = root.v2_data_error("Activation Token: {token} could not be found.")


class AlreadyActivated(root.TokenRefusal):
    """The activation is already active."""

    code = "activation.already_active"
    sentence = "This place is already taken."
    hint = "the activation {token} is already active."
    v2 = root.v2_data_error("Activation Token: {token} is already activated.")


class TokenNotActive(root.TokenRefusal):
    """This license has no activation with this token, or the activation is deactivated."""

    code = "activation.not_active"
    problem = "unknown_device"
    sentence = "This place has already been given up."
    hint = (
        "the license has no active place with the token {token}. "
        "`keywright license show KEY` lists its activations."
    )
    v2 = root.v2_data_error("Activation Token: {token} could not be found or is deactivated.")
