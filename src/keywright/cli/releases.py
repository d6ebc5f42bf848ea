"""``keywright release …``, for build scripts: the commands are idempotent."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, WrongUsage, command, with_installation
from keywright.cli.tables import Limit, print_list
from keywright.core.nouns import List, Noun, Paging, list_members
from keywright.core.parsing import parse_integer
from keywright.licensing.updates.model import STABLE, FileKind, Release, ReleaseFile
from keywright.licensing.updates.queries import ExplainRelease
from keywright.licensing.updates.rules import Asked
from keywright.provisioning.products import PRODUCT, ProductQuery
from keywright.provisioning.releases import commands
from keywright.provisioning.releases import fields as release_fields
from keywright.provisioning.releases.commands import RELEASE, ReleaseWithFiles
from keywright.provisioning.releases.files import check_files, store_file

app = typer.Typer(no_args_is_help=True)
_MEMBERS = {one.name: one for one in list_members(release_fields.NewRelease)}
_FILE_MEMBERS = {one.name: one for one in list_members(release_fields.NewFile)}


def _parse_product(text: str) -> str:
    if text.isascii() and text.isdigit():
        _MEMBERS["product_id"].read(text)
    return text


_Product = Annotated[
    str,
    typer.Argument(metavar="PRODUCT", parser=_parse_product, help="The product's code or ID."),
]
_Version = Annotated[
    str, typer.Argument(metavar="VERSION", parser=_MEMBERS["version"].read, help="The version.")
]
_COLUMNS = ("id", "version", "channel", "state", "released at", "rollout")


def _find(here: Installation, noun: Noun, where: Any) -> Any:
    """Return the first record that matches, or None."""
    query: List = noun.list(paging=Paging(sort="id", after=None, limit=1), where=where)
    return next(iter(here.ask(query).items), None)


def _product_id(here: Installation, product: str) -> int:
    if product.isascii() and product.isdigit():
        return int(product)
    found = _find(here, PRODUCT, ProductQuery(code=product))
    if found is None:
        raise WrongUsage(f"no product has the code {product}; `keywright product list` lists the products")
    return int(found.id)


def _find_release(here: Installation, product: str, version: str) -> Release | None:
    where = release_fields.ReleaseQuery(product_id=_product_id(here, product), version=version)
    found: Release | None = _find(here, RELEASE, where)
    return found


def _get_release(here: Installation, product: str, version: str) -> Release:
    found = _find_release(here, product, version)
    if found is None:
        raise WrongUsage(f"there is no release {version}; create it with `keywright release create`")
    return found


def _print(release: Release, what: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(msgspec.to_builtins(release))
    else:
        output.print_line(f"Release {release.version} {what}")


@command(app, "keywright release create paint 3.2.1 --channel beta --notes-file CHANGES.md")
@with_installation
def create(
    here: Installation,
    product: _Product,
    version: _Version,
    *,
    channel: Annotated[
        str, typer.Option(metavar="CODE", parser=_MEMBERS["channel"].read, help="The channel of the release.")
    ] = STABLE,
    notes_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The release notes, as Markdown.")
    ] = None,
    rollout: Annotated[
        int,
        typer.Option(
            metavar="PERCENT", min=0, max=100, help="The share of devices that are offered the release."
        ),
    ] = 100,
    critical: Annotated[
        bool, typer.Option("--critical", help="A critical release: offer it to every device at once.")
    ] = False,
    free_for_expired: Annotated[
        bool,
        typer.Option("--free-for-expired", help="Also offer it to licenses that cover only older versions."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a draft of a release; an existing release of this version stays as it is."""
    release = _find_release(here, product, version)
    if release is not None:
        _print(release, f"already exists: {release.state}.", as_json=as_json)
        return
    given = {
        "product_id": _product_id(here, product),
        "version": version,
        "channel": channel,
        "notes": None if notes_file is None else _read_notes(notes_file),
        "rollout": {"percent": rollout},
        "is_critical": critical,
        "is_free_for_expired": free_for_expired,
    }
    fields = msgspec.convert(given, release_fields.NewRelease)
    made = here.change(commands.CreateRelease(context=here.context, fields=fields))
    _print(made, "created as a draft.", as_json=as_json)


def _read_notes(file: Path) -> Any:
    try:
        return _MEMBERS["notes"].check(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise WrongUsage(f"--notes-file: {file} is not text in UTF-8") from None
    except ValueError as problem:
        raise WrongUsage(f"--notes-file: {file} {problem}") from None


@command(
    app,
    "keywright release upload paint 3.2.1 windows/x86_64=paint.msi macos/arm64=paint.dmg",
    "keywright release upload paint 3.2.1 paint.msi --platform windows --arch x86_64",
    "keywright release upload paint 3.2.1 latest.yml paint-3.2.1.exe paint-3.2.1.exe.blockmap",
)
@with_installation
def upload(
    here: Installation,
    product: _Product,
    version: _Version,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…", help="The files; PLATFORM=FILE or PLATFORM/ARCH=FILE sets a file's platform."
        ),
    ],
    *,
    kind: Annotated[
        FileKind | None, typer.Option(help="The kind of the files, if their names do not show it.")
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", parser=release_fields.parse_word, help="The operating system of the files."
        ),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", parser=release_fields.parse_word, help="The processor architecture of the files."
        ),
    ] = None,
    signature: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your signature of the file: .sig or .minisig.")
    ] = None,
) -> None:
    """Upload files to a draft of a release.

    Uploading the same bytes under the same name again changes nothing. The kind of a file follows from its
    name: latest.yml, appcast.xml and releases.win.json are feeds, and so on. A signature next to a file,
    FILE.sig or FILE.minisig, is uploaded with it.
    """
    release = _get_release(here, product, version)
    if signature is not None and len(files) > 1:
        raise WrongUsage("--signature needs exactly one file")
    for path, its_platform, its_arch in list(map(_read_target, files)):
        fields = release_fields.NewFile(
            name=_name_of(path),
            kind=kind or release_fields.kind_of(path.name),
            platform=its_platform or platform,
            arch=its_arch or arch,
            signature=_read_signature(signature or _find_signature(path)),
        )
        _upload(here, release, path, fields)
        output.print_line(f"{path.name} is in release {release.version}.")


def _read_target(text: str) -> tuple[Path, str | None, str | None]:
    """Split ``PLATFORM/ARCH=FILE``; return the file, platform and architecture. A text that names an existing
    file is not split.
    """
    target, equals, name = text.rpartition("=")
    path = Path(name if equals and not Path(text).exists() else text)
    if not path.is_file():
        raise WrongUsage(f"there is no file {path}")
    if str(path) == text:
        return path, None, None
    platform, _, arch = target.partition("/")
    try:
        return path, release_fields.parse_word(platform), release_fields.parse_word(arch) if arch else None
    except ValueError as problem:
        raise WrongUsage(f"the platform in {text} {problem}") from None


def _name_of(path: Path) -> str:
    try:
        return str(_FILE_MEMBERS["name"].check(path.name))
    except ValueError as problem:
        raise WrongUsage(f"{path.name} {problem}") from None


def _find_signature(path: Path) -> Path | None:
    """Find the signature next to a file, with the name that minisign or Tauri gives it."""
    beside = (path.with_name(f"{path.name}.{one}") for one in ("sig", "minisig"))
    return next((one for one in beside if one.is_file()), None)


def _read_signature(path: Path | None) -> str | None:
    """Read a signature: text as it is, the 64 bytes of a bare signature as base64."""
    if path is None:
        return None
    content = path.read_bytes()
    try:
        return base64.b64encode(content).decode() if len(content) == 64 else content.decode().strip()
    except UnicodeDecodeError:
        raise WrongUsage(f"{path} is not a signature") from None


def _upload(here: Installation, release: Release, path: Path, fields: release_fields.NewFile) -> None:
    found: ReleaseWithFiles = here.ask(commands.ListFiles(release_id=release.id))
    file: ReleaseFile | None = next((one for one in found.files if one.name == fields.name), None)
    if file is None:
        add = commands.AddFile(context=here.context, release_id=release.id, fields=fields)
        file = here.change(add)
    elif (file.kind, file.platform, file.arch) != (fields.kind, fields.platform, fields.arch):
        raise WrongUsage(
            f"release {release.version} already contains {file.name} as another kind or for another platform"
        )
    elif fields.signature not in (None, file.signature):
        raise WrongUsage(f"{file.name} is in release {release.version} without this signature")
    digests = store_file(here.settings.files_folder, path, file, here.settings.max_file_bytes)
    here.change(commands.StoreContent(context=here.context, file_id=file.id, digests=digests))


@command(app, "keywright release publish paint 3.2.1")
@with_installation
def publish(
    here: Installation,
    product: _Product,
    version: _Version,
    *,
    allow_older: Annotated[
        bool, typer.Option("--allow-older", help="Publish it even if its channel has a newer version.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Publish a release, after verifying its files and signatures.

    A release that is already published stays as it is.
    """
    release = _get_release(here, product, version)
    found: ReleaseWithFiles = here.ask(commands.ListFiles(release_id=release.id))
    checked: Sequence[ReleaseFile] = ()
    if release.rank is None:
        checked = check_files(here.settings.files_folder, found)
    published = here.change(
        commands.PublishRelease(
            context=here.context, release_id=release.id, checked=checked, allow_older=allow_older
        )
    )
    _print(published, "published.", as_json=as_json)


@command(app, "keywright release yank paint 3.2.1")
@with_installation
def yank(here: Installation, product: _Product, version: _Version, *, as_json: AsJson = False) -> None:
    """Yank a release: it is no longer offered or downloadable.

    Programs that have installed it can be updated only to a higher version.
    """
    release = _get_release(here, product, version)
    yanked = here.change(commands.YankRelease(context=here.context, release_id=release.id))
    _print(yanked, "yanked.", as_json=as_json)


@command(app, "keywright release list paint", name="list")
@with_installation
def list_releases(
    here: Installation, product: _Product, *, limit: Limit = None, as_json: AsJson = False
) -> None:
    """List the releases of a product in order of ID."""
    where = release_fields.ReleaseQuery(product_id=_product_id(here, product))
    print_list(
        here,
        lambda paging: commands.ListReleases(paging=paging, where=where),
        limit=limit,
        as_json=as_json,
        columns=_COLUMNS,
        to_row=_row,
        to_json=msgspec.to_builtins,
    )


def _row(one: Release) -> list[object]:
    released = None if one.released_at is None else output.format_time(one.released_at)
    rollout = f"{one.rollout.percent} %"
    return [one.id, one.version, one.channel, one.state, released, rollout]


@command(app, "keywright release explain paint 3.2.1 --license 17 --platform windows")
@with_installation
def explain(
    here: Installation,
    product: _Product,
    version: _Version,
    *,
    license_id: Annotated[
        int | None, typer.Option("--license", metavar="ID", parser=parse_integer, help="The license.")
    ] = None,
    app_version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="The version that the device runs now.")
    ] = None,
    platform: Annotated[
        str | None, typer.Option(metavar="NAME", help="The device's operating system.")
    ] = None,
    arch: Annotated[
        str | None, typer.Option(metavar="NAME", help="The device's processor architecture.")
    ] = None,
) -> None:
    """Explain whether a license is offered a release: show every rule, with yes or no."""
    release = _get_release(here, product, version)
    asked = Asked(app_version=app_version, platform=platform, arch=arch)
    query = ExplainRelease(release_id=release.id, now=here.context.now, license_id=license_id, asked=asked)
    rows = [("yes" if one.passed else "no", one.code, one.detail) for one in here.ask(query)]
    output.print_table(("passed", "code", "rule"), rows)
