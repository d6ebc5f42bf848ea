"""The views of the list of licenses that a user has saved."""

from urllib.parse import parse_qsl, urlencode

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import TooManyViews
from keywright.http.admin.sections.licenses import filter as license_filter
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.languages import _
from keywright.http.pages.page import page
from keywright.http.pages.render import url
from keywright.http.pages.request import PageRequest
from keywright.identity.commands import DeleteView, SaveView
from keywright.identity.model import Right
from keywright.identity.store import list_views

#: The longest filter of a view, in characters.
_MAX_QUERY = 2_000


class Views:
    """Pages that save and delete views."""

    @page("/views", methods=("POST",), right=Right.LOOK)
    def save_view(self, request: PageRequest) -> Response:
        """Save the filter in the form under a name."""
        texts = {one: request.form[one] for one in license_filter.NAMES if request.form.get(one, "")}
        query, back = urlencode(texts), license_filter.path_of(texts)
        try:
            name = parsing.parse_name(request.form.get("name", ""))
            if len(query) > _MAX_QUERY:
                raise ValueError(f"must have at most {_MAX_QUERY:,} characters")
        except ValueError:
            return request.redirect(back, _("A view needs a name of 1 to 200 characters."), is_error=True)
        command = SaveView(context=request.context, user_id=request.user.id, name=name, query=query)
        try:
            request.change(command)
        except TooManyViews as refusal:
            return request.redirect(back, message_for(refusal).sentence, is_error=True)
        return request.redirect(back, _("The view %(name)s is saved.", name=name))

    @page("/views/delete", methods=("POST",), right=Right.LOOK)
    def delete_view(self, request: PageRequest) -> Response:
        """Delete a view."""
        name = request.form.get("name", "")
        request.change(DeleteView(context=request.context, user_id=request.user.id, name=name))
        return request.redirect("/licenses", _("The view %(name)s is deleted.", name=name))


def list_view_links(request: PageRequest) -> list[tuple[str, str]]:
    """The names of the user's views, each with the address of the list."""
    views = request.ask(lambda tx: list_views(tx, request.user.id))
    return [(one.name, url("/licenses", **dict(parse_qsl(one.query)))) for one in views]
