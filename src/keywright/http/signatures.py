"""Sign answers with the installation's key, outside of transactions."""

from time import monotonic

import msgspec

from keywright.core.command import Context
from keywright.db.rows import to_datetime
from keywright.engine.desk import Desk
from keywright.signing import jws, rules
from keywright.signing.commands import BuildKeySets, ExtendKey, LoadKeys, MakeFirstKey
from keywright.signing.jws import SignatureAlg, Signer
from keywright.signing.model import Jwk, LoadedKeys, TokenType

#: Another server, or a command, may rotate the key: it is read again after so many seconds.
_KNOWN_FOR = 0.25
#: Key sets are signed again after so many seconds, whatever the number of callers.
_SETS_KNOWN_FOR = 60.0


class _Ends(msgspec.Struct):
    """The end of a signed answer."""

    exp: int


_decode_end = msgspec.json.Decoder(_Ends).decode


class Signatures:
    """Signs for all interfaces of one server process. Belongs to its event loop."""

    def __init__(self, desk: Desk, alg: SignatureAlg) -> None:
        """``alg`` is a setting."""
        self._desk = desk
        self.alg = alg
        self._loaded: LoadedKeys | None = None
        self._loaded_until = 0.0
        self._signer: Signer | None = None
        self._issuer = ""
        #: The moment until which what the key signs may be good, in seconds since 1970.
        self._signed_until = 0.0
        self._sets: list[str] = []
        self._sets_of: LoadedKeys | None = None
        self._sets_until = 0.0

    async def find_issuer(self, context: Context) -> str:
        """The name of the installation. Raises the faults of the desk, as the other methods do."""
        if not self._issuer:
            await self._load(context)
        return self._issuer

    async def sign(self, payload: bytes, context: Context, typ: TokenType = TokenType.LICENSE) -> bytes:
        """These claims as a signed token."""
        signer, loaded = await self._load(context)
        end = _decode_end(payload).exp
        if end > self._signed_until:
            until = rules.extended(to_datetime(end))
            await self._desk.execute(ExtendKey(context=context, key_id=loaded.newest.id, until=until))
            if loaded is self._loaded:
                self._signed_until = max(self._signed_until, until.timestamp())
        return signer.sign(payload, typ)

    async def list_public_keys(self, context: Context) -> list[Jwk]:
        """The public keys that verify now, the newest first."""
        _, loaded = await self._load(context)
        return [jws.write_jwk(one.public_key) for one in rules.published(loaded.keys, context.now)]

    async def list_key_sets(self, context: Context) -> list[str]:
        """The signed key sets by which programs find newer keys."""
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
        # Calls at the same moment go on with what is known.
        self._loaded_until = monotonic() + _KNOWN_FOR
        found: LoadedKeys | None = await self._desk.query(LoadKeys())
        if found is None:
            found = await self._desk.execute(MakeFirstKey(context=context))
        if signer is None or loaded is None or found.newest.kid != loaded.newest.kid:
            signer = Signer(found.private_key, self.alg)
            self._signed_until = found.newest.signed_until.timestamp()
        self._signer, self._loaded, self._issuer = signer, found, rules.issuer_of(found.oldest.kid)
        return signer, found
