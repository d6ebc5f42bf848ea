"""The signing keys, as pages show them."""

from keywright.http.pages.request import PageRequest
from keywright.signing import store
from keywright.signing.commands import MakeFirstKey
from keywright.signing.model import SigningKey


def list_signing_keys(request: PageRequest) -> list[SigningKey]:
    """Every key, the newest first; the first one is made if there is none."""
    found = request.ask(store.list_keys)
    return found or list(request.change(MakeFirstKey(context=request.context)).keys)
