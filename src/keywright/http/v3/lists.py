"""Keyset pagination: a cursor encodes the position of the last item of a page."""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import UNSET, Meta

from keywright.core.errors import FieldError, InvalidBody, InvalidQuery
from keywright.core.nouns import MAX_COUNTED, ItemPage, ListQuery, Paging, position_of
from keywright.http.answer import Answer
from keywright.http.v3.answers import encode
from keywright.http.v3.call import Call
from keywright.http.v3.schemas import Page

#: A 64-bit integer, as the database stores it.
Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Text = Annotated[str, Meta(pattern="^[^\\x00]*$")]
Item = TypeVar("Item")
Position = TypeVar("Position")


#: Parameters that may differ between the pages of a list.
_OF_ANY_PLACE = frozenset({*ListQuery.__struct_fields__, "wait_seconds"})


def write_cursor(call: Call, position: Sequence[int | str | None]) -> str:
    """The cursor of the page after this position: the sort key and ID of the last item."""
    text = encode([_tag(call), *position])
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def read_cursor(call: Call, position: type[Position]) -> Position | None:
    """The position in the call's cursor, as a type such as ``tuple[int, int]``; None on the first page.
    Raises ``InvalidQuery``, or ``InvalidBody`` if the cursor is in the body, for a malformed cursor or one of
    another list, sort order, filter or search.
    """
    cursor = call.asked.cursor
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        tag, *values = msgspec.json.decode(text, type=list[int | str | None])
        if tag == _tag(call):
            return msgspec.convert(values, position)
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError):
        pass
    detail = "must be a next_cursor of this list"
    if call.asked is call.body:
        raise InvalidBody([FieldError("/cursor", "invalid", detail)])
    raise InvalidQuery([FieldError("cursor", "invalid", detail)])


def answer_page(
    call: Call,
    found: Sequence[Item],
    position_of: Callable[[Item], Sequence[int | str | None]],
    show: Callable[[Item], Any],
    *,
    total: int | None = None,
) -> Answer:
    """A page of the list that ``call`` asks for.

    ``found`` has up to ``limit + 1`` items: the extra one means that there is a next page. ``position_of``
    returns an item's position for its cursor, ``show`` its record. ``total`` is the number of matches,
    counted up to ``MAX_COUNTED + 1``; None if the caller did not ask for it.
    """
    limit = call.asked.limit
    shown = found[:limit]
    following = position_of(shown[-1]) if len(found) > limit else None
    page = Page([show(one) for one in shown], None)
    if total is not None and total > MAX_COUNTED:
        page.more_than = MAX_COUNTED
    else:
        page.total = UNSET if total is None else total
    return answer_found(call, page, following)


def answer_found(call: Call, page: Page[Any], following: Sequence[int | str | None] | None) -> Answer:
    """A page; the next one begins after the position ``following``, None on the last page."""
    if following is None:
        return Answer(200, encode(page))
    page.next_cursor = write_cursor(call, following)
    link = ((b"link", _link(call, page.next_cursor)),) if call.method == "GET" else ()
    return Answer(200, encode(page), link)


def read_paging(call: Call) -> Paging:
    """The page that the query of ``call`` asks for; its ``sort`` names a member with times or strings.

    Raises ``InvalidQuery``.
    """
    asked = call.asked
    position: Any = tuple[Number, Number] if asked.sort.endswith("_at") else tuple[_Text, Number]
    return Paging(asked.sort, read_cursor(call, position), asked.limit, asked.count)


def answer_items(call: Call, page: ItemPage[Any], show: Callable[[Any], Any]) -> Answer:
    """The answer with the page that was found for ``read_paging``."""
    sort = call.asked.sort
    return answer_page(call, page.items, lambda one: position_of(one, sort), show, total=page.total)


def _tag(call: Call) -> str:
    """A hash of the list with its sort order, filters and search, which ties a cursor to them."""
    asked = msgspec.structs.asdict(call.asked)
    own = {name: value for name, value in asked.items() if name not in _OF_ANY_PLACE}
    searched = None if call.body is call.asked else call.body
    return hashlib.sha256(encode([call.operation, call.path, own, searched])).hexdigest()[:12]


def _link(call: Call, next_cursor: str) -> bytes:
    """The link to the next page (RFC 8288)."""
    query = parse_qsl(call.scope["query_string"].decode())
    others = [(name, value) for name, value in query if name != "cursor"]
    path = call.scope["raw_path"].decode("latin-1")
    return f'<{path}?{urlencode([*others, ("cursor", next_cursor)])}>; rel="next"'.encode()
