"""The relay, for the time of a migration: it fetches licenses that are unknown here from the old system.

Programs already call Keywright, but their license is still in *License Manager for WooCommerce*. The first
call about a license fetches it from there and imports it; then it is answered as usual.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from time import monotonic

from msgspec.structs import replace

from keywright.config import Settings
from keywright.core.command import Context, Origin
from keywright.core.errors import KeywrightError, OldSystemUnavailable, UnknownLicense
from keywright.engine.desk import Desk
from keywright.http.answer import Answer
from keywright.http.middleware.attempts import digest
from keywright.http.middleware.call import Call
from keywright.http.middleware.rate_limits import RateLimit
from keywright.http.middleware.routing import Right
from keywright.http.middleware.thread_pool import ThreadPool
from keywright.http.server.sockets import source_of
from keywright.http.v2.routes import Address
from keywright.licensing.activations.model import Validate
from keywright.provisioning.importers.lmfwc import DATA_ERROR, PlainKeys, Plugin, read_license
from keywright.provisioning.importers.lmfwc_client import Limits, LmfwcClient, ShopRefusal, ShopUnavailable
from keywright.provisioning.importers.model import ImportedLicense, ImportLicenses
from keywright.provisioning.importers.rows import address_keeper
from keywright.provisioning.importers.run import split

#: The timeout for the old system, in seconds, and the maximum number of concurrent requests to it.
TIMEOUT, MAX_AT_ONCE = 3.0, 8
#: The maximum size of an answer, in bytes.
_MAX_BYTES = 16 * 1024**2
#: How many requests for keys that are unknown there, too, an address may cause per minute.
UNKNOWN_PER_MINUTE = 60
#: How long results are cached, in seconds, and how many.
REMEMBER_FOR, MAX_REMEMBERED = 300.0, 10_000
#: The shortest interval between log lines about failures, in seconds.
_LOG_INTERVAL = 10.0
#: The keys that the plugin accepts in a path.
_KEY = re.compile(r"[A-Za-z0-9_-]{1,255}")

log = logging.getLogger(__name__)

AnswerCall = Callable[[Call], Awaitable[Answer]]


class Relay:
    """Fetches licenses from the old system, each once. Belongs to one event loop."""

    def __init__(self, settings: Settings, client: LmfwcClient, desk: Desk) -> None:
        self._settings, self._client, self._desk = settings, client, desk
        self._threads = ThreadPool(MAX_AT_ONCE, MAX_AT_ONCE, "relay")
        self._limit = RateLimit(UNKNOWN_PER_MINUTE)
        #: The running requests by digest of the key; the result is whether the license was imported, or None
        #: on failure.
        self._running: dict[bytes, asyncio.Task[bool | None]] = {}
        #: The cache by digest of the key: its expiry, and whether the license was imported.
        self._asked: OrderedDict[bytes, tuple[float, bool]] = OrderedDict()
        self._log_again_at = 0.0

    def wrap(self, address: Address) -> Address:
        """The address with its core calls changed to fetch unknown licenses."""
        actions = {
            method: one._replace(answer=partial(self._answer, one.answer)) if one.right is Right.CORE else one
            for method, one in address.actions.items()
        }
        return Address(address.words, actions)

    async def close(self) -> None:
        """Return when all requests are finished; each has a timeout."""
        await asyncio.gather(*self._running.values())
        self._threads.executor.shutdown(wait=False)

    async def _answer(self, answer: AnswerCall, call: Call) -> Answer:
        try:
            if call.has_secret_key and b"idempotency-key" in call.headers:
                # A stored refusal would be repeated after the license is here.
                await self._desk.query(Validate(key=call.key), call)
            return await answer(call)
        except UnknownLicense:
            # Nothing was changed for this call.
            call.is_begun = False
            if not await self._find_there(call):
                raise
        return await answer(call)

    async def _find_there(self, call: Call) -> bool:
        """Whether the call's license was imported. Raises ``OldSystemUnavailable`` or ``RateLimited``."""
        name = digest(call.key)
        if not _KEY.fullmatch(call.key):
            return False
        until, has_come = self._asked.get(name, (0.0, False))
        if until > monotonic():
            # It may have been imported after this call was refused.
            return has_come
        question = self._running.get(name)
        if question is None:
            if len(self._running) >= MAX_AT_ONCE:
                raise OldSystemUnavailable
            source = source_of(call.client_address)
            self._limit.take(monotonic(), source)
            question = asyncio.create_task(self._ask(call.key, name, source))
            self._running[name] = question
        try:
            # The next call can use the answer even if this one no longer waits.
            outcome = await asyncio.wait_for(asyncio.shield(question), TIMEOUT)
        except TimeoutError:
            raise OldSystemUnavailable from None
        if outcome is None:
            raise OldSystemUnavailable
        return outcome

    async def _ask(self, key: str, name: bytes, source: str) -> bool | None:
        """Fetch and import a license: True on success, False if it is unknown, None on failure."""
        try:
            license = await self._threads.run(partial(self._fetch, key))
            if license is not None:
                self._limit.give_back(monotonic(), source)
                await self._import(license)
            self._remember(name, has_come=license is not None)
            return license is not None
        except (ShopUnavailable, ShopRefusal, KeywrightError) as problem:
            self._log(problem)
        finally:
            del self._running[name]
        return None

    async def _import(self, license: ImportedLicense) -> None:
        context = Context(_now(), Origin("relay", "", ""))
        for batch in split([license]):
            await self._desk.execute(ImportLicenses(context=context, source="relay", licenses=batch))

    def _fetch(self, key: str) -> ImportedLicense | None:
        """The license with this key, or None if it is unknown. Blocks: call it in a thread."""
        try:
            item = self._client.get_license(key)
        except ShopRefusal as refusal:
            if refusal.code == DATA_ERROR:
                return None
            raise
        now = _now()
        keep = address_keeper(self._settings, now)
        plugin = Plugin(PlainKeys(), lambda _: None, now=now, keep_address=keep)
        license = read_license(item, plugin)
        if license is None or license.key != key:
            raise ShopUnavailable("its answer is another license")
        # No IDs were reserved for the activations.
        return replace(license, activations=tuple(replace(one, id=None) for one in license.activations))

    def _remember(self, name: bytes, *, has_come: bool) -> None:
        self._asked[name] = monotonic() + REMEMBER_FOR, has_come
        self._asked.move_to_end(name)
        if len(self._asked) > MAX_REMEMBERED:
            self._asked.popitem(last=False)

    def _log(self, problem: Exception) -> None:
        if monotonic() >= self._log_again_at:
            self._log_again_at = monotonic() + _LOG_INTERVAL
            # A refusal by the plugin can contain the license key.
            text = problem.code if isinstance(problem, ShopRefusal | KeywrightError) else str(problem)
            log.warning("the relay's other system does not give a license: %s", text)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@asynccontextmanager
async def open_relay(settings: Settings, desk: Desk) -> AsyncIterator[Relay | None]:
    """Open the relay, if the settings name an old system."""
    key, secret = settings.relay_consumer_key, settings.relay_consumer_secret
    if settings.relay_url is None or key is None or secret is None:
        yield None
        return
    limits = Limits(idle=TIMEOUT, total=TIMEOUT, size=_MAX_BYTES, delays=())
    client = LmfwcClient(settings.relay_url, key.get_secret_value(), secret.get_secret_value(), limits)
    relay = Relay(settings, client, desk)
    try:
        yield relay
    finally:
        await relay.close()
