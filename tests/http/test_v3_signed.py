"""Signed answers: all claims of each kind, and that only the vendor's key can have signed them."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jws as joserfc
from joserfc.jwk import OKPKey
from sqlalchemy import update as update_table

from keywright.core.command import Context
from keywright.core.errors import StoreReadOnly
from keywright.db.schema import activations
from keywright.engine.desk import Desk
from keywright.licensing.activations.model import KeepOffline
from keywright.licensing.licenses.model import Status
from keywright.licensing.validation import ValidateLicense
from keywright.provisioning.products import CreateProduct, NewProduct
from keywright.registry import open_executor
from keywright.signing import jws, rules, store
from keywright.signing.commands import LoadKeys
from keywright.signing.jws import decode_base64url, read_signed
from keywright.signing.model import LoadedKeys, SigningKey, TokenType
from keywright.signing.rules import hash_key, read_license_file
from tests.http import test_v3_client, v3_app
from tests.http.v3_app import App, Reply, open_app
from tests.makers import (
    KEY,
    NOW,
    activate,
    activate_device,
    an_origin,
    create,
    deactivate_all,
    delete,
    rename,
    rotate_key,
    set_terms,
    update,
    withdraw_key,
)
from tests.tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")

DAY, LAPTOP = 86_400, "laptop-of-anna"
JWT = {"Accept": "application/jwt"}
LICENSE: dict[str, Any] = test_v3_client.LICENSE | {
    "id": 1,
    "product": {"id": 17, "code": "editor", "name": "Editor"},
    "activations": 1,
    "metadata": {"edition": "pro"},
    "key_hash": hash_key(KEY),
}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """An app with license 1, of a product with a code, and one device."""
    with open_app(tmp_path) as app:
        do(
            app,
            CreateProduct(
                context=Context(NOW, an_origin()), fields=NewProduct(id=17, code="editor", name="Editor")
            ),
        )
        do(app, create(product_id=17, customer_id=5), activate_device(LAPTOP))
        do(app, update(KEY, metadata='{"public":{"edition":"pro"},"secret":1}'))
        yield app


def do(app: App, *commands: Any) -> list[Any]:
    """Execute commands, none of which may be refused; return the outcomes."""
    outcomes = app.do(*commands)
    assert not [one for one in outcomes if isinstance(one, Exception)]
    return outcomes


def ask(app: App, call: str, **body: Any) -> Reply:
    """Make a client call about the license, without an API key, requesting a signed answer."""
    headers = JWT | body.pop("headers", {})
    return app.ask("POST", f"/{call}", {"license_key": KEY} | body, token=None, headers=headers)


def keys_of(app: App) -> LoadedKeys:
    with closing(open_executor(app.storage.clone())) as executor:
        loaded: LoadedKeys = executor.query([LoadKeys()])[0]
    return loaded


def read(app: App, reply: Reply) -> dict[str, Any]:
    """Verify the answer with another library; return the claims."""
    assert (reply.status in (200, 201), reply.headers["content-type"]) == (True, "application/jwt")
    assert reply.headers["cache-control"] == "no-store"
    return read_token(app, reply.body)


def read_token(app: App, token: bytes) -> dict[str, Any]:
    """The claims, without those that always differ."""
    newest = keys_of(app).newest
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": newest.public_key})
    verified = joserfc.deserialize_compact(token, key, algorithms=["EdDSA"])
    assert verified.headers() == {
        "alg": "EdDSA",
        "kid": newest.kid,
        "typ": "keywright-license+jwt",
    }
    claims: dict[str, Any] = json.loads(verified.payload)
    now = datetime.now(UTC).timestamp()
    assert claims.pop("iss") == rules.issuer_of(keys_of(app).oldest.kid)
    assert len(claims.pop("jti")) == 22
    issued = claims.pop("iat")
    assert now - 60 < issued <= now
    assert claims.pop("nbf") == issued - 300
    claims["exp"] -= issued
    # Only license files do not answer a request.
    assert len(claims.pop("asked", "-" * 43)) == 43
    # Only answers to validations have notices.
    assert claims.pop("notices", []) == []
    next_check_at = claims.pop("next_check_at")
    assert (next_check_at is None) == (claims["code"] == "unknown_license")
    return claims


def claims_of(token: bytes) -> dict[str, Any]:
    """The claims of the token, without verification."""
    claims: dict[str, Any] = json.loads(decode_base64url(token.split(b".")[1]))
    return claims


def valid(**members: Any) -> dict[str, Any]:
    """The claims of a valid answer."""
    return {
        "aud": "editor",
        "sub": "license:1",
        "exp": 14 * DAY,
        "valid": True,
        "code": "valid",
        "codes": ["valid"],
        "license": LICENSE,
        "entitlements": [],
        "nonce": None,
    } | members


def with_device(**members: Any) -> dict[str, Any]:
    return valid(activation={"id": 1, "fingerprint": LAPTOP}, **members)


# --- validate -----------------------------------------------------------------------------------------


def test_a_yes_says_what_the_license_is_and_nothing_of_its_customer(app: App) -> None:
    do(app, set_terms({"entitlements": ["export"]}))
    claims = read(app, ask(app, "validate", fingerprint=LAPTOP, nonce="n-1", product="editor", days=3))
    assert claims == with_device(nonce="n-1", entitlements=["export"], exp=3 * DAY)
    # Without a device, there is no activation.
    assert read(app, ask(app, "validate")) == valid(entitlements=["export"])


def test_a_no_is_signed_too_and_lives_for_five_minutes(app: App) -> None:
    """A device without a place has no activation."""
    claims = read(app, ask(app, "validate", fingerprint="another-one", nonce="n"))
    no = {"valid": False, "code": "not_activated", "codes": ["not_activated"], "exp": 300}
    assert claims == valid(**no, nonce="n")
    codes = ["not_activated", "entitlement_missing"]
    claims = read(app, ask(app, "validate", fingerprint="another-one", entitlements=["export"]))
    assert claims == valid(**no | {"codes": codes})


def test_a_no_about_a_foreign_key_tells_nothing_of_the_license(app: App) -> None:
    do(app, create("OLD"), rename("OLD", "NEW"))
    rows: list[tuple[dict[str, Any], str, dict[str, str]]] = [
        ({"license_key": "NO-KEY"}, "unknown_license", {}),
        ({"license_key": "NO-KEY", "product": "editor"}, "unknown_license", {"aud": "editor"}),
        ({"product": "viewer"}, "product_mismatch", {"aud": "viewer"}),
        ({"product": 18}, "product_mismatch", {}),
        ({"license_key": "OLD"}, "key_rotated", {}),
    ]
    for asked, code, aud in rows:
        expected = valid(valid=False, code=code, codes=[code], exp=300, license=None)
        del expected["sub"], expected["aud"]
        claims = read(app, ask(app, "validate", fingerprint=LAPTOP, **asked))
        assert claims == expected | aud, asked


# --- activate, leases ---------------------------------------------------------------------------------


def test_an_activation_is_a_signed_answer_that_can_be_kept(app: App) -> None:
    reply = ask(app, "activate", fingerprint="desktop-of-anna", nonce="n")
    assert reply.status == 201
    expected = valid(
        license=LICENSE | {"activations": 2},
        activation={"id": 2, "fingerprint": "desktop-of-anna"},
        nonce="n",
    )
    assert read(app, reply) == expected
    again = ask(app, "activate", fingerprint="desktop-of-anna")
    assert again.status == 200
    assert read(app, again) == expected | {"nonce": None}


def test_a_lease_ends_its_signed_answer(app: App) -> None:
    do(app, set_terms({"max_leases": 2, "lease_seconds": 60}))
    taken = ask(app, "leases", holder="alice", fingerprint=LAPTOP, nonce="n")
    assert taken.status == 201
    claims = read(app, taken)
    lease = claims.pop("lease")
    assert lease["holder"] == "alice"
    license = LICENSE | {"max_leases": 2}
    assert claims == with_device(exp=60, license=license | {"leases": 1}, nonce="n")
    # The lease's own holder, whatever the request contains.
    renewed = read(app, ask(app, "leases/renew", lease_id=lease["id"], holder="bob"))
    assert {**renewed.pop("lease"), "expires_at": None} == {**lease, "expires_at": None}
    assert renewed == valid(exp=60, license=license | {"leases": 1})
    asked = read(app, ask(app, "validate", fingerprint=LAPTOP))
    assert asked.pop("lease")["id"] == lease["id"]
    assert 0 < asked.pop("exp") <= 60
    assert asked == {name: one for name, one in with_device(license=license).items() if name != "exp"}
    # A device without a place may take a lease, and the answer contains no device.
    other = read(app, ask(app, "leases", holder="bob", fingerprint="another-one"))
    assert "activation" not in other


def test_a_floating_license_is_kept_by_those_who_hold_a_lease(app: App) -> None:
    """An answer without a lease is only valid for minutes; a license file also requires a limit of
    devices.
    """
    do(app, set_terms({"max_leases": 2}))
    unheld = read(app, ask(app, "validate", fingerprint=LAPTOP))
    assert (unheld["valid"], unheld["codes"], unheld["exp"]) == (False, ["lease_required"], 300)
    activated = read(app, ask(app, "activate", fingerprint=LAPTOP))
    assert (activated["valid"], activated["exp"], "lease" in activated) == (True, 300, False)
    assert make_file(app, fingerprint=LAPTOP).code == "offline_not_allowed"
    do(app, set_terms({"max_leases": 2, "max_activations": 3}))
    file = read_token(app, read_license_file(make_file(app, fingerprint=LAPTOP).body))
    assert (file["valid"], file["codes"], file["exp"]) == (True, ["valid"], 14 * DAY)
    assert read(app, ask(app, "activate", fingerprint=LAPTOP))["exp"] == 300


# --- until when devices may run without the server ----------------------------------------------------


def offline_until(app: App, number: int = 1) -> float:
    """The recorded offline time of a device, in seconds since 1970; 0 if none."""
    shown = app.ask("GET", f"/licenses/1/activations/{number}")
    at = shown.json["offline_until"]
    return 0.0 if at is None else datetime.fromisoformat(at).timestamp()


def count_raises(app: App) -> Callable[[], int]:
    """Let the database count how often a device's recorded offline time changes."""
    with app.storage.write() as tx:
        tx.connection.exec_driver_sql("CREATE TABLE raises (token)")
        tx.connection.exec_driver_sql(
            "CREATE TRIGGER raised AFTER UPDATE ON activations WHEN OLD.offline_until IS NOT "
            "NEW.offline_until BEGIN INSERT INTO raises VALUES (NEW.token); END"
        )

    def count() -> int:
        with app.storage.read() as tx:
            return int(tx.connection.exec_driver_sql("SELECT count(*) FROM raises").scalar_one())

    return count


def test_what_is_signed_for_a_device_is_recorded_before_it_leaves(app: App) -> None:
    do(app, set_terms({"max_leases": 2, "max_activations": 3, "lease_seconds": 7 * DAY}))
    lease = {"holder": "anna", "fingerprint": LAPTOP}
    token = ask(app, "leases", **lease).body
    of_lease = claims_of(token)["lease"]["id"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("activate", {}),
        ("leases", {"holder": "anna"}),
        ("leases/renew", {"lease_id": of_lease}),
        ("validate", {"lease_id": of_lease}),
        ("validate", {"lease_id": of_lease, "days": 2}),
        ("license-file", {"headers": {"Accept": "*/*"}}),
        ("license-file", {"headers": {"Accept": "*/*"}, "days": 3}),
    ]
    wrong = []
    for call, body in calls:
        with app.storage.write() as tx:
            tx.connection.execute(update_table(activations).values(offline_until=activations.c.created_at))
        assert offline_until(app) == 0
        answer = ask(app, call, **{"fingerprint": LAPTOP} | body).body
        token = read_license_file(answer) if call == "license-file" else answer
        end = claims_of(token)["exp"]
        if not end <= offline_until(app) <= end + DAY:
            wrong.append((call, body, end, offline_until(app)))
    assert wrong == []


def test_a_signed_activation_names_the_device_that_gave_its_place_and_until_when_that_may_run(
    app: App,
) -> None:
    ask(app, "activate", fingerprint=LAPTOP, name="Laptop")
    allowance = {"count": 3, "per_days": 30}
    do(app, set_terms({"max_activations": 1, "devices_visible": True, "portal_removals": allowance}))
    claims = read(app, ask(app, "activate", fingerprint="desktop-of-anna", remove=1))
    assert claims["activation"] == {"id": 2, "fingerprint": "desktop-of-anna"}
    until = datetime.fromisoformat(claims["removed"].pop("offline_until"))
    assert claims["removed"] == {"id": 1, "name": "Laptop"}
    assert until.timestamp() == offline_until(app)
    assert "removed" not in read(app, ask(app, "activate", fingerprint="desktop-of-anna"))


def test_a_device_costs_one_commit_a_day_however_often_it_asks(app: App) -> None:
    do(app, set_terms({"max_leases": 2, "max_activations": 3}))
    raises = count_raises(app)
    lease_id = read(app, ask(app, "leases", holder="anna", fingerprint=LAPTOP))["lease"]["id"]
    for _ in range(5):
        ask(app, "leases/renew", lease_id=lease_id, fingerprint=LAPTOP)
        ask(app, "validate", fingerprint=LAPTOP)
        ask(app, "activate", fingerprint=LAPTOP)
    assert raises() == 1


def test_a_no_and_what_is_not_signed_record_nothing(app: App) -> None:
    etag = app.ask("GET", "/licenses/1/activations/1").headers["etag"]
    raises = count_raises(app)
    ask(app, "validate", fingerprint=LAPTOP, headers={"Accept": "*/*"})
    ask(app, "activate", fingerprint=LAPTOP, headers={"Accept": "*/*"})
    ask(app, "validate", fingerprint=LAPTOP, entitlements=["export"])
    assert (raises(), offline_until(app)) == (0, 0)
    ask(app, "validate", fingerprint=LAPTOP)
    assert raises() == 1
    assert app.ask("GET", "/licenses/1/activations/1").headers["etag"] == etag


def test_a_device_of_v2_is_known_to_v3_from_its_first_call_on(app: App) -> None:
    [place] = do(app, activate(KEY))
    token = place.activations[0].token
    assert offline_until(app, 2) == 0
    ask(app, "validate", token=token, headers={"Accept": "*/*"})
    # An answer may have been signed for it before this was recorded.
    assert datetime.now(UTC).timestamp() + 14 * DAY - offline_until(app, 2) < 60


def test_a_device_that_loses_its_place_meanwhile_gets_no_yes(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[Any] = []

    class Racing(Desk):
        async def query(self, query: Any, waiting_call: Any = None) -> Any:
            found = await super().query(query, waiting_call)
            if isinstance(query, ValidateLicense) and changes:
                do(app, changes.pop())
            return found

    monkeypatch.setattr(v3_app, "Desk", Racing)
    for change, code in ((deactivate_all(KEY), "not_activated"), (delete(KEY), "unknown_license")):
        do(app, activate_device(LAPTOP))
        changes.append(change)
        assert read(app, ask(app, "validate", fingerprint=LAPTOP))["code"] == code


def test_while_nothing_can_be_recorded_no_answer_is_good_for_longer_than_is_known(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ReadOnly(Desk):
        async def execute(self, command: Any, waiting_call: Any = None) -> Any:
            if isinstance(command, KeepOffline):
                raise StoreReadOnly
            return await super().execute(command, waiting_call)

    ask(app, "validate", fingerprint="another-one")
    monkeypatch.setattr(v3_app, "Desk", ReadOnly)
    assert read(app, ask(app, "validate", fingerprint=LAPTOP)) == with_device(exp=300)
    monkeypatch.undo()
    ask(app, "validate", fingerprint=LAPTOP, days=3)
    monkeypatch.setattr(v3_app, "Desk", ReadOnly)
    assert read(app, ask(app, "validate", fingerprint=LAPTOP))["exp"] == pytest.approx(4 * DAY, abs=60)


def test_a_refusal_is_a_problem_not_a_token(app: App) -> None:
    do(app, update(KEY, status=Status.DISABLED))
    assert ask(app, "activate", fingerprint=LAPTOP).code == "disabled"
    assert ask(app, "leases", holder="alice").code == "disabled"


# --- who asks for it ----------------------------------------------------------------------------------


@each_row(
    ("accept", "kind"),
    [
        ("application/jwt", "application/jwt"),
        ("application/jwt, application/json", "application/jwt"),
        ("application/jwt, */*;q=0.1", "application/jwt"),
        ("application/jwt;q=0.5, application/json", "application/json; charset=UTF-8"),
        ("*/*", "application/json; charset=UTF-8"),
        ("application/*", "application/json; charset=UTF-8"),
        ("application/jwt;q=0, */*", "application/json; charset=UTF-8"),
        ("text/html", "application/problem+json"),
    ],
)
def test_an_answer_is_signed_where_that_is_asked_for(app: App, accept: str, kind: str) -> None:
    assert ask(app, "validate", headers={"Accept": accept}).headers["content-type"] == kind


@each_row("call", ["deactivate", "usage", "leases/release"])
def test_other_calls_have_no_signed_answer(app: App, call: str) -> None:
    body = {"fingerprint": LAPTOP, "meter": "x", "lease_id": "a" * 32}
    assert ask(app, call, **body).code == "not_acceptable"


def hash_question(operation: str, body: bytes) -> str:
    digest = hashlib.sha256(f"keywright-question:{operation}\n".encode() + body).digest()
    return jws.encode_base64url(digest).decode()


def test_every_signed_answer_names_its_question_by_the_bytes_that_came(app: App) -> None:
    do(app, set_terms({"max_leases": 9}))
    json_body = b'{ "license_key":"KEY-1", "fingerprint":"laptop-of-anna", "holder":"\\u00e4"}'
    form = b"license_key=KEY-1&fingerprint=laptop-of-anna&holder=a%20b"
    taken = ask(app, "leases", holder="anna")
    lease_id = claims_of(taken.body)["lease"]["id"]
    for operation, body in (
        ("validate", json_body),
        ("validate", form),
        ("validate", b'{"license_key":"NO-KEY"}'),
        ("activate", json_body),
        ("leases", json_body),
        ("leases", form),
        ("leases/renew", json_body.replace(b"}", b',"lease_id":"%b"}' % lease_id.encode())),
    ):
        kind = "application/json" if body[:1] == b"{" else "application/x-www-form-urlencoded"
        headers = JWT | {"Content-Type": kind}
        reply = app.ask("POST", f"/{operation}?x=1", body, token=None, headers=headers)
        assert claims_of(reply.body)["asked"] == hash_question(operation, body), (operation, body)


def test_a_repeated_call_has_the_same_token_and_names_the_bytes_that_came(app: App) -> None:
    once = JWT | {"Content-Type": "application/json", "Idempotency-Key": "once"}
    body = b'{"license_key":"KEY-1","fingerprint":"laptop-2"}'
    other = b'{"fingerprint":"laptop-2", "license_key":"KEY-1"}'
    first, again, altered = (
        app.ask("POST", "/activate", one, token=None, headers=once) for one in (body, body, other)
    )
    assert (first.body, first.status) == (again.body, again.status)
    for reply, sent in ((again, body), (altered, other)):
        assert reply.headers["idempotency-replayed"] == "true"
        assert claims_of(reply.body)["asked"] == hash_question("activate", sent)
    read(app, again)
    as_json = app.ask("POST", "/activate", body, token=None, headers=once | {"Accept": "application/json"})
    assert as_json.code == "idempotency_key_reused"


def test_the_name_of_the_algorithm_is_a_setting(tmp_path: Path) -> None:
    with open_app(tmp_path, signature_alg="Ed25519") as app:
        do(app, create())
        token = ask(app, "validate").body
        assert json.loads(decode_base64url(token.split(b".")[0]))["alg"] == "Ed25519"
        assert read_signed(token, keys_of(app).newest.public_key)


# --- license files ------------------------------------------------------------------------------------


def make_file(app: App, **body: Any) -> Reply:
    return ask(app, "license-file", **body | {"headers": {"Accept": "*/*"}})


def test_a_license_file_is_a_signed_answer_as_text(app: App) -> None:
    reply = make_file(app, fingerprint=LAPTOP, days=7, nonce="n")
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; charset=UTF-8")
    begin, *lines, end, last = reply.body.decode().split("\n")
    assert (begin, end, last) == ("-----BEGIN KEYWRIGHT LICENSE-----", "-----END KEYWRIGHT LICENSE-----", "")
    assert {len(one) for one in lines[:-1]} == {64}
    assert read_token(app, read_license_file(reply.body)) == with_device(exp=7 * DAY, nonce="n")
    # Without a device, the file would be for any device.
    assert make_file(app).places == [("/fingerprint", "missing")]
    assert make_file(app, days=0).places == [("/days", "too_small")]
    assert make_file(app, fingerprint=LAPTOP, product="viewer").code == "product_mismatch"


# --- keys ---------------------------------------------------------------------------------------------


def learn(app: App, pinned: list[str]) -> list[str]:
    """The public keys that a program shipped with these keys learns to trust."""
    reply = app.ask("GET", "/signing-keys", token=None)
    for token in reply.json["keys"]:
        for key in pinned:
            try:
                claims = json.loads(read_signed(token.encode(), key, TokenType.KEYS))
            except ValueError:
                continue
            assert claims["iss"] == rules.issuer_of(keys_of(app).oldest.kid)
            assert claims["exp"] - claims["iat"] == 30 * DAY
            return [one["x"] for one in claims["keys"]]
    return pinned


def test_a_withdrawn_key_leads_nowhere(app: App) -> None:
    ask(app, "validate", fingerprint=LAPTOP)
    assert app.ask("GET", "/signing-keys", token=None).json == {"keys": []}
    old = keys_of(app).newest
    do(app, rotate_key())
    new = keys_of(app).newest
    assert learn(app, [old.public_key]) == [new.public_key, old.public_key]
    do(app, withdraw_key(old.kid))
    assert learn(app, [old.public_key]) == [old.public_key]
    # A program that knows both keys refuses the old one from now on.
    assert learn(app, [new.public_key, old.public_key]) == [new.public_key]


def test_a_key_is_recorded_to_sign_before_it_does(app: App) -> None:
    for days in (1, 14):
        claims = json.loads(read_signed(ask(app, "validate", days=days).body, keys_of(app).newest.public_key))
        assert keys_of(app).newest.signed_until.timestamp() >= claims["exp"]


def test_a_server_signs_with_the_keys_that_were_copied_over_its_own(app: App) -> None:
    other = jws.new_private_key()
    signer = jws.Signer(other, "EdDSA")

    async def scenario(client: httpx.AsyncClient) -> None:
        async def ask_signed() -> bytes:
            reply = await client.post("/v3/validate", json={"license_key": KEY}, headers=JWT)
            return reply.content

        own = keys_of(app).newest.public_key if await ask_signed() else ""
        with app.storage.write() as tx:
            tx.connection.exec_driver_sql("DELETE FROM signing_keys")
            store.save_new_key(tx, SigningKey(1, signer.kid, signer.public_key, NOW, NOW), other)
        while not is_signed_by(token := await ask_signed(), signer.public_key):
            assert is_signed_by(token, own)

    app.run(scenario)


def is_signed_by(token: bytes, public_key: str) -> bool:
    try:
        read_signed(token, public_key)
    except ValueError:
        return False
    return True
