"""Import a table in a job: upload it, choose the field of each column, and preview its first rows."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec
from starlette.responses import Response

from keywright.config import Settings
from keywright.core.errors import MalformedForm, SourceUnusable, UnknownJob
from keywright.db import ReadTransaction
from keywright.http.admin.event_views import reader_zone
from keywright.http.admin.job_text import explain_line
from keywright.http.admin.sections.licenses.filter import Names
from keywright.http.pages.formats import N_, UTC_NAME, _, find_zone
from keywright.http.pages.forms import UploadedFile, require_id
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.jobs import files, orders
from keywright.jobs import store as job_store
from keywright.jobs.model import AddToUpload, Job, JobState, StartImport, StartUpload
from keywright.jobs.orders import Import
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.store import find_licenses
from keywright.provisioning.importers import uploads
from keywright.provisioning.importers.columns import METADATA, PARSERS, PRESETS, guess_fields
from keywright.provisioning.importers.model import ImportedLicense
from keywright.provisioning.importers.tables import Unusable
from keywright.provisioning.importers.uploads import AS_METADATA, MAX_UPLOAD, Format, TableParts
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import find_titles, names_of

#: The presets and the names of their shops.
_SHOPS: Final = {
    "keygen": "Keygen",
    "lemonsqueezy": "Lemon Squeezy",
    "edd": "Easy Digital Downloads",
    "gumroad": "Gumroad",
}
#: The names of fields on the pages, where they differ from those in the API.
_LABELS: Final = {
    "key": N_("license key"),
    "expires_at": N_("expires"),
    "valid_for_days": N_("valid for"),
    "times_activated_max": N_("limit"),
    "product_id": N_("product ID"),
    "order_id": N_("order ID"),
    "customer_id": N_("customer ID"),
    "customer_email": N_("customer: e-mail"),
    "customer_name": N_("customer: name"),
    "customer_language": N_("customer: language"),
}
#: The number of rows that are shown, and the most columns that can have a field.
_SHOWN_ROWS, _MAX_COLUMNS = 20, 200
#: The most bytes of a table that one command stores, which takes some milliseconds.
_COMMAND_BYTES = 64 * 1024
_MAX_NAME = 200
_NO_FILE = N_("Choose a file.")
_NO_KEY = N_("Choose the column that contains the license key.")


class Draft(NamedTuple):
    """An uploaded table: its job, its order with the chosen fields, the names of its columns, its first rows,
    an error about the fields, existing licenses by key, and names of products and customers.
    """

    job: Job
    order: Import
    columns: list[str]
    rows: list[ImportedLicense | Unusable]
    error: str
    existing: Mapping[str, License] = {}
    names: Mapping[str, Mapping[int, str]] = {}


class Imports:
    """Pages that import a table."""

    @page("/import", methods=("GET", "POST"), right=Right.CHANGE, max_upload=MAX_UPLOAD)
    def upload(self, request: PageRequest) -> Response:
        """Upload a table."""
        file, errors = request.form.file("table"), {}
        if request.is_post and (file is None or not file.content):
            errors["table"] = _(_NO_FILE)
        elif file is not None:
            try:
                return request.redirect(f"/licenses/import/{_save_upload(request, file).id}")
            except SourceUnusable as refusal:
                errors["table"] = refusal.reason
        return request.render("licenses/import.html", errors=errors, max_megabytes=MAX_UPLOAD // 2**20)

    @page("/import/{id:number}", methods=("GET", "POST"), right=Right.CHANGE)
    def choose_columns(self, request: PageRequest) -> Response:
        """Choose the field of each column, and start the import."""
        number = require_id(request.path_params["id"])
        job = request.ask(lambda tx: _get_upload(tx, request, number))
        if job.state is not JobState.DRAFT:
            # The import has already started: the form was sent twice.
            return request.redirect(f"/jobs/{number}")
        draft = request.ask(lambda tx: _read_draft(tx, request, job))
        if request.form.get("do", "") == "start" and not draft.error:
            started = msgspec.to_builtins(draft.order)
            # The same form may have just started it.
            with suppress(UnknownJob):
                request.change(StartImport(context=request.context, job_id=number, order=started))
            return request.redirect(f"/jobs/{number}")
        return _render_draft(request, draft)


def _save_upload(request: PageRequest, file: UploadedFile) -> Job:
    """Store the table as a draft. Raises ``SourceUnusable``."""
    name = file.name[:_MAX_NAME] or "table"
    table = uploads.split_table(file.content, name)
    zone = reader_zone(request).key
    order = _with_settings(Import(file_name=name, format=table.format, zone=zone), request.site.settings)
    job: Job = request.change(StartUpload(context=request.context, order=msgspec.to_builtins(order)))
    for chunks in _group(table):
        request.change(AddToUpload(context=request.context, job_id=job.id, parts_of_table=chunks))
    complete = AddToUpload(context=request.context, job_id=job.id, parts_of_table=(), total=table.amount)
    request.change(complete)
    return job


def _with_settings(order: Import, settings: Settings) -> Import:
    return msgspec.structs.replace(
        order, ip_addresses=settings.ip_addresses, keep_addresses_days=settings.keep_addresses_days
    )


def _group(table: TableParts) -> Iterator[tuple[tuple[int, bytes], ...]]:
    """The chunks of a table, in groups that one command stores."""
    chunks = [(files.HEADER, table.header)] if table.format is Format.CSV else []
    size = 0
    for part in table.parts:
        if size + len(part.text) > _COMMAND_BYTES:
            yield tuple(chunks)
            chunks, size = [], 0
        chunks.append((part.first_line, part.text))
        size += len(part.text)
    yield tuple(chunks)


def _get_upload(tx: ReadTransaction, request: PageRequest, number: int) -> Job:
    """The upload with this ID, if it is complete and the user's own. Raises ``UnknownJob``."""
    job = job_store.find_job(tx, number)
    if job is None or job.kind != "import" or job.created_by != request.user.id:
        raise UnknownJob(number)
    if job.state is JobState.DRAFT and (job.total is None or not job_store.has_chunks(tx, number)):
        raise UnknownJob(number)
    return job


def _read_draft(tx: ReadTransaction, request: PageRequest, job: Job) -> Draft:
    order = orders.order_of(job)
    if not isinstance(order, Import):
        raise UnknownJob(job.id)
    columns = files.list_columns(tx, job, order)[:_MAX_COLUMNS]
    zone = request.form.get("zone", order.zone)
    if find_zone(zone) is None:
        raise MalformedForm
    order = msgspec.structs.replace(order, zone=zone)
    preset = request.form.get("preset", "") or None
    if preset is not None and preset not in PRESETS:
        raise MalformedForm
    chosen = _read_fields(request, columns)
    if chosen is not None:
        return _try(tx, job, msgspec.structs.replace(order, fields=chosen, preset=preset), columns)
    guesses = dict.fromkeys(_guess(columns, preset, is_loose=is_loose) for is_loose in (True, False))
    drafts = [
        _try(tx, job, msgspec.structs.replace(order, fields=fields, preset=preset), columns)
        for fields in guesses
    ]
    # A column "Product" may have IDs or names: use the guess with which every row is valid.
    return next((one for one in drafts if not any(isinstance(row, Unusable) for row in one.rows)), drafts[-1])


def _try(tx: ReadTransaction, job: Job, order: Import, columns: list[str]) -> Draft:
    """The draft with the first rows, read with the order's fields."""
    error = _find_error(order.fields)
    part = files.find_part(tx, job, order, after=0)
    if error or part is None:
        return Draft(job, order, columns, [], error)
    options = files.read_options(tx, job, order)
    try:
        rows = list(uploads.read_part(options, part.first_line, part.text, _SHOWN_ROWS))
    except SourceUnusable as refusal:
        return Draft(job, order, columns, [], refusal.reason)
    usable = [one for one in rows if isinstance(one, ImportedLicense)]
    names: Names = {
        "product": names_of(tx, NameKind.PRODUCT, {one.product_id for one in usable if one.product_id}),
        "customer": find_titles(tx, {one.customer_id for one in usable if one.customer_id}),
    }
    return Draft(job, order, columns, rows, "", find_licenses(tx, [one.key for one in usable]), names)


def _read_fields(request: PageRequest, columns: list[str]) -> tuple[str, ...] | None:
    """The field of each column in the form; None if the form does not have them."""
    if request.form.get("do", "") in ("show", "start"):
        fields = [request.form.get(f"column-{place}", "") for place in range(len(columns))]
        if not {*fields} <= {value for value, _label in _field_options(fields)}:
            raise MalformedForm
        return tuple(fields)
    return None


def _guess(columns: list[str], preset: str | None, *, is_loose: bool) -> tuple[str, ...]:
    """The field of each column, guessed from the names of the columns."""
    guessed = guess_fields(columns, uploads.preset_of(preset), is_loose=is_loose)
    return tuple(_to_option(field, name) for field, name in zip(guessed, columns, strict=True))


def _to_option(field: str | None, column: str) -> str:
    is_own = field is not None and field.removeprefix(METADATA) == column.strip()[len(METADATA) :]
    return AS_METADATA if field is not None and field.startswith(METADATA) and is_own else field or ""


def _field_options(fields: tuple[str, ...] | list[str]) -> list[tuple[str, str]]:
    """The choices for a column, including the metadata names that a preset sets."""
    names = [(field, _label(field)) for field in PARSERS]
    others = [("activations", _("activations")), ("metadata", _("metadata (JSON)"))]
    kept = sorted({one for one in fields if one.startswith(METADATA) and len(one) <= _MAX_NAME})
    named = [(one, _label(one)) for one in kept]
    return [
        ("", _("not used")),
        *names,
        *others,
        (AS_METADATA, _("metadata, under the column's name")),
        *named,
    ]


def _find_error(fields: tuple[str, ...]) -> str:
    if "key" not in fields:
        return _(_NO_KEY)
    twice = [one for one in fields if one and one != AS_METADATA and fields.count(one) > 1]
    return _("Two columns cannot both be “%(field)s”.", field=_label(twice[0])) if twice else ""


def _label(field: str) -> str:
    if field.startswith(METADATA):
        return _("metadata: %(name)s", name=field.removeprefix(METADATA))
    # Only known names are translated: others come from the form.
    is_known = field in PARSERS or field == "activations"
    return _(_LABELS.get(field, field.replace("_", " "))) if is_known else field


def _render_draft(request: PageRequest, draft: Draft) -> Response:
    choices = list(zip(draft.columns, draft.order.fields, strict=True))
    shown: dict[str, Any] = {
        "job": draft.job,
        "order": draft.order,
        "choices": choices,
        "rows": draft.rows,
        "existing": draft.existing,
        "names": draft.names,
        "explain_line": explain_line,
        "statuses": {status.value: status.name.lower() for status in Status},
        "shops": [("", _("None")), *_SHOPS.items()],
        "zones": [
            (one, one) for one in dict.fromkeys((draft.order.zone, request.site.settings.time_zone, UTC_NAME))
        ],
        "options": _field_options(draft.order.fields),
    }
    errors = {"columns": draft.error} if draft.error and request.is_post else {}
    return request.render("licenses/import_columns.html", errors=errors, problem=draft.error, **shown)
