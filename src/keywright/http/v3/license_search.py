"""Search for licenses by values that must not appear in a URL."""

from typing import Annotated

from msgspec import Meta

from keywright.core.crypto import fold_key
from keywright.core.errors import FieldError, InvalidBody
from keywright.core.fields import Parse, about
from keywright.core.nouns import MAX_LIMIT
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import lists
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Body, LicenseKey
from keywright.http.v3.license_schemas import License
from keywright.http.v3.licenses import write_page
from keywright.http.v3.route import Route
from keywright.http.v3.schemas import Page
from keywright.provisioning.customers import Email
from keywright.search.license_pages import SearchManaged

_LEAST, _MOST = 4, 8
_WAYS = ("key", "key_end", "token", "fingerprint", "email", "text")


def _parse_end(value: str) -> str:
    if not _LEAST <= len(fold_key(value)) <= _MOST:
        raise ValueError(f"must have {_LEAST} to {_MOST} letters and digits")
    return value


Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT)]
KeyEnd = Annotated[str, Meta(max_length=64), Parse(_parse_end)]
Token = Annotated[str, Meta(pattern="^[0-9a-fA-F]{40}$")]
Fingerprint = Annotated[str, Meta(min_length=1, max_length=256)]
Text = Annotated[str, Meta(min_length=1, max_length=255)]


class LicenseSearch(Body):
    """The value to search for: one of `key`, `key_end`, `token`, `fingerprint`, `email` and `text`."""

    key: Annotated[LicenseKey | None, about("A key, in upper or lower case, with or without dashes.")] = None
    key_end: Annotated[KeyEnd | None, about("The last 4 to 8 letters and digits of a key.", "YCJ5G")] = None
    token: Annotated[Token | None, about("The token of an activation.")] = None
    fingerprint: Annotated[Fingerprint | None, about("The fingerprint of a device.")] = None
    email: Annotated[
        Email | None, about("The e-mail address of a customer or a trial.", "ada@example.com")
    ] = None
    text: Annotated[
        Text | None,
        about("A key, a token, an IP address, the ID of an order, customer or license, a name, or a label."),
    ] = None
    limit: Annotated[Limit, about("The maximum number of licenses in a page.", 50)] = 50
    cursor: Annotated[str | None, about("The `next_cursor` of the previous page.")] = None


async def search_licenses(call: Call, body: LicenseSearch) -> Answer:
    """Search licenses.

    Searches by license key, the end of a key, a device's token or fingerprint, the e-mail address of a
    customer or a trial, or a `text` that is interpreted by its form: a key, a token, an IP address, the ID of
    an order, a customer or a license, the full name of a customer or product, or the beginning of a label.
    New devices and labels can be found after a few seconds. The newest licenses come first; a page may have
    fewer licenses than `limit`.
    """
    ways = {name: value for name in _WAYS if (value := getattr(body, name)) is not None}
    if len(ways) != 1:
        detail = f"must have one of {', '.join(_WAYS)}"
        raise InvalidBody([FieldError("", "missing" if not ways else "invalid", detail)])
    call.asked = body
    query = SearchManaged(
        now=call.now,
        limit=body.limit,
        after=lists.read_cursor(call, tuple[lists.Number, lists.Number]),
        only_product_id=call.only_product_id,
        **ways,
    )
    return await call.ask(query, lambda page: write_page(call, page))


ROUTES = (
    Route(
        "POST",
        "/licenses/search",
        Right.READ,
        search_licenses,
        gives=Page[License],
        example={"key_end": "YCJ5G"},
        is_read=True,
    ),
)
