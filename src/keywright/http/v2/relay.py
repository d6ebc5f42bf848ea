"""The relay, for the days of moving: a license that is unknown here is asked for where it was before.

Programs call Keywright already; their license is still in *License Manager for WooCommerce*. The first call
about it asks there, imports it, and is then answered as every call is.
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

#: How long a call waits for the other system, in seconds, and how many questions it gets at once.
TIMEOUT, MAX_AT_ONCE = 3.0, 8
#: The largest answer, in bytes.
_MAX_BYTES = 16 * 1024**2
#: How many questions about keys that are unknown there, too, an address may cause in a minute.
UNKNOWN_PER_MINUTE = 60
#: How long such a key is not asked for again, in seconds, and how many are remembered.
REMEMBER_FOR, MAX_REMEMBERED = 300.0, 10_000
#: Failures are logged at most this often, in seconds.
_LOG_INTERVAL = 10.0
#: The keys that the plugin takes in a path.
_KEY = re.compile(r"[A-Za-z0-9_-]{1,255}")

log = logging.getLogger(__name__)

AnswerCall = Callable[[Call], Awaitable[Answer]]


class Relay:
    """Asks the other system for licenses, each once. Belongs to one event loop."""

    def __init__(self, settings: Settings, client: LmfwcClient, desk: Desk) -> None:
        self._settings, self._client, self._desk = settings, client, desk
        self._threads = ThreadPool(MAX_AT_ONCE, MAX_AT_ONCE, "relay")
        self._limit = RateLimit(UNKNOWN_PER_MINUTE)
        #: The questions that run, by the digest of the key: whether its license came, None without an answer.
        self._running: dict[bytes, asyncio.Task[bool | None]] = {}
        #: The keys that were asked for: the end of that time, and whether the license came.
        self._asked: OrderedDict[bytes, tuple[float, bool]] = OrderedDict()
        self._log_again_at = 0.0

    def wrap(self, address: Address) -> Address:
        """The address, whose core calls ask for unknown licenses."""
        actions = {
            method: one._replace(answer=partial(self._answer, one.answer)) if one.right is Right.CORE else one
            for method, one in address.actions.items()
        }
        return Address(address.words, actions)

    async def close(self) -> None:
        """Return when all questions are answered; each has a deadline."""
        await asyncio.gather(*self._running.values())
        self._threads.executor.shutdown(wait=False)

    async def _answer(self, answer: AnswerCall, call: Call) -> Answer:
        try:
            if call.has_secret_key and b"idempotency-key" in call.headers:
                # A refusal would be kept, and given again when the license is here.
                await self._desk.query(Validate(key=call.key), call)
            return await answer(call)
        except UnknownLicense:
            # Nothing has been decided for this call.
            call.is_begun = False
            if not await self._find_there(call):
                raise
        return await answer(call)

    async def _find_there(self, call: Call) -> bool:
        """Whether the license of this call has come. Raises ``OldSystemUnavailable`` or
        ``RateLimited``.
        """
        name = digest(call.key)
        if not _KEY.fullmatch(call.key):
            return False
        until, has_come = self._asked.get(name, (0.0, False))
        if until > monotonic():
            # It may have come after this call was refused.
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
            # The answer is of use to the next call, also when this one waits no longer.
            outcome = await asyncio.wait_for(asyncio.shield(question), TIMEOUT)
        except TimeoutError:
            raise OldSystemUnavailable from None
        if outcome is None:
            raise OldSystemUnavailable
        return outcome

    async def _ask(self, key: str, name: bytes, source: str) -> bool | None:
        """Ask for a license and import it: True; False where it is unknown; None without an answer."""
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
        """The license with this key; None where it is unknown. Slow: runs in a thread."""
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
        # No id of an activation was reserved.
        return replace(license, activations=tuple(replace(one, id=None) for one in license.activations))

    def _remember(self, name: bytes, *, has_come: bool) -> None:
        self._asked[name] = monotonic() + REMEMBER_FOR, has_come
        self._asked.move_to_end(name)
        if len(self._asked) > MAX_REMEMBERED:
            self._asked.popitem(last=False)

    def _log(self, problem: Exception) -> None:
        if monotonic() >= self._log_again_at:
            self._log_again_at = monotonic() + _LOG_INTERVAL
            # A refusal of the plugin can have the license key in it.
            text = problem.code if isinstance(problem, ShopRefusal | KeywrightError) else str(problem)
            log.warning("the relay's other system does not give a license: %s", text)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@asynccontextmanager
async def open_relay(settings: Settings, desk: Desk) -> AsyncIterator[Relay | None]:
    """The relay, if the settings name another system."""
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
