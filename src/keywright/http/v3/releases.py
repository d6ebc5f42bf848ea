"""Releases of products, and their files."""

import asyncio
from datetime import date, timedelta
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct, defstruct
from msgspec.structs import asdict, fields

from keywright.core.errors import BodyIncomplete, BodyTooLarge, FilesUnavailable, NotFound, RequestTooSlow
from keywright.core.fields import Time, about
from keywright.http.answer import BYTES_TYPE, Answer, answer_file
from keywright.http.middleware.routing import Right
from keywright.http.v3.answers import created, etag_of, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.crud import Texts, crud_routes
from keywright.http.v3.fields import Body, Query
from keywright.http.v3.route import Route
from keywright.http.v3.schemas import Page
from keywright.licensing.updates import model
from keywright.licensing.updates.model import Release, ReleaseFile, Storage
from keywright.provisioning.releases import commands
from keywright.provisioning.releases.commands import RELEASE, Digests, ReleaseWithFiles
from keywright.provisioning.releases.fields import NewFile
from keywright.provisioning.releases.files import Upload, check_files, receiving
from keywright.provisioning.releases.handlers import require_uploadable
from keywright.search.statistics import MAX_VERSION_DAYS

#: The longest wait for a chunk of an upload, in seconds, and the number of bytes that are written at once.
_PIECE_TIMEOUT, _WRITTEN_AT_ONCE = 30, 1 << 20

File = defstruct(
    "File",
    [
        *((one.name, one.type) for one in fields(ReleaseFile)),
        ("storage", Annotated[Storage, about("Where the file is stored: here, or at its `url`.", "local")]),
    ],
    namespace={"__doc__": "A file of a release."},
)


class Publish(Body):
    """How to publish a release."""

    released_at: Annotated[Time | None, about("An earlier publication time, instead of now.", None)] = None
    allow_older: Annotated[
        bool, about("Whether its version may be lower than the highest one of its channel.")
    ] = False


def show_file(one: ReleaseFile) -> Struct:
    """The file as v3 shows it."""
    shown: Struct = File(**asdict(one), storage=one.storage)
    return shown


def _write_file(one: ReleaseFile) -> Answer:
    return ok(show_file(one), etag=etag_of(show_file(one)))


def _write_release(one: Release) -> Answer:
    return ok(one, etag=etag_of(one))


async def publish_release(call: Call, body: Publish) -> Answer:
    """Publish a release.

    First, every file is compared with its SHA-256, and signatures are verified with the product's
    `public_keys`. The version must be newer than the newest of its channel, unless `allow_older` is true; a
    version that ranks equal to another is refused. Publishing fixes the order of versions, and is final;
    publishing again changes nothing.
    """
    found = await _check(call)
    command = commands.PublishRelease(
        context=call.context,
        **call.named("release_id"),
        checked=found,
        released_at=body.released_at,
        allow_older=body.allow_older,
    )
    return await call.change(command, _write_release)


async def _check(call: Call) -> list[ReleaseFile]:
    found: ReleaseWithFiles = await call.desk.query(commands.ListFiles(**call.named("release_id")), call)
    if found.release.rank is not None:
        return []
    return await asyncio.to_thread(check_files, call.settings.files_folder, found)


async def yank_release(call: Call) -> Answer:
    """Yank a release.

    The release is no longer offered, and can no longer be downloaded. Programs that have installed it keep it
    until you publish a newer version.
    """
    command = commands.YankRelease(context=call.context, **call.named("release_id"))
    return await call.change(command, _write_release)


async def add_release_file(call: Call, body: NewFile) -> Answer:
    """Add a file to a release.

    Only possible for drafts. Then upload its bytes to `PUT /files/{file_id}/content`. A file with a `url`
    stays on your own server instead: downloads are redirected there, and Keywright never fetches it.
    """
    command = commands.AddFile(context=call.context, **call.named("release_id"), fields=body)

    def write(file: ReleaseFile) -> Answer:
        shown = show_file(file)
        return created(shown, f"{call.root}/files/{file.id}", etag=etag_of(shown))

    return await call.change(command, write)


async def list_release_files(call: Call) -> Answer:
    """List the files of a release.

    Returns all of them, sorted by name.
    """

    def write(found: ReleaseWithFiles) -> Answer:
        return ok(Page(list(map(show_file, found.files)), None))

    return await call.ask(commands.ListFiles(**call.named("release_id")), write)


async def get_release_file(call: Call) -> Answer:
    """Get a file.

    Returns the description of a file, without its bytes.
    """
    return await call.ask(commands.GetFile(**call.named("file_id")), lambda found: _write_file(found[1]))


async def delete_release_file(call: Call) -> Answer:
    """Delete a file.

    Only possible for files of drafts.
    """
    return await call.change(commands.DeleteFile(context=call.context, **call.named("file_id")), no_content)


async def upload_release_file(call: Call) -> Answer:
    """Upload the bytes of a file.

    The body is the content itself, of any media type and at most `max_file_bytes` long. It can be uploaded
    once: other bytes for the same file are refused, and the same bytes change nothing. Incomplete uploads are
    discarded.
    """
    found = await call.desk.query(commands.GetFile(**call.named("file_id")), call)
    file: ReleaseFile = found[1]
    require_uploadable(file)
    digests = await _receive(call)
    command = commands.StoreContent(context=call.context, **call.named("file_id"), digests=digests)
    return await call.change(command, _write_file)


async def _receive(call: Call) -> Digests:
    """Store the body in the file folder, and return its digests. Raises ``ContentMismatch`` if the file has,
    or is to have, other bytes.
    """
    settings = call.settings
    announced = call.headers.get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > settings.max_file_bytes:
        raise BodyTooLarge
    open_upload = partial(receiving, settings.files_folder, settings.max_file_bytes)
    try:
        opened = open_upload()
        upload = await asyncio.to_thread(opened.__enter__)
        try:
            await _write_pieces(call, upload)
            found = await call.desk.query(commands.GetFile(**call.named("file_id")), call)
            return await asyncio.to_thread(upload.finish, found[1])
        finally:
            await asyncio.to_thread(opened.__exit__, None, None, None)
    except OSError as problem:
        raise FilesUnavailable(str(problem)) from problem


async def _write_pieces(call: Call, upload: Upload) -> None:
    held = bytearray()
    while True:
        try:
            async with asyncio.timeout(_PIECE_TIMEOUT):
                message = await call.receive()
        except TimeoutError:
            raise RequestTooSlow from None
        if message["type"] == "http.disconnect":
            raise BodyIncomplete
        held += message.get("body", b"")
        is_last = not message.get("more_body", False)
        if held and (is_last or len(held) >= _WRITTEN_AT_ONCE):
            await asyncio.to_thread(upload.write, bytes(held))
            held.clear()
        if is_last:
            return


async def download_release_file(call: Call) -> Answer:
    """Download the bytes of a file.

    Works for releases in any state, even if the product's downloads are `closed`. Download a file with a
    `url` from that URL, without the API key.
    """

    def write(found: tuple[Release, ReleaseFile]) -> Answer:
        settings, file = call.settings, found[1]
        if not file.is_there:
            raise NotFound(f"file {file.id}")
        folder, accel = settings.files_folder, settings.files_accel_path
        return answer_file(folder, accel, file, call.headers.get(b"if-range"), has_credentials=True)

    return await call.ask(commands.GetFile(**call.named("file_id")), write)


class UsesQuery(Query):
    """The period to report on."""

    days: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_VERSION_DAYS)], about("How many days to report, up to today.", 30)
    ] = 30


class UsesOfDay(Struct):
    """What was counted for a release on one day (UTC)."""

    day: Annotated[date, about("The day.", "2026-11-27")]
    checks: Annotated[int, about("Update checks by programs that have the release.", 40)]
    offers: Annotated[int, about("Update checks to which the release was offered.", 12)]
    downloads: Annotated[int, about("Downloads, counted at the first byte.", 9)]


async def list_release_uses(call: Call, query: UsesQuery) -> Answer:
    """List the daily counts of a release.

    Oldest day first; days without any are omitted. Counts are updated about once a minute.
    """
    asked = commands.ListUses(**call.named("release_id"), now=call.now, days=query.days)
    epoch = date(1970, 1, 1)

    def write(found: list[model.UsesOfDay]) -> Answer:
        return ok(Page([UsesOfDay(epoch + timedelta(days=day), *rest) for day, *rest in found], None))

    return await call.ask(asked, write)


_ONE, _FILE = "/releases/{release_id}", "/files/{file_id}"
_FILES = f"{_ONE}/files"
_NOT_READY = ("not_found", "release_not_ready")


ROUTES = (
    *crud_routes(
        RELEASE,
        Texts(
            create="Creates a draft: add files to it, then publish it to offer it. An API key for only its "
            "product may do this, too.",
            delete="Only a draft or a yanked release can be deleted.",
            get="Returns the release without its files.",
            update="Omitted members keep their values. Once a release was published, its version and "
            "channel cannot change, and its rollout can only grow.",
        ),
        example={"product_id": 17, "version": "3.2.1", "notes": "Faster exports."},
        change={"is_critical": True},
        refusals={
            "POST": ("already_exists",),
            "PATCH": ("already_exists", "changed_meanwhile"),
            "DELETE": ("still_in_use", "changed_meanwhile"),
        },
    ),
    Route(
        "POST",
        f"{_ONE}/publish",
        Right.WRITE,
        publish_release,
        needs_body=False,
        gives=Release,
        refusals=_NOT_READY,
        example={"allow_older": False},
    ),
    Route("POST", f"{_ONE}/yank", Right.WRITE, yank_release, gives=Release, refusals=_NOT_READY),
    Route(
        "POST",
        _FILES,
        Right.WRITE,
        add_release_file,
        gives=File,
        status=201,
        refusals=(*_NOT_READY, "already_exists"),
        example={"name": "paint-3.2.1.msi", "platform": "windows", "arch": "x86_64"},
    ),
    Route("GET", _FILES, Right.READ, list_release_files, gives=Page[File], refusals=("not_found",)),  # type: ignore[valid-type]
    Route("GET", _FILE, Right.READ, get_release_file, gives=File, refusals=("not_found",)),
    Route("DELETE", _FILE, Right.WRITE, delete_release_file, status=204, refusals=_NOT_READY),
    Route(
        "GET",
        f"{_FILE}/content",
        Right.READ,
        download_release_file,
        # Of a file with a ``url``: the caller would send its API key there.
        refusals=("not_found", "malformed_body"),
        produces=(BYTES_TYPE,),
    ),
    Route(
        "GET",
        f"{_ONE}/uses",
        Right.READ,
        list_release_uses,
        gives=Page[UsesOfDay],
        refusals=("not_found",),
        example={"days": "30"},
    ),
    Route(
        "PUT",
        f"{_FILE}/content",
        Right.WRITE,
        upload_release_file,
        gives=File,
        refusals=(*_NOT_READY, "content_mismatch", "body_too_large"),
        streams=True,
    ),
)
