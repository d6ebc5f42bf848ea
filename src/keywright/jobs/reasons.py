"""Why a license is not changed by a job, in words."""

from keywright.core.errors import (
    CannotUndo,
    ChangedSince,
    ExpiresLater,
    InvalidParameters,
    LicenseKeyTaken,
    LimitReached,
    NeverExpires,
    NoLimit,
    NothingActive,
    NothingToChange,
    OrderLineTaken,
    Refusal,
    SetByHand,
    UnknownLicenseId,
)

_REASONS: dict[type[Refusal], str] = {
    CannotUndo: "the history does not hold what there was before",
    ExpiresLater: "it is good for longer already",
    InvalidParameters: "the limit would be too large",
    LicenseKeyTaken: "another license has its key now",
    LimitReached: "too few places are free",
    NeverExpires: "it has no expiry that could be put off",
    NoLimit: "it has no limit",
    NothingActive: "no place is taken",
    NothingToChange: "it is like that already",
    OrderLineTaken: "another license is of its order line now",
    UnknownLicenseId: "it is not there any more",
}


def reason_of(refusal: Refusal) -> str:
    """Why the license is not changed."""
    if isinstance(refusal, SetByHand):
        return refusal.say("it was set by hand ({fields_in_words})")
    if isinstance(refusal, ChangedSince):
        return refusal.say("it has been changed since ({fields_in_words})")
    return _REASONS.get(type(refusal), refusal.code)
