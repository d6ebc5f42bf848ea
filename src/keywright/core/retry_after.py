"""``Retry-After``: how long a server asks to be left alone (RFC 9110 §10.2.3)."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

#: The longest that is obeyed.
MAX_RETRY_AFTER = timedelta(hours=24)


def parse_retry_after(text: str, now: datetime) -> int | None:
    """The header in seconds, at most ``MAX_RETRY_AFTER``; None for what is neither seconds nor a date."""
    most = int(MAX_RETRY_AFTER.total_seconds())
    if text.isascii() and text.isdigit():
        return min(int(text[:9]), most)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return min(max(0, int((moment - now).total_seconds())), most)
