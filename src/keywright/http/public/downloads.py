"""Downloads of release files: a ticket in the URL is the credential, and the license is checked again."""

from urllib.parse import unquote

from starlette.types import Receive, Scope

from keywright.config import Settings
from keywright.core import errors as e
from keywright.core.crypto import KeyRing
from keywright.engine.desk import Desk
from keywright.http.answer import Answer, answer_file, error_headers
from keywright.http.middleware.call import Call
from keywright.http.middleware.public_interface import PublicAction, PublicInterface
from keywright.http.middleware.routing import Address, Right
from keywright.http.update_formats import begins
from keywright.licensing.updates.model import ReleaseFile
from keywright.licensing.updates.queries import Download, FindDownload
from keywright.licensing.updates.tickets import read_ticket

#: The actor of a request that has an ``Authorization`` header.
_WITH_CREDENTIALS = "program:with-credentials"


class Downloads(PublicInterface):
    """The download URLs, as an interface."""

    path, operation, fewest_words, most_words = b"/d/", "download", 2, 2
    has_keys_in_body = False

    def __init__(self, settings: Settings, desk: Desk, ring: KeyRing) -> None:
        self.desk, self.settings = desk, settings
        self._folder, self._accel = settings.files_folder, settings.files_accel_path
        self._ring = ring
        action = PublicAction(self.operation, Right.NONE, changes=False, answer=self._answer)
        self._address = Address[PublicAction]((self.operation, None), {"GET": action})

    def open_call(self, scope: Scope, receive: Receive) -> Call | None:
        """Return the call for a request; None if the path is not this interface's."""
        path: bytes = scope["raw_path"]
        if not path.startswith(self.path):
            return None
        is_file = self.fewest_words < path.count(b"/") <= self.most_words + 1
        call = Call(self, scope, receive, self._address if is_file else None)
        # Update clients repeat the credentials for their feed. Ignore them: the ticket is the credential.
        if call.headers.pop(b"authorization", None) is not None:
            call.actor = _WITH_CREDENTIALS
        call.has_body = False
        return call

    def write_error(self, error: e.KeywrightError, _call: Call | None = None) -> Answer:
        """Return the error as one sentence of plain text: people see it in their browsers."""
        text = error.fill(error.sentence)
        kind = (b"content-type", b"text/plain; charset=utf-8")
        return Answer(error.status, text.encode(), error_headers(error), content_type=kind)

    async def _answer(self, call: Call) -> Answer:
        """Return the ticket's file."""
        _, _, text, name = call.scope["raw_path"].decode("latin-1").split("/")
        ticket = read_ticket(self._ring, text.lower(), call.now)
        if ticket is None:
            raise e.NoSuchAddress
        found: Download = await self.desk.query(FindDownload(ticket=ticket, now=call.now), call)
        if unquote(name).lower() != found.file.name.lower():
            raise e.NoSuchAddress
        answer = self.send(call, found.file)
        answer.license_id = found.license_id
        if begins(call):
            answer.releases = ((found.release.id, "downloads"),)
        return answer

    def send(self, call: Call, file: ReleaseFile) -> Answer:
        """Return a response with the file. Raises ``CredentialsElsewhere`` and ``FilesUnavailable``."""
        is_known = call.actor == _WITH_CREDENTIALS
        if_range = call.headers.get(b"if-range")
        return answer_file(self._folder, self._accel, file, if_range, has_credentials=is_known)
