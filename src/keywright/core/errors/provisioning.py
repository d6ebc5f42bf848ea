"""Refusals about policies and imports."""

from datetime import UTC, datetime
from typing import Any, ClassVar

from keywright.core.errors.root import V2, FieldRefusal, Refusal, v2_data_error
from keywright.core.parsing import write_time


class UnknownPolicy(Refusal):
    """No policy has this number."""

    code = "policy.unknown"
    problem = "not_found"
    problem_detail = "There is no policy {policy_id}."
    status = 404
    sentence = "There is no such policy. It may have been deleted."
    hint = "there is no policy {policy_id}. `keywright policy list` shows those there are."
    v2 = v2_data_error("Generator with ID: {policy_id} could not be found.")
    example = (7,)

    policy_id: int | str


class NoPolicies(Refusal):
    """There are no policies."""

    code = "policy.none"
    status = 404
    sentence = "There are no policies yet."
    hint = "there are no policies. Make one with `keywright policy create`."
    v2 = v2_data_error("No Generators available")


class PolicyFieldMissing(FieldRefusal):
    """A new policy needs this field."""

    code = "policy.field_missing"
    sentence = "A policy needs its {field_in_words}."
    hint = "a policy needs a {field}."
    v2 = v2_data_error("The Generator {field_in_words} is missing from the request.")
    example = ("name",)


class PolicyFieldInvalid(FieldRefusal):
    """The text is empty or too long."""

    code = "policy.field_invalid"
    sentence = "The policy's {field_in_words} cannot have this value."
    hint = "the policy's {field} cannot be used."
    v2 = v2_data_error("Generator {field} is invalid.")


class PolicyFieldNotInteger(PolicyFieldInvalid):
    """The value is not an integer, or out of range."""

    code = "policy.field_not_integer"
    sentence = "The policy's {field_in_words} must be a whole number."
    v2 = v2_data_error("Generator {field} must be an absolute integer.")
    example = ("chunks",)


class PolicyTooWeak(Refusal):
    """The policy's keys could be guessed: they have under 64 bits of entropy.

    The caller may allow such keys.
    """

    code = "policy.too_weak"
    problem = "invalid"
    problem_detail = (
        "Its keys could be guessed: they have {bits:.0f} bits of randomness, and need at least 64."
    )
    status = 422
    sentence = "These keys could be guessed: they have {bits:.0f} bits, and need at least 64."
    hint = (
        "its keys could be guessed: they have {bits:.0f} bits of randomness, and 64 is the least. "
        "Use more chunks or characters, or --force it."
    )
    v2 = V2(400, "rest_invalid_param", "Invalid parameter(s): charset, chunks, chunk_length")
    example = (40.0,)

    bits: float

    def problem_members(self) -> dict[str, Any]:
        """``errors`` names the key format."""
        detail = "must make keys with at least 64 bits of randomness"
        return {"errors": [{"pointer": "/key", "code": "invalid", "detail": detail}]}


class PolicyArchived(Refusal):
    """The policy is archived: no license is made from it."""

    code = "policy.archived"
    problem = "policy_archived"
    sentence = "The policy is archived and makes no more licenses."
    hint = "the policy {policy_id} is archived and makes no more licenses."
    v2 = v2_data_error("Generator with ID: {policy_id} could not be found.")
    example = (7,)

    policy_id: int


class TrialNotOffered(Refusal):
    """The product has no policy for trials, or the named one is none."""

    code = "trial.not_offered"
    problem = "trial_not_offered"
    sentence = "There is no trial of this product."
    v2 = None


class TrialUsed(Refusal):
    """The device has had its trial of the product, and its license was deleted."""

    code = "trial.used"
    problem = "trial_used"
    sentence = "The device has had its trial of this product."
    v2 = None


class NotClaimable(Refusal):
    """No license can be claimed with this key: there is none, or not for this customer."""

    code = "license.not_claimable"
    problem = "not_claimable"
    sentence = "There is no license that can be claimed with this key."
    v2 = None


class NotTransferable(Refusal):
    """The license cannot be handed on: its terms or its status do not allow it, or it has no customer."""

    code = "license.not_transferable"
    problem = "not_transferable"
    sentence = "This license cannot be handed on."
    v2 = None


class HandedOnBefore(NotTransferable):
    """The license changed hands before, and its terms allow that once."""

    code = "license.handed_on_before"
    sentence = "This license was handed on before, and can be handed on once."
    problem_detail = sentence


class SubscriptionRuns(NotTransferable):
    """A subscription pays for the license."""

    code = "license.subscription_runs"
    sentence = "A subscription pays for this license. It can be handed on when that has ended."
    problem_detail = sentence


class TransferTooEarly(NotTransferable):
    """The license was made, or handed on, so lately that its terms do not let it be handed on before
    ``until``.
    """

    code = "license.transfer_too_early"
    sentence = "This license can be handed on from {until} (UTC) on."
    problem_detail = sentence
    example: ClassVar[tuple[Any, ...]] = (datetime(2026, 12, 1, tzinfo=UTC),)

    until: datetime

    def facts(self) -> dict[str, Any]:
        """``until`` is written as everywhere."""
        return super().facts() | {"until": write_time(self.until)}


class ClaimedLately(TransferTooEarly):
    """The license was claimed with its key; until ``until`` that may have to be undone."""

    code = "license.claimed_lately"
    sentence = (
        "This license was added with its key. Until {until} (UTC) it gets no new key and is not handed on."
    )
    problem_detail = sentence


class TransferPending(Refusal):
    """The license is offered to another customer, who has not answered yet."""

    code = "license.transfer_pending"
    problem = "transfer_pending"
    sentence = "This license is offered to another customer. Cancel that offer first."
    v2 = None


class SourceUnusable(Refusal):
    """The file cannot be imported; the text says why, and in which line."""

    code = "import.source_unusable"
    status = 422
    sentence = "The file cannot be imported: {detail}"
    hint = "{detail}"
    v2 = None
    example = ("dump.sql, line 1: this is no database dump. Nothing was imported.",)

    reason: str


class TooManyEndpoints(Refusal):
    """There are as many endpoints of webhooks as there can be."""

    code = "webhook.too_many"
    problem = "still_in_use"
    problem_detail = "There are 100 webhooks, which is the most. Delete one first."
    status = 409
    sentence = "There are 100 webhooks, which is the most. Delete one first."
    v2 = None


class TooMuchStored(Refusal):
    """More is stored about the customer than one answer holds: 1,000 licenses, or 20,000 rows in all."""

    code = "customer.too_much_stored"
    problem = "invalid"
    problem_detail = "More is stored than one answer holds. Run keywright customer export."
    status = 422
    sentence = "More is stored about this customer than one answer holds."
    v2 = None

    def problem_members(self) -> dict[str, Any]:
        """``errors`` names the customer."""
        detail = "is of a customer about whom more is stored than one answer holds"
        return {"errors": [{"parameter": "customer_id", "code": "invalid", "detail": detail}]}
