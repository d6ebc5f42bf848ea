"""Refusals about policies, products, customers, imports, webhooks, releases and connections to shops."""

from datetime import UTC, datetime
from typing import Any, ClassVar

from keywright.core.errors.root import V2, FieldError, FieldRefusal, Refusal, v2_data_error
from keywright.core.errors.terms import InvalidTerms
from keywright.core.parsing import write_time


class UnknownPolicy(Refusal):
    """No policy has this ID."""

    code = "policy.unknown"
    problem = "not_found"
    problem_detail = "There is no policy {policy_id}."
    status = 404
    sentence = "There is no such policy. It may have been deleted."
    hint = "there is no policy {policy_id}. `keywright policy list` lists all policies."
    v2 = v2_data_error("Generator with ID: {policy_id} could not be found.")
    example = (7,)

    policy_id: int | str


class NoPolicies(Refusal):
    """There are no policies."""

    code = "policy.none"
    status = 404
    sentence = "There are no policies yet."
    hint = "there are no policies. Create one with `keywright policy create`."
    v2 = v2_data_error("No Generators available")


class PolicyFieldMissing(FieldRefusal):
    """A new policy requires this field."""

    code = "policy.field_missing"
    sentence = "The policy's {field_in_words} is missing."
    hint = "the policy's {field} is missing."
    v2 = v2_data_error("The Generator {field_in_words} is missing from the request.")
    example = ("name",)


class PolicyFieldInvalid(FieldRefusal):
    """The text is empty or too long."""

    code = "policy.field_invalid"
    sentence = "The policy's {field_in_words} is invalid."
    hint = "the policy's {field} is invalid."
    v2 = v2_data_error("Generator {field} is invalid.")


class PolicyFieldNotInteger(PolicyFieldInvalid):
    """The value is not an integer, or out of range."""

    code = "policy.field_not_integer"
    sentence = "The policy's {field_in_words} must be a whole number."
    v2 = v2_data_error("Generator {field} must be an absolute integer.")
    example = ("chunks",)


class PolicyTooWeak(Refusal):
    """The keys of the policy could be guessed: they have less than 64 bits of entropy.

    The caller can allow such keys.
    """

    code = "policy.too_weak"
    problem = "invalid"
    problem_detail = (
        "Its keys could be guessed: they have {bits:.0f} bits of randomness, but need at least 64."
    )
    status = 422
    sentence = "These keys could be guessed: they have {bits:.0f} bits, but need at least 64."
    hint = (
        "its keys could be guessed: they have {bits:.0f} bits of randomness, but need at least 64. Use "
        "more chunks or characters, or --force."
    )
    v2 = V2(400, "rest_invalid_param", "Invalid parameter(s): charset, chunks, chunk_length")
    example = (40.0,)

    bits: float

    def problem_members(self) -> dict[str, Any]:
        """``errors``, with the key format."""
        detail = "must make keys with at least 64 bits of randomness"
        return {"errors": [{"pointer": "/key", "code": "invalid", "detail": detail}]}


class PolicyArchived(Refusal):
    """The policy is archived, so no licenses are made from it."""

    code = "policy.archived"
    problem = "policy_archived"
    sentence = "The policy is archived and makes no more licenses."
    hint = "the policy {policy_id} is archived and makes no more licenses."
    v2 = v2_data_error("Generator with ID: {policy_id} could not be found.")
    example = (7,)

    policy_id: int


class TrialNotOffered(Refusal):
    """The product has no policy for trials, or the named policy is not for trials."""

    code = "trial.not_offered"
    problem = "trial_not_offered"
    sentence = "There is no trial of this product."
    v2 = None


class TrialUsed(Refusal):
    """The device has had its trial of the product, whose license was deleted."""

    code = "trial.used"
    problem = "trial_used"
    sentence = "The device has already had its trial of this product."
    v2 = None


class NotClaimable(Refusal):
    """The license with this key does not exist, or this customer cannot claim it."""

    code = "license.not_claimable"
    problem = "not_claimable"
    sentence = "No license can be claimed with this key."
    v2 = None


class NotTransferable(Refusal):
    """The license cannot be transferred: its terms or status do not allow it, or it has no customer."""

    code = "license.not_transferable"
    problem = "not_transferable"
    sentence = "This license cannot be transferred."
    v2 = None


class HandedOnBefore(NotTransferable):
    """The license was transferred before, and its terms allow only one transfer."""

    code = "license.handed_on_before"
    sentence = "This license was already transferred, and can be transferred only once."
    problem_detail = sentence


class SubscriptionRuns(NotTransferable):
    """A subscription pays for the license."""

    code = "license.subscription_runs"
    sentence = "A subscription pays for this license. It can be transferred after the subscription has ended."
    problem_detail = sentence


class TransferTooEarly(NotTransferable):
    """The license was made or transferred recently, and its terms allow no transfer before ``until``."""

    code = "license.transfer_too_early"
    sentence = "This license cannot be transferred before {until} (UTC)."
    problem_detail = sentence
    example: ClassVar[tuple[Any, ...]] = (datetime(2026, 12, 1, tzinfo=UTC),)

    until: datetime

    def facts(self) -> dict[str, Any]:
        """``until`` in the usual format of times."""
        return super().facts() | {"until": write_time(self.until)}


class ClaimedLately(TransferTooEarly):
    """The license was claimed with its key; the claim may have to be undone until ``until``."""

    code = "license.claimed_lately"
    sentence = (
        "This license was added with its key. Until {until} (UTC), it cannot get a new key or be transferred."
    )
    problem_detail = sentence


class TransferPending(Refusal):
    """The license is offered to another customer, who has not answered yet."""

    code = "license.transfer_pending"
    problem = "transfer_pending"
    sentence = "This license is offered to another customer. Cancel that offer first."
    v2 = None


class SourceUnusable(Refusal):
    """The file cannot be imported; the text states the reason and the line."""

    code = "import.source_unusable"
    status = 422
    sentence = "The file cannot be imported: {detail}"
    hint = "{detail}"
    v2 = None
    example = ("dump.sql, line 1: this is not a database dump. Nothing was imported.",)

    reason: str


class TooManyEndpoints(Refusal):
    """The maximum number of webhooks exists."""

    code = "webhook.too_many"
    problem = "still_in_use"
    problem_detail = "There are already 100 webhooks, the maximum. Delete one first."
    status = 409
    sentence = "There are already 100 webhooks, the maximum. Delete one first."
    v2 = None


class TooMuchStored(Refusal):
    """More data is stored about the customer than one answer can hold: 1,000 licenses or 20,000 records."""

    code = "customer.too_much_stored"
    problem = "invalid"
    problem_detail = "One answer cannot hold all data about this customer. Run keywright customer export."
    status = 422
    sentence = "One answer cannot hold all data about this customer."
    v2 = None

    def problem_members(self) -> dict[str, Any]:
        """``errors``, with the customer."""
        detail = "is of a customer with more data than one answer can hold"
        return {"errors": [{"parameter": "customer_id", "code": "invalid", "detail": detail}]}


class UnknownConnection(Refusal):
    """No connection has this ID, or it is to another shop."""

    code = "connection.unknown"
    problem = "not_found"
    problem_detail = "There is no connection {connection_id}."
    status = 404
    sentence = "There is no such connection. It may have been removed."
    hint = "there is no connection {connection_id}. `keywright connection list` lists all connections."
    v2 = None
    example: ClassVar[tuple[Any, ...]] = (7,)

    connection_id: int


class ConnectionFieldInvalid(Refusal):
    """A field of a connection has an invalid value; the reason states what it must be."""

    code = "connection.field_invalid"
    problem = "invalid"
    problem_detail = "The member {field} {reason}."
    status = 422
    sentence = "A field of the connection is invalid: {field} {reason}."
    hint = "{field} {reason}."
    v2 = None
    example = ("secret", "must begin with whsec_")

    field: str
    reason: str

    def problem_members(self) -> dict[str, Any]:
        """``errors``, with the member."""
        return {"errors": [{"pointer": f"/{self.field}", "code": "invalid", "detail": self.reason}]}


class UnknownShopEvent(Refusal):
    """The connection has no stored event with this ID; it may have been deleted after the retention time."""

    code = "shop_event.unknown"
    problem = "not_found"
    problem_detail = "The connection has no event {event_id}."
    status = 404
    sentence = "The connection has no such event. Events are deleted after a number of days."
    hint = "the connection has no event {event_id}. `keywright connection events` lists them."
    v2 = None
    example = (7,)

    event_id: int


class BadSignature(Refusal):
    """The signature of a shop's event is missing or too old, or was not made with the connection's secret.

    The text is for the log; it contains nothing of the event.
    """

    code = "shop_event.bad_signature"
    problem = "credentials_invalid"
    problem_detail = "The signature is missing, wrong or too old."
    status = 401
    sentence = "The signature is missing, wrong or too old."
    v2 = None
    example = ("the signature is wrong",)

    reason: str


class UnreadableEvent(Refusal):
    """A shop's event does not have the documented format; the text states where."""

    code = "shop_event.unreadable"
    problem = "malformed_body"
    problem_detail = "The event does not have the shop's documented format: {reason}."
    status = 422
    sentence = "The event does not have the shop's documented format: {reason}."
    hint = "{reason}"
    v2 = None
    example = ("data.order is missing",)

    reason: str


class ShopRefused(Refusal):
    """The shop's API refused the request: the API key is wrong or may not read this, or nothing was found.
    The text is for people.
    """

    code = "shop.refused"
    status = 502
    sentence = "The shop's API refused the request: {reason}."
    hint = "the shop's API refused the request: {reason}."
    v2 = None
    example = ("401 for /v1/charges",)

    reason: str


class ShopUnavailable(Refusal):
    """The shop's API does not answer, or is busy. Another attempt may succeed, after ``retry_after`` seconds
    if the shop sends them.
    """

    code = "shop.unavailable"
    status = 503
    sentence = "The shop's API is not responding: {reason}."
    hint = "the shop's API is not responding: {reason}. Try again."
    v2 = None
    example = ("no answer within 10 seconds", None)

    reason: str
    retry_after: int | None = None


class InvalidRelease(InvalidTerms):
    """A release has values that its product, or its publication, does not allow."""

    code = "release.invalid"
    problem_detail = "Invalid release: {errors_in_words}."
    example: ClassVar[tuple[Any, ...]] = (
        (FieldError("/rollout/percent", "too_small", "must not decrease: it is 10"),),
    )


class ReleaseNotReady(Refusal):
    """The release cannot be published, yanked or given files now. ``reason`` has no full stop."""

    code = "release.not_ready"
    problem = "release_not_ready"
    problem_detail = "The release is not ready: {reason}."
    sentence = problem_detail
    v2 = None
    example = ("paint-3.2.1.msi was not uploaded",)

    reason: str


class ContentMismatch(Refusal):
    """The uploaded bytes are not those of the file; they are discarded."""

    code = "release.content_mismatch"
    problem = "content_mismatch"
    problem_detail = "The {member} of {name} must be {expected}, but is {found}. The upload was discarded."
    sentence = problem_detail
    v2 = None
    example = ("paint-3.2.1.msi", "size", "104857600", "104857599")

    name: str
    member: str
    expected: str
    found: str


class DownloadRefused(Refusal):
    """The license no longer includes the file, or its release was yanked. ``reason`` is the code."""

    code = "release.download_refused"
    status = 403
    problem = "not_permitted"
    problem_detail = "This download is no longer permitted: {reason}."
    sentence = problem_detail
    v2 = None
    example = ("disabled",)

    reason: str
