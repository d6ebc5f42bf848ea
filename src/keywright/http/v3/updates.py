"""Update checks by programs, explanations of which releases a license is offered, and update tokens."""

from datetime import datetime
from typing import Annotated

from msgspec import Struct

from keywright.core.errors import FieldError, InvalidBody
from keywright.core.fields import Id, Time, about
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3.answers import created, encode, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.client_schemas import Fingerprint, ProductName, Text, Token
from keywright.http.v3.fields import Body, ClientBody, LicenseKey, Query
from keywright.http.v3.route import JSON_TYPE, JWT_TYPE, Route
from keywright.http.v3.schemas import Page
from keywright.http.v3.signed import sign_update
from keywright.licensing.updates import tokens
from keywright.licensing.updates.model import STABLE, Known, ReleaseFile
from keywright.licensing.updates.notices import AnsweredNotice
from keywright.licensing.updates.queries import CheckedUpdate, CheckForUpdate, ExplainRelease
from keywright.licensing.updates.rules import Asked, UpdateCode, Verdict

_TIME = "2026-11-22T08:54:00Z"


class Program(Struct, kw_only=True):
    """What a program reports about itself. Members that are missing exclude no release."""

    app_version: Annotated[
        Text | None, about("The program's version; without one, every release is newer.", "3.1.0")
    ] = None
    platform: Annotated[
        Text | None, about("The program's operating system, as in the release's files.", "windows")
    ] = None
    arch: Annotated[Text | None, about("The program's processor, as in the release's files.", "x86_64")] = (
        None
    )
    channel: Annotated[Text, about("The least stable channel that the program wants.", "stable")] = STABLE
    os_version: Annotated[Text | None, about("The version of the operating system.", "12.4")] = None
    php_version: Annotated[Text | None, about("The version of PHP.", None)] = None
    wp_version: Annotated[Text | None, about("The version of WordPress.", None)] = None
    by_hand: Annotated[bool, about("Whether a person started the check: the rollout is then ignored.")] = (
        False
    )


class CheckUpdate(Program, ClientBody, kw_only=True):
    """The body of an update check."""

    license_key: Annotated[LicenseKey | None, about("The license key.", "KEY-1")] = None
    update_token: Annotated[Text | None, about("An update token, instead of a license key.", None)] = None
    fingerprint: Annotated[Fingerprint | None, about("The device's fingerprint.", "device-7f3a9c0e12b4")] = (
        None
    )
    token: Annotated[Token | None, about("The `token` of the device's activation.", None)] = None
    product: Annotated[
        ProductName | None, about("The `id` or `code` of the program's product.", "photo-editor")
    ] = None
    nonce: Annotated[Text | None, about("Returned unchanged in the answer.", None)] = None


class ExplainQuery(Program, Query, kw_only=True):
    """The license, device and program for which a release is explained."""

    license_id: Annotated[
        Id | None, about("The license; without one, the release is explained for everyone.", 7)
    ] = None
    activation_id: Annotated[Id | None, about("One of the license's activations.", None)] = None


class OfferedRelease(Struct):
    """The release to install."""

    version: Annotated[str, about("The release's version.", "3.2.1")]
    channel: Annotated[str, about("The release's channel.", "stable")]
    released_at: Annotated[datetime | None, about("When the release was published.", _TIME)]
    notes: Annotated[str | None, about("What is new, as Markdown.", "Faster exports.")]
    is_critical: Annotated[bool, about("Whether the update is urgent.", False)]


class OfferedFile(Struct):
    """The file of the release for the program's platform."""

    name: Annotated[str, about("The file's name.", "paint-3.2.1.msi")]
    url: Annotated[
        str, about("The file's URL, valid for at least 7 days.", "https://example.com/d/ae…/paint.msi")
    ]
    size: Annotated[int | None, about("The file's size in bytes.", 104857600)]
    sha256: Annotated[str | None, about("The file's SHA-256, in hex.", "9f86d081…")]
    signature: Annotated[str | None, about("The vendor's signature of the file.", None)]


class NotCovered(Struct):
    """A newer release that the license does not cover."""

    version: Annotated[str, about("The release's version.", "4.0.0")]
    released_at: Annotated[datetime | None, about("When the release was published.", _TIME)]
    renew_url: Annotated[str | None, about("Where the customer can renew the license.", None)]


class Update(Struct):
    """The result of an update check."""

    available: Annotated[bool, about("Whether there is something to install.", True)]
    code: Annotated[UpdateCode, about("The first finding.", "update_available")]
    codes: Annotated[tuple[UpdateCode, ...], about("All findings.", ["update_available"])]
    release: Annotated[OfferedRelease | None, about("The newest release that the license covers.")]
    file: Annotated[
        OfferedFile | None,
        about("The release's file; null if its files are for platforms and the call named none."),
    ]
    not_covered: Annotated[NotCovered | None, about("The newest release that the license does not cover.")]
    checked_at: Annotated[datetime, about("When the server checked this.", _TIME)]
    next_check_at: Annotated[datetime | None, about("When to check again.", _TIME)]
    nonce: Annotated[str | None, about("The `nonce` of the call.", None)]
    notices: Annotated[
        tuple[AnsweredNotice, ...],
        about("Notices about the program's version, the most severe first; at most 5.", []),
    ]


class ExplainedRule(Struct):
    """One rule, with its result for the release."""

    code: Annotated[UpdateCode, about("The code if the rule fails.", "newer_not_covered")]
    passed: Annotated[bool, about("Whether the rule passes.", True)]
    detail: Annotated[
        str, about("What the rule requires, or what is missing.", "The license covers the release.")
    ]


class Explanation(Struct):
    """The result of every rule about a release, in the order in which they are checked."""

    offered: Annotated[bool, about("Whether all rules pass.", True)]
    code: Annotated[UpdateCode, about("The code of the first rule that fails.", "update_available")]
    rules: Annotated[list[ExplainedRule], about("All rules.")]


async def find_update(call: Call, body: CheckUpdate) -> Answer:
    """Check for an update.

    Offers the newest release that the license covers for the program's channel and platform, and names the
    newest release that it does not cover. The status is always 200, and `code` gives the reason: an unknown
    license is a finding, too. Without `license_key` and `update_token`, send a `product` whose updates are
    open.

    With `Accept: application/jwt`, the answer is a signed token of the type `keywright-update+jwt`. It covers
    the version, the SHA-256 and the `nonce`, so that an old build cannot be offered as a new one.
    """
    if body.license_key is body.update_token is body.product is None:
        raise InvalidBody([FieldError("/license_key", "missing", "is missing: send it or update_token")])
    query = CheckForUpdate(
        now=call.now,
        key=None if body.update_token is not None else body.license_key,
        update_token=body.update_token,
        fingerprint=body.fingerprint,
        token=body.token,
        product=body.product,
        asked=_asked(body),
        only_product_id=call.only_product_id,
    )
    found: CheckedUpdate = await call.desk.query(query, call)
    call.is_key_unknown = found.decision.code is UpdateCode.UNKNOWN_LICENSE
    answer = _write(call, body, found)
    return await sign_update(call, answer) if call.is_signed else answer


def _asked(program: Program) -> Asked:
    asked = {name: getattr(program, name) for name in Program.__struct_fields__}
    words = {name: asked[name].lower() for name in ("platform", "arch") if asked[name]}
    return Asked(**asked | words)


def _write(call: Call, body: CheckUpdate, found: CheckedUpdate) -> Answer:
    decision, license, activation = found.decision, found.license, found.activation
    shown = Update(
        decision.code is UpdateCode.UPDATE_AVAILABLE,
        decision.code,
        decision.codes,
        None if decision.offered is None else _show_release(decision.offered),
        None if decision.file is None else _show_file(call, decision.file, found),
        None if decision.not_covered is None else _show_not_covered(found, decision.not_covered),
        call.now,
        found.next_check_at,
        body.nonce,
        found.notices,
    )
    return Answer(
        200,
        encode(shown),
        license_id=None if license is None else license.id,
        activation_id=None if activation is None else activation.id,
        releases=found.counted,
    )


def _show_release(known: Known) -> OfferedRelease:
    one = known.release
    return OfferedRelease(one.version, one.channel, one.released_at, one.notes, one.is_critical)


def _show_file(call: Call, file: ReleaseFile, found: CheckedUpdate) -> OfferedFile:
    url = f"{call.base_of_links()}{found.path_of_file}"
    return OfferedFile(file.name, url, file.size, file.sha256, file.signature)


def _show_not_covered(found: CheckedUpdate, known: Known) -> NotCovered:
    return NotCovered(known.release.version, known.release.released_at, found.renew_url)


async def explain_release(call: Call, query: ExplainQuery) -> Answer:
    """Explain a release.

    Reports whether a license, or one of its devices, is offered the release: every rule in order, with its
    result; the first one that fails gives the `code`. The query parameters are what the program would report
    about itself.
    """
    asked = ExplainRelease(
        **call.named("release_id"),
        now=call.now,
        license_id=query.license_id,
        activation_id=query.activation_id,
        asked=_asked(query),
    )
    return await call.ask(asked, lambda rules: ok(_explain(rules)))


def _explain(rules: list[Verdict]) -> Explanation:
    refused = next((one.code for one in rules if not one.passed), None)
    shown = [ExplainedRule(*one) for one in rules]
    return Explanation(refused is None, refused or UpdateCode.UPDATE_AVAILABLE, shown)


class UpdateToken(Struct):
    """A token that can only check for updates of a license and download them."""

    id: Annotated[Id, about("The update token's ID.", 4)]
    activation_id: Annotated[
        Id | None, about("The activation that the token is for; null means the whole license.", 90)
    ]
    prefix: Annotated[str, about("The token's first characters.", "upd_mfrg")]
    token: Annotated[
        str | None, about("The token; shown when it is created, and null later.", "upd_mfrggzdf…")
    ]
    created_at: Annotated[Time, about("When the token was created.", _TIME)]
    ends_at: Annotated[Time | None, about("When the token expires; null means never.", None)]


class NewUpdateToken(Body):
    """The device that the token is for, if any."""

    activation_id: Annotated[
        Id | None, about("One of the license's activations; null means the whole license.", None)
    ] = None


def _show_token(one: tokens.UpdateToken, text: str | None = None) -> UpdateToken:
    return UpdateToken(one.id, one.activation_id, one.prefix, text, one.created_at, one.ends_at)


async def create_update_token(call: Call, body: NewUpdateToken) -> Answer:
    """Create an update token.

    The token is shown only in this answer. It ends when the license is disabled, deleted, transferred, or
    gets a new key. A device's previous token remains valid for seven days. At most 5 tokens exist per device
    and 20 per license; beyond that, the oldest ends.
    """
    command = tokens.CreateUpdateToken(**call.about_license(), activation_id=body.activation_id)

    def write(made: tokens.NewUpdateToken) -> Answer:
        path = f"{call.root}/licenses/{made.token.license_id}/update-tokens/{made.token.id}"
        return created(_show_token(made.token, made.text), path)

    return await call.change(command, write)


async def list_update_tokens(call: Call) -> Answer:
    """List the update tokens of a license.

    Oldest first, without their secrets.
    """
    query = tokens.ListUpdateTokens(**call.named("license_id"), now=call.now)
    return await call.ask(query, lambda found: ok(Page(list(map(_show_token, found)), None)))


async def end_update_token(call: Call) -> Answer:
    """End an update token.

    The token stops working at once.
    """
    command = tokens.EndUpdateToken(**call.about_license(), token_id=call.path["token_id"])
    return await call.change(command, no_content)


_TOKENS = "/licenses/{license_id}/update-tokens"
ROUTES = (
    Route(
        "POST",
        "/updates",
        Right.CORE,
        find_update,
        gives=Update,
        example={"license_key": "KEY-1", "app_version": "3.1.0", "platform": "windows", "arch": "x86_64"},
        is_read=True,
        produces=(JSON_TYPE, JWT_TYPE),
    ),
    Route(
        "GET",
        "/releases/{release_id}/explain",
        Right.READ,
        explain_release,
        gives=Explanation,
        refusals=("not_found",),
        example={"license_id": 1, "app_version": "3.1.0"},
    ),
    Route(
        "POST",
        _TOKENS,
        Right.WRITE,
        create_update_token,
        needs_body=False,
        gives=UpdateToken,
        status=201,
        refusals=("not_found", "disabled", "not_activated"),
        example={"activation_id": None},
    ),
    Route("GET", _TOKENS, Right.READ, list_update_tokens, gives=Page[UpdateToken], refusals=("not_found",)),
    Route(
        "DELETE",
        f"{_TOKENS}/{{token_id}}",
        Right.WRITE,
        end_update_token,
        status=204,
        refusals=("not_found",),
    ),
)
