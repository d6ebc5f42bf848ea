"""Sign answers with the installation's signing key, outside of transactions."""

from time import monotonic

import msgspec

from keywright.core.command import Context
from keywright.db.rows import to_datetime
from keywright.engine.desk import Desk
from keywright.signing import jws, rules
from keywright.signing.commands import BuildKeySets, ExtendKey, LoadKeys, MakeFirstKey
from keywright.signing.jws import SignatureAlg, Signer
from keywright.signing.model import Jwk, LoadedKeys, TokenType

#: How long the key is cached, in seconds: another server or a command may rotate it.
_KNOWN_FOR = 0.25
#: How long signed key sets are cached, in seconds.
_SETS_KNOWN_FOR = 60.0


class _Ends(msgspec.Struct):
    """The expiry of a signed answer."""

    exp: int


_decode_end = msgspec.json.Decoder(_Ends).decode


class Signatures:
    """Signs the answers of one server process. Not thread-safe: belongs to its event loop."""

    def __init__(self, desk: Desk, alg: SignatureAlg) -> None:
        """``alg`` is the setting ``signature_alg``."""
        self._desk = desk
        self.alg = alg
        self._loaded: LoadedKeys | None = None
        self._loaded_until = 0.0
        self._signer: Signer | None = None
        self._issuer = ""
        #: The latest expiry that is recorded for tokens of this key, in seconds since 1970.
        self._signed_until = 0.0
        self._sets: list[str] = []
        self._sets_of: LoadedKeys | None = None
        self._sets_until = 0.0

    async def find_issuer(self, context: Context) -> str:
        """The issuer of this installation's tokens. All methods raise the faults of the desk."""
        if not self._issuer:
            await self._load(context)
        return self._issuer

    async def sign(self, payload: bytes, context: Context, typ: TokenType = TokenType.LICENSE) -> bytes:
        """Sign these claims, and return the token."""
        signer, loaded = await self._load(context)
        end = _decode_end(payload).exp
        if end > self._signed_until:
            until = rules.extended(to_datetime(end))
            await self._desk.execute(ExtendKey(context=context, key_id=loaded.newest.id, until=until))
            if loaded is self._loaded:
                self._signed_until = max(self._signed_until, until.timestamp())
        return signer.sign(payload, typ)

    async def list_public_keys(self, context: Context) -> list[Jwk]:
        """The public keys that are valid now, the newest first."""
        _, loaded = await self._load(context)
        return [jws.write_jwk(one.public_key) for one in rules.published(loaded.keys, context.now)]

    async def list_key_sets(self, context: Context) -> list[str]:
        """The signed key sets, by which programs that know an older key get the current keys."""
        _, loaded = await self._load(context)
        if self._sets_of is None or self._sets_of.keys != loaded.keys or monotonic() >= self._sets_until:
            sets = await self._desk.query(BuildKeySets(now=context.now, alg=self.alg))
            self._sets = [one.decode() for one in sets]
            self._sets_of, self._sets_until = loaded, monotonic() + _SETS_KNOWN_FOR
        return self._sets

    async def _load(self, context: Context) -> tuple[Signer, LoadedKeys]:
        signer, loaded = self._signer, self._loaded
        if signer is not None and loaded is not None and monotonic() < self._loaded_until:
            return signer, loaded
        # Concurrent calls use the cached key in the meantime.
        self._loaded_until = monotonic() + _KNOWN_FOR
        found: LoadedKeys | None = await self._desk.query(LoadKeys())
        if found is None:
            found = await self._desk.execute(MakeFirstKey(context=context))
        if signer is None or loaded is None or found.newest.kid != loaded.newest.kid:
            signer = Signer(found.private_key, self.alg)
            self._signed_until = found.newest.signed_until.timestamp()
        self._signer, self._loaded, self._issuer = signer, found, rules.issuer_of(found.oldest.kid)
        return signer, found
