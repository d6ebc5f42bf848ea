"""Read API keys."""

from typing import Any

from keywright.identity import store as identity_store
from keywright.identity.commands import FindApiKey
from keywright.identity.model import ApiKey


def find_api_key(read: Any, query: FindApiKey) -> ApiKey | None:
    """The API key in force with this hashed consumer key."""
    return identity_store.find_api_key(read.tx, query.consumer_key_hash)
