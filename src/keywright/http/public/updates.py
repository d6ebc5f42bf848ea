"""The URLs for update frameworks: ``/u/{token}/{product}/…``, with an update token as the credential, and
``/u/open/{product}/…`` for products whose updates need no license.
"""

from urllib.parse import unquote

from keywright.core import errors as e
from keywright.core.parsing import is_storable
from keywright.http.answer import Answer
from keywright.http.middleware.call import Call
from keywright.http.public.downloads import Downloads
from keywright.http.update_formats import UpdateRequest, list_formats
from keywright.licensing.updates.model import STABLE

#: ``OPEN`` stands in place of a token. ``BY_HAND`` precedes the format's path segments if a person checks for
#: updates: it bypasses staged rollouts.
OPEN, BY_HAND = "open", "by-hand"


class Updates(Downloads):
    """The URLs for update frameworks, as an interface."""

    path, operation, fewest_words, most_words = b"/u/", "update_feed", 3, 8

    async def _answer(self, call: Call) -> Answer:
        """Answer in the format that the path names. Raises ``NoSuchAddress`` and the format's errors."""
        path = call.scope["raw_path"].decode("latin-1")
        token, product, *rest = [unquote(one) for one in path.split("/")[2:]]
        words = tuple(rest)
        format = next((one for one in list_formats() if one.fits(words)), None)
        if format is None or not all(one and is_storable(one) for one in (token, product, *words)):
            raise e.NoSuchAddress
        options = [one.lower() for one in words[: -format.words]]
        channels = [one for one in options if one != BY_HAND]
        if len(options) > 2 or len(channels) > 1:
            raise e.NoSuchAddress
        request = UpdateRequest(
            call,
            self.send,
            self.settings.public_url,
            None if token.lower() == OPEN else token,
            product.lower(),
            channels[0] if channels else STABLE,
            BY_HAND in options,
            words[-format.words :],
        )
        return await format.answer(request)

    def write_error(self, error: e.KeywrightError, call: Call | None = None) -> Answer:
        """Return the error as one sentence; a header states the reason for a refused download."""
        answer = super().write_error(error, call)
        answer.headers += ((b"referrer-policy", b"no-referrer"),)
        if isinstance(error, e.DownloadRefused):
            answer.headers += ((b"keywright-update", str(error.reason).encode()),)
        return answer
