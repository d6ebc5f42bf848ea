"""The handlers of the commands and queries about signing keys."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from keywright.core.command import Command, Query
from keywright.core.errors import SigningKeyInUse, UnknownSigningKey
from keywright.db.transaction import ReadTransaction
from keywright.events.unit_of_work import UnitOfWork
from keywright.signing import commands, jws, rules, store
from keywright.signing.jws import Signer
from keywright.signing.model import KeySetClaims, LoadedKeys, SigningKey, TokenType

_encode = msgspec.json.Encoder().encode


def make_first(work: UnitOfWork, command: Command) -> LoadedKeys:
    """Make the first key unless there is one. Two servers cannot both make it: the later transaction has a
    conflict, is retried, and finds the key.
    """
    # No event: a server makes the key on its own, even in a database into which another one is copied next.
    return load(work, None) or _add_key(work, command, [])


def rotate(work: UnitOfWork, command: commands.RotateSigningKey) -> LoadedKeys:
    """Make a new key, which signs from now on; older keys are kept to verify what they signed."""
    made = _add_key(work, command, store.list_keys(work.tx))
    work.record_event("signing_key.rotated", command, {"kid": made.newest.kid})
    return made


def withdraw(work: UnitOfWork, command: commands.WithdrawSigningKey) -> SigningKey:
    """Withdraw an older key. Raises ``UnknownSigningKey`` or ``SigningKeyInUse``."""
    known = store.list_keys(work.tx)
    key = next((one for one in known if one.kid == command.kid), None)
    if key is None:
        raise UnknownSigningKey(command.kid)
    if key.id == known[0].id:
        raise SigningKeyInUse(command.kid)
    if key.withdrawn_at is not None:
        return key
    now = command.context.now
    store.withdraw_key(work.tx, key, now)
    work.record_event("signing_key.withdrawn", command, {"kid": key.kid})
    return replace(key, withdrawn_at=now)


def extend(work: UnitOfWork, command: commands.ExtendKey) -> None:
    """Record the moment until which the key's signatures are valid."""
    store.extend_key(work.tx, command.key_id, command.until)


def load(read: Any, _query: commands.LoadKeys | None) -> LoadedKeys | None:
    """Return every key, and the private half of the newest; None if there is none yet."""
    keys = store.list_keys(read.tx)
    if not keys:
        return None
    return LoadedKeys(tuple(keys), store.get_private_key(read.tx, keys[0]))


def build_key_sets(read: Any, query: commands.BuildKeySets) -> list[bytes]:
    """Build a signed set for each older key that was not withdrawn. If any key was withdrawn, the newest key
    signs one, too: programs that know it learn from this set which keys they must no longer trust.
    """
    keys = store.list_keys(read.tx)
    if not keys:
        return []
    claims = KeySetClaims(
        iss=rules.issuer_of(keys[-1].kid),
        iat=int(query.now.timestamp()),
        exp=int((query.now + rules.KEY_SET_LIFE).timestamp()),
        keys=tuple(jws.write_jwk(one.public_key) for one in rules.published(keys, query.now)),
    )
    payload = _encode(claims)
    signing = rules.signing_sets(keys)
    private_keys = (store.get_private_key(read.tx, one) for one in signing)
    return [Signer(one, query.alg).sign(payload, TokenType.KEYS) for one in private_keys]


def list_unsound(tx: ReadTransaction) -> list[str]:
    """Return the ``kid`` of each key that does not match its row."""
    return [one.kid for one in store.list_keys(tx) if not _is_sound(tx, one)]


def _is_sound(tx: ReadTransaction, key: SigningKey) -> bool:
    try:
        private_key = store.get_private_key(tx, key)
        if not private_key and key.withdrawn_at is not None:
            return jws.thumbprint(key.public_key) == key.kid
        signer = Signer(private_key, "EdDSA")
    except ValueError:
        return False
    return (signer.kid, signer.public_key) == (key.kid, key.public_key)


def _add_key(work: UnitOfWork, command: Command, known: list[SigningKey]) -> LoadedKeys:
    now, private_key = command.context.now, jws.new_private_key()
    signer = Signer(private_key, "EdDSA")
    key = SigningKey(known[0].id + 1 if known else 1, signer.kid, signer.public_key, now, now)
    store.save_new_key(work.tx, key, private_key)
    return LoadedKeys((key, *known), private_key)


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    commands.MakeFirstKey: make_first,
    commands.RotateSigningKey: rotate,
    commands.WithdrawSigningKey: withdraw,
    commands.ExtendKey: extend,
}
QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    commands.LoadKeys: load,
    commands.BuildKeySets: build_key_sets,
}
