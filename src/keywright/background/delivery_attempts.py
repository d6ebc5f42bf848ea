"""Send a delivery of a webhook once."""

import logging
from datetime import UTC, datetime
from time import monotonic

from msgspec.structs import replace

from keywright.core.retry_after import parse_retry_after
from keywright.delivery.webhooks import rules
from keywright.delivery.webhooks.model import Attempt, Due, Endpoint
from keywright.delivery.webhooks.payloads import body_of, write_headers
from keywright.delivery.webhooks.sending import Sender, SendingFailed
from keywright.signing.jws import Signer

#: The most characters of an answer that are kept.
_MAX_KEPT = 500

log = logging.getLogger(__name__)


async def time_attempt(
    due: Due, endpoint: Endpoint, known: tuple[str, ...], signer: Signer, sender: Sender
) -> Attempt:
    """Send one delivery; what came of it, and how long that took. Raises nothing."""
    began = monotonic()
    try:
        attempt = await _attempt(due, endpoint, known, signer, sender)
    except Exception as problem:
        log.error("webhook %d met an unexpected error", endpoint.id, exc_info=problem)
        attempt = Attempt(due.delivery.id, None, "an unexpected error; the server's log says more", 0)
    return replace(attempt, duration_ms=int((monotonic() - began) * 1000))


async def _attempt(
    due: Due, endpoint: Endpoint, known: tuple[str, ...], signer: Signer, sender: Sender
) -> Attempt:
    """Send one delivery."""
    delivery, now = due.delivery, datetime.now(UTC)
    body = body_of(due, endpoint.payload)
    # The clock may have been behind when the event happened.
    happened_at = None if due.event is None else max(due.event.occurred_at, delivery.created_at)
    if body is None or (happened_at is not None and happened_at < rules.oldest_event_at(now)):
        return Attempt(delivery.id, None, "the event is too old, or kept no longer", 0, is_hopeless=True)
    try:
        answer = await sender.send(
            write_headers(delivery.message_id, body, now, known, signer.sign_bytes), body
        )
    except SendingFailed as problem:
        return Attempt(delivery.id, None, str(problem)[:_MAX_KEPT], 0)
    retry_after = None if answer.retry_after is None else parse_retry_after(answer.retry_after, now)
    return Attempt(delivery.id, answer.status, answer.text[:_MAX_KEPT], 0, retry_after)
