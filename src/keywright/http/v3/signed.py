"""Sign answers: build their claims, and add the signature."""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from keywright.core.command import Command
from keywright.http.answer import Answer
from keywright.http.v3.answers import encode
from keywright.http.v3.call import Call
from keywright.http.v3.client_schemas import ProgramCall
from keywright.http.v3.route import JWT_TYPE, Route
from keywright.licensing.activations.model import Activation, Device, LicenseView
from keywright.licensing.leases.model import Lease
from keywright.licensing.licenses.rules import CHECK_SECONDS, terms_of
from keywright.licensing.validation import Facts, next_check_at, validate
from keywright.signing.jws import encode_base64url
from keywright.signing.model import TokenType
from keywright.signing.rules import SignedContent, build_claims

_JWT = (b"content-type", JWT_TYPE.encode())
_ID_BYTES = 16


def about_program(call: Call, body: ProgramCall) -> dict[str, Any]:
    """The fields that every command of a program has."""
    return {
        "context": call.context,
        "license": body.license_key,
        "only_product_id": call.only_product_id,
        "device": Device(body.fingerprint),
        "token": body.token,
        "product": body.product,
        "built_at": body.built_at,
        "is_signed": call.is_signed,
    }


async def sign(call: Call, answer: Answer, content: SignedContent, ends_at: datetime | None) -> Answer:
    """Replace the body of the answer by a signed token with these contents, valid until ``ends_at``."""
    context = call.context
    issuer = await call.signatures.find_issuer(context)
    claims = encode(build_claims(content, issuer, secrets.token_urlsafe(_ID_BYTES), ends_at))
    answer.body = await call.signatures.sign(_with_question(call, claims), context)
    answer.content_type = _JWT
    return answer


async def sign_statement(call: Call, answer: Answer, claims: Mapping[str, Any]) -> Answer:
    """Replace the page of usage in the answer by a signed token with these claims."""
    context = call.context
    issued = {
        "iss": await call.signatures.find_issuer(context),
        "jti": secrets.token_urlsafe(_ID_BYTES),
        "iat": int(call.now.timestamp()),
    }
    payload = encode(issued | dict(claims) | msgspec.json.decode(answer.body))
    answer.body = await call.signatures.sign(payload, context, TokenType.USAGE)
    answer.content_type = _JWT
    return answer


async def sign_update(call: Call, answer: Answer) -> Answer:
    """Replace the answer to a check for updates by a signed token, valid for some minutes."""
    context, now = call.context, int(call.now.timestamp())
    claims: dict[str, Any] = {
        "iss": await call.signatures.find_issuer(context),
        "jti": secrets.token_urlsafe(_ID_BYTES),
        "iat": now,
        "exp": now + CHECK_SECONDS,
    }
    if answer.license_id is not None:
        claims["sub"] = f"license:{answer.license_id}"
    payload = _with_question(call, encode(claims | msgspec.json.decode(answer.body)))
    answer.body = await call.signatures.sign(payload, context, TokenType.UPDATE)
    answer.content_type = _JWT
    return answer


async def change(
    call: Call,
    command: Command,
    write: Callable[[Any], Answer],
    build_content: Callable[[Any], SignedContent],
) -> Answer:
    """Execute the command. ``write`` builds the answer from its outcome; if the answer is to be signed,
    ``build_content`` gives its contents instead.

    For a retry of the call, the claims are stored, so that its answer expires at the same time.
    """
    if not call.is_signed:
        return await call.change(command, write)
    context, token_id = call.context, secrets.token_urlsafe(_ID_BYTES)
    issuer = await call.signatures.find_issuer(context)

    def write_claims(outcome: Any) -> Answer:
        answer = write(outcome)
        answer.body = encode(build_claims(build_content(outcome), issuer, token_id))
        answer.content_type = _JWT
        return answer

    answer = await call.change(command, write_claims)
    if answer.content_type == _JWT:
        answer.body = await call.signatures.sign(_with_question(call, answer.body), context)
    return answer


def _with_question(call: Call, claims: bytes) -> bytes:
    """Add the claim ``asked``, a hash of the operation and of the bytes of the request's body.

    A signed refusal need not name a license: without this claim, it could be replayed as the answer to
    another request.
    """
    # The claims stored for a retry do not have it: the bytes of the retry may differ.
    assert isinstance(call.action, Route)  # noqa: S101
    operation = call.action.path[1:].encode()
    asked = hashlib.sha256(b"keywright-question:%b\n%b" % (operation, call.raw_body)).digest()
    return b'%b,"asked":"%b"}' % (claims[:-1], encode_base64url(asked))


def content_of_granted(
    call: Call,
    view: LicenseView,
    shown: Any,
    *,
    activation: Activation | None,
    now: datetime,
    lease: Lease | None = None,
    removed: Any = None,
) -> SignedContent:
    """The contents of the signed answer to a granted call. ``shown`` is the public view of the license."""
    body = call.body
    has_place = activation is not None and activation.deactivated_at is None
    facts = Facts(
        license=view.license,
        now=now,
        is_device_named=has_place,
        activation=activation,
        lease=lease,
        usage=view.usage,
        built_at=body.built_at,
    )
    return SignedContent(
        findings=validate(facts),
        now=now,
        view=view,
        shown=shown,
        activation=activation,
        lease=lease,
        entitlements=terms_of(view.license).entitlements,
        next_check_at=next_check_at(facts),
        nonce=body.nonce,
        built_at=body.built_at,
        removed=removed,
    )
