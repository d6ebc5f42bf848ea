"""The static files of the pages: styles, scripts and icons.

The hash of its content is in the name of each file, so that browsers may cache it for good. Files are
compressed once and served from memory.
"""

import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from keywright.http.pages.urls import BASE

#: The colors and fonts that all pages share.
LOOK = Path(__file__).with_name("look.css")
_CACHE_HEADERS = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class _File(NamedTuple):
    media_type: str
    etag: str
    plain: bytes
    compressed: bytes


class StaticFiles:
    """Serves the files in a folder, and the look of all pages. Create it in a thread: compression takes a
    while.
    """

    def __init__(self, folder: Path, base: str = BASE) -> None:
        """``base`` is the path of the site."""
        self._files: dict[str, _File] = {}
        #: The address of each file by its plain name, for templates.
        self.urls: dict[str, str] = {}
        for path in (LOOK, *sorted(folder.iterdir())):
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:12]
            name = f"{path.name.split('.')[0]}.{digest}{path.suffix}"
            compressed = gzip.compress(content, 9, mtime=0)
            self._files[name] = _File(_MEDIA_TYPES[path.suffix], f'"{digest}"', content, compressed)
            self.urls[path.name] = f"{base}/static/{name}"

    async def serve(self, request: Request) -> Response:
        """The file of this name, compressed if the browser accepts that."""
        file = self._files.get(request.path_params["name"])
        if file is None:
            return Response("There is no such file.\n", 404, media_type="text/plain")
        headers = {**_CACHE_HEADERS, "etag": file.etag}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                file.compressed, headers={**headers, "content-encoding": "gzip"}, media_type=file.media_type
            )
        return Response(file.plain, headers=headers, media_type=file.media_type)
