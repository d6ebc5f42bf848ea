"""Nouns, commands and storages for tests: each maker has defaults for all that a test does not care for."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

from argon2 import PasswordHasher
from pyotp import TOTP

from keywright.core.command import Context, IdempotentCall, Origin
from keywright.core.crypto import KeyRing
from keywright.core.errors import KeywrightError
from keywright.db import Storage, database_path, open_storage, run_read
from keywright.db.sqlite import SqliteStorage
from keywright.delivery.webhooks.commands import CreateEndpoint
from keywright.delivery.webhooks.fields import NewWebhook
from keywright.delivery.webhooks.model import Delivery, Endpoint, Payload, State
from keywright.engine.idempotency import PurgeIdempotencyRecords
from keywright.engine.queue import Item, Kind, LookForWork, look_for_work
from keywright.events.model import Event
from keywright.identity.api_keys import new_secrets
from keywright.identity.model import (
    ApiKey,
    ChangeUser,
    CreateUser,
    EnableSecondFactor,
    EndSession,
    IssueApiKey,
    Permissions,
    RefuseSignIn,
    RevokeApiKey,
    Role,
    SeeSession,
    Session,
    StartSession,
    User,
)
from keywright.identity.second_factors import hash_recovery_code
from keywright.identity.sessions import hash_session_token
from keywright.licensing.activations.model import (
    Activate,
    ActivateDevice,
    Activation,
    ActivationSource,
    Deactivate,
    DeactivateAll,
    Device,
    Reactivate,
    Validate,
)
from keywright.licensing.leases.model import EndLease, Lease, ReleaseLease, RenewLease, TakeLease
from keywright.licensing.licenses.model import (
    CreateLicense,
    DeleteLicense,
    License,
    LicenseSource,
    ShowKey,
    Status,
    UpdateLicense,
)
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import merge_terms, to_text
from keywright.licensing.usage.model import RecordUsage
from keywright.provisioning.policies.model import (
    CreatePolicy,
    DeletePolicy,
    GenerateLicenses,
    Policy,
    UpdatePolicy,
)
from keywright.provisioning.products import CreateProduct, NameKind, NewProduct, SaveName
from keywright.provisioning.trials import StartTrial
from keywright.registry import open_executor
from keywright.search.store import EventFilter
from keywright.signing.commands import MakeFirstKey, MakeLicenseFile, RotateSigningKey, WithdrawSigningKey

NOW = datetime(2026, 1, 15, 12, 30, 45, tzinfo=UTC)
SECRET_OF_APP = "ORUGS4ZANFZSAYJAORSXG5BAMZXXEIDU"
RECOVERY_CODES = tuple(f"code-{number:04d}-code" for number in range(10))
LATER = datetime(2026, 1, 16, 8, 0, 0, tzinfo=UTC)
KEY = "KEY-1"
TOKEN = "0123456789abcdef0123456789abcdef01234567"
SECRET = b"the tests' secret, 32 bytes long"
KEY_RING = KeyRing(SECRET)


#: It hashes passwords without their price.
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@cache
def a_cheap_hash(password: str) -> str:
    """A password's hash, as ``accounts`` makes them, but without their price: hundreds of tests sign in."""
    return CHEAP.hash(password)


#: Another value for each field of a license than that of ``a_license``.
LICENSE_FIELDS: dict[str, Any] = {
    "key": "another key",
    "order_id": 7,
    "product_id": 8,
    "customer_id": 9,
    "expires_at": LATER + timedelta(days=1),
    "valid_for_days": 3,
    "source": 4,
    "status": 5,
    "times_activated": 2,
    "times_activated_max": 6,
    "created_at": NOW - timedelta(days=1),
    "created_by": 10,
    "updated_at": LATER,
    "updated_by": 11,
    "deactivated_count": 1,
    "metadata": '{"plan":"gold"}',
    "policy_id": 13,
    "terms": '{"grace_days":3}',
    "order_details": '{"source":"shop","id":"7","line":"1"}',
    "external_id": "crm-8",
    "quantity": 3,
    "rule_terms": '{"grace_days":7}',
    "uncounted_count": 1,
}


def a_license(**fields: Any) -> License:
    """An active license without a limit that never expires."""
    defaults: dict[str, Any] = {
        "id": 1,
        "key": KEY,
        "order_id": None,
        "product_id": None,
        "customer_id": None,
        "expires_at": None,
        "valid_for_days": None,
        "source": LicenseSource.API,
        "status": Status.ACTIVE,
        "times_activated": 0,
        "times_activated_max": None,
        "created_at": NOW,
        "created_by": None,
        "updated_at": NOW,
        "updated_by": None,
    }
    return License(**defaults | fields)


def a_license_with(terms: Mapping[str, Any], **fields: Any) -> License:
    """``a_license`` with these terms, as JSON has them."""
    limit, days = fields.get("times_activated_max"), fields.get("valid_for_days")
    merged = merge_terms(Terms(limit, days), terms)
    columns = {"times_activated_max": merged.max_activations, "valid_for_days": merged.valid_for_days}
    return a_license(**fields | columns, terms=to_text(merged))


def a_lease(**fields: Any) -> Lease:
    """A lease of ``a_license()`` that alice has just taken for ten minutes."""
    defaults: dict[str, Any] = {
        "license_id": 1,
        "lease_id": "0" * 32,
        "activation_id": None,
        "holder": "alice",
        "created_at": NOW,
        "renewed_at": NOW,
        "expires_at": NOW + timedelta(minutes=10),
    }
    return Lease(**defaults | fields)


def an_activation(**fields: Any) -> Activation:
    """An active record of ``a_license()``."""
    defaults: dict[str, Any] = {
        "id": 1,
        "token": TOKEN,
        "license_id": 1,
        "label": None,
        "source": ActivationSource.API,
        "ip_address": "192.0.2.1",
        "user_agent": "",
        "meta_data": None,
        "created_at": NOW,
        "updated_at": None,
        "deactivated_at": None,
    }
    return Activation(**defaults | fields)


def a_deactivated_activation(**fields: Any) -> Activation:
    """A record of ``a_license()`` whose place was given up."""
    return an_activation(**{"updated_at": NOW, "deactivated_at": NOW} | fields)


def a_policy(**fields: Any) -> Policy:
    """A recipe for keys like ``ABCD-EFGH-IJKL-MNOP`` of hexadecimal digits: 64 bits."""
    defaults: dict[str, Any] = {
        "id": 1,
        "name": "Hex",
        "charset": "0123456789ABCDEF",
        "chunks": 4,
        "chunk_length": 4,
        "separator": "-",
        "prefix": None,
        "suffix": None,
        "created_at": NOW,
        "created_by": None,
        "updated_at": NOW,
        "updated_by": None,
    }
    return Policy(**defaults | fields)


def an_api_key(**fields: Any) -> ApiKey:
    """An API key that may do everything."""
    defaults: dict[str, Any] = {
        "id": 1,
        "name": "shop",
        "permissions": Permissions.READ_WRITE,
        "product_id": None,
        "key_suffix": "1234567",
        "secret_hash": bytes(32),
        "created_at": NOW,
        "revoked_at": None,
    }
    return ApiKey(**defaults | fields)


def a_user(**fields: Any) -> User:
    """An administrator called alice."""
    defaults: dict[str, Any] = {
        "id": 1,
        "name": "alice",
        "role": Role.ADMINISTRATOR,
        "password_hash": "$argon2id$",
        "created_at": NOW,
    }
    return User(**defaults | fields)


def a_session(**fields: Any) -> Session:
    """Alice is signed in since now."""
    defaults: dict[str, Any] = {
        "token_hash": hash_session_token(TOKEN),
        "user_id": 1,
        "created_at": NOW,
        "ends_at": NOW + timedelta(hours=10),
        "last_seen_at": NOW,
        "ip_address": "192.0.2.1",
        "user_agent": "browser/1.0",
    }
    return Session(**defaults | fields)


def an_event_filter(*, day: date | None = None, **conditions: Any) -> EventFilter:
    """These conditions for events, and a day of UTC."""
    if day is not None:
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
        conditions |= {"since": midnight, "until": midnight + timedelta(days=1)}
    return EventFilter(**conditions)


def an_event(**fields: Any) -> Event:
    """License 1 was activated by a program."""
    defaults: dict[str, Any] = {
        "occurred_at": NOW,
        "name": "license.activated",
        "license_id": 1,
        "activation_id": None,
        "actor": "program",
        "ip_address": "192.0.2.1",
    }
    return Event(**defaults | fields)


def an_endpoint(**fields: Any) -> Endpoint:
    """An endpoint of webhooks that is told of every event."""
    usual: dict[str, Any] = {
        "id": 1,
        "url": "https://example.com/hooks",
        "description": None,
        "events": ("*",),
        "product_id": None,
        "payload": Payload.FULL,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Endpoint(**usual | fields)


def a_delivery(**fields: Any) -> Delivery:
    """A delivery that has not been attempted."""
    usual: dict[str, Any] = dict.fromkeys(Delivery.__struct_fields__) | {
        "id": 1,
        "endpoint_id": 1,
        "event_id": 1,
        "license_id": 1,
        "name": "license.created",
        "state": State.WAITING,
        "attempts": 0,
        "created_at": NOW,
    }
    return Delivery(**usual | fields)


def create_endpoint(url: str = "https://example.com/hooks", *events: str, **fields: Any) -> CreateEndpoint:
    """A command; it is told of every event about licenses."""
    context = {name: fields.pop(name) for name in ("now", "context") if name in fields}
    new = NewWebhook(url=url, events=[*(events or ("license.*",))], **fields)
    return CreateEndpoint(fields=new, **_with_context(**context))


def an_origin(**fields: Any) -> Origin:
    """A program at 192.0.2.1."""
    return Origin(**{"actor": "program", "ip_address": "192.0.2.1", "user_agent": "program/1.0"} | fields)


def a_retry(name: str, digest: bytes = b"", *, write: Callable[[Any], bytes] | None = None) -> IdempotentCall:
    """A call that may be sent again; its answer is what ``write`` makes of the outcome."""

    def write_answer(outcome: Any) -> tuple[int, bytes]:
        if isinstance(outcome, Exception):
            return 404, type(outcome).__name__.encode()
        return 200, b"" if write is None else write(outcome)

    return IdempotentCall(sha256(name.encode()).digest(), sha256(digest).digest(), write_answer)


def _with_context(**fields: Any) -> dict[str, Any]:
    now, by = fields.pop("now", None) or NOW, fields.pop("by", None)
    return {"context": Context(now, fields.pop("origin", an_origin()), by)} | fields


def activate(key: str | int = KEY, **fields: Any) -> Activate:
    return Activate(**_with_context(license=key, **fields))


def reactivate(token: str, key: str | int = KEY, **fields: Any) -> Reactivate:
    return Reactivate(**_with_context(license=key, token=token, **fields))


def deactivate(token: str, key: str | int = KEY, **fields: Any) -> Deactivate:
    return Deactivate(**_with_context(license=key, token=token, **fields))


def deactivate_all(key: str | int = KEY, **fields: Any) -> DeactivateAll:
    return DeactivateAll(**_with_context(license=key, **fields))


def create(key: str = KEY, limit: int | None = None, **fields: Any) -> CreateLicense:
    defaults = {"status": Status.ACTIVE, "times_activated_max": limit}
    return CreateLicense(**_with_context(key=key, **defaults | fields))


def update(
    key: str | int = KEY, /, *, now: datetime = NOW, by: int | None = None, **changes: Any
) -> UpdateLicense:
    return UpdateLicense(**_with_context(license=key, now=now, by=by, changes=changes))


def rename(old: str, new: str) -> UpdateLicense:
    return UpdateLicense(**_with_context(license=old, changes={"key": new}))


def delete(key: str | int = KEY, **fields: Any) -> DeleteLicense:
    return DeleteLicense(**_with_context(license=key, **fields))


def take_lease(holder: str = "alice", key: str = KEY, **fields: Any) -> TakeLease:
    return TakeLease(**_with_context(license=key, holder=holder, **_with_device(fields)))


def renew_lease(lease_id: str, key: str = KEY, **fields: Any) -> RenewLease:
    return RenewLease(**_with_context(license=key, lease_id=lease_id, **_with_device(fields)))


def release_lease(lease_id: str, key: str = KEY, **fields: Any) -> ReleaseLease:
    return ReleaseLease(**_with_context(license=key, lease_id=lease_id, **_with_device(fields)))


def end_lease(lease_id: str, key: str | int = KEY, **fields: Any) -> EndLease:
    return EndLease(**_with_context(license=key, lease_id=lease_id, **fields))


def record_usage(meter: str, amount: int = 1, key: str = KEY, **fields: Any) -> RecordUsage:
    return RecordUsage(**_with_context(license=key, meter=meter, amount=amount, **_with_device(fields)))


def make_first_key(**fields: Any) -> MakeFirstKey:
    return MakeFirstKey(**_with_context(**fields))


def rotate_key(**fields: Any) -> RotateSigningKey:
    return RotateSigningKey(**_with_context(**fields))


def withdraw_key(kid: str, **fields: Any) -> WithdrawSigningKey:
    return WithdrawSigningKey(**_with_context(kid=kid, **fields))


def make_license_file(key: str | int = KEY, **fields: Any) -> MakeLicenseFile:
    """The public view in it is nothing but the license's number."""
    defaults: dict[str, Any] = {"alg": "EdDSA"}
    return MakeLicenseFile(**_with_context(license=key, **_with_device(defaults | fields)))


def start_trial(fingerprint: str, product: int | str = 17, **fields: Any) -> StartTrial:
    named = {"product": product, "fingerprint": fingerprint, "device": Device(fingerprint)}
    return StartTrial(**_with_context(**named | fields))


def activate_device(fingerprint: str | None, key: str = KEY, **fields: Any) -> ActivateDevice:
    return ActivateDevice(**_with_context(license=key, **_with_device(fields | {"fingerprint": fingerprint})))


def _with_device(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a command of a program, with the device that has this fingerprint."""
    fingerprint = fields.pop("fingerprint", None)
    return fields | {"device": Device(fingerprint)}


def set_terms(terms: Mapping[str, Any], key: str | int = KEY, **fields: Any) -> UpdateLicense:
    """Give a license these terms, as JSON has them, instead of its own."""
    merged = merge_terms(Terms(), terms)
    changes: dict[str, Any] = {
        "times_activated_max": merged.max_activations,
        "valid_for_days": merged.valid_for_days,
        "terms": to_text(merged),
    }
    return update(key, **changes, **fields)


def validate(key: str = KEY, token: str | None = None, **fields: Any) -> Validate:
    return Validate(key=key, token=token, **fields)


def create_product(product_id: int, **fields: Any) -> CreateProduct:
    usual: dict[str, Any] = {"id": product_id, "name": f"Product {product_id}"}
    return CreateProduct(**_with_context(fields=NewProduct(**usual | fields)))


def create_policy(**fields: Any) -> CreatePolicy:
    defaults = {"name": "Hex", "charset": "0123456789ABCDEF", "chunks": 4, "chunk_length": 4}
    return CreatePolicy(**_with_context(**defaults | fields))


def update_policy(policy_id: int, *, is_weak_allowed: bool = False, **changes: Any) -> UpdatePolicy:
    fields = {"policy_id": policy_id, "is_weak_allowed": is_weak_allowed, "changes": changes}
    return UpdatePolicy(**_with_context(**fields))


def delete_policy(policy_id: int) -> DeletePolicy:
    return DeletePolicy(**_with_context(policy_id=policy_id))


def generate(policy_id: int, amount: int, **fields: Any) -> GenerateLicenses:
    defaults = {"policy_id": policy_id, "amount": amount, "status": Status.ACTIVE}
    return GenerateLicenses(**_with_context(**defaults | fields))


def purge_idempotency_records(before: datetime) -> PurgeIdempotencyRecords:
    return PurgeIdempotencyRecords(**_with_context(before=before))


def create_user(name: str = "alice", role: Role = Role.ADMINISTRATOR, **fields: Any) -> CreateUser:
    defaults = {"name": name, "role": role, "password_hash": "$argon2id$"}
    return CreateUser(**_with_context(**defaults | fields))


def change_user(user_id: int, **fields: Any) -> ChangeUser:
    return ChangeUser(**_with_context(user_id=user_id, **fields))


def start_session(user_id: int, token: str = TOKEN, **fields: Any) -> StartSession:
    return StartSession(**_with_context(user_id=user_id, token_hash=hash_session_token(token), **fields))


def enable_second_factor(user_id: int, secret: str = SECRET_OF_APP, **fields: Any) -> EnableSecondFactor:
    """In the session with the usual token, which has another one afterwards."""
    given = {
        "user_id": user_id,
        "secret": secret,
        "code": TOTP(secret).at(NOW),
        "code_hashes": tuple(map(hash_recovery_code, RECOVERY_CODES)),
        "session": hash_session_token(TOKEN),
        "new_session": hash_session_token("new"),
    }
    return EnableSecondFactor(**_with_context(**given | fields))


def see_session(token: str = TOKEN, **fields: Any) -> SeeSession:
    return SeeSession(**_with_context(token_hash=hash_session_token(token), **fields))


def end_session(token: str = TOKEN, **fields: Any) -> EndSession:
    return EndSession(**_with_context(token_hash=hash_session_token(token), **fields))


def refuse_sign_in(name: str) -> RefuseSignIn:
    return RefuseSignIn(**_with_context(name=name))


def save_name(kind: NameKind, number: int, name: str | None) -> SaveName:
    return SaveName(**_with_context(kind=kind, number=number, name=name))


def show_key(key: str = KEY) -> ShowKey:
    return ShowKey(**_with_context(license=key))


def find_items(storage: Storage, kind: Kind, now: datetime = NOW) -> list[Item]:
    """What a look of the work queue finds."""
    query = LookForWork(now=now, kinds=(kind,))
    return run_read(storage, lambda tx: look_for_work(SimpleNamespace(tx=tx), query))[0]


def url_of(folder: Path) -> str:
    """The URL of the database that ``a_storage`` opens there."""
    return f"sqlite:///{folder}/keywright.db"


@cache
def _sqlite_template() -> bytes:
    """A file with all tables and nothing in them."""
    with TemporaryDirectory() as folder:
        open_storage(url_of(Path(folder)), KEY_RING).close()
        found = database_path(url_of(Path(folder)))
        assert found is not None
        return found.read_bytes()


def make_sqlite_file(url: str) -> None:
    """A new database with all tables: a copy, because most of a short test would be making them."""
    path = database_path(url)
    assert path is not None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(_sqlite_template())


def a_storage(folder: Path, key_ring: KeyRing = KEY_RING) -> SqliteStorage:
    """The SQLite database in this folder, a copy of an empty one if there is none; the caller closes it."""
    path = database_path(url_of(folder))
    if key_ring is KEY_RING and path is not None and not path.exists():
        make_sqlite_file(url_of(folder))
    return open_or_make(folder, key_ring)


def open_or_make(folder: Path, key_ring: KeyRing = KEY_RING) -> SqliteStorage:
    """The SQLite database in this folder, made there as a server makes it if there is none."""
    storage = open_storage(url_of(folder), key_ring)
    assert isinstance(storage, SqliteStorage)
    return storage


def all_errors(root: type[KeywrightError] = KeywrightError) -> Iterator[type[KeywrightError]]:
    """Every class of the tree of errors, the given root included, parents first."""
    yield root
    for child in root.__subclasses__():
        yield from all_errors(child)


class IssuedApiKey(NamedTuple):
    """A new API key with its secrets."""

    api_key: ApiKey
    consumer_key: str
    consumer_secret: str


def issue_api_key(
    storage: Storage, name: str, permissions: Permissions, now: datetime = NOW, **fields: Any
) -> IssuedApiKey:
    new = new_secrets()
    command = IssueApiKey(
        **_with_context(now=now, name=name, permissions=permissions, **fields), **new.hash_fields()
    )
    [api_key] = open_executor(storage).execute([command])
    return IssuedApiKey(api_key, new.consumer_key, new.consumer_secret)


def revoke_api_key(storage: Storage, api_key_id: int, now: datetime = NOW, **fields: Any) -> None:
    command = RevokeApiKey(**_with_context(now=now, api_key_id=api_key_id, **fields))
    [outcome] = open_executor(storage).execute([command])
    if outcome is not None:
        raise outcome
