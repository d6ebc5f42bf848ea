"""The one place where the parts are put together."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from starlette.applications import Starlette

from keywright.batches import Batches
from keywright.commands import ForgetAnswers
from keywright.config import Settings
from keywright.desk import Desk
from keywright.errors import KeywrightError
from keywright.http import pages
from keywright.http.edge import Edge
from keywright.model import Origin
from keywright.storage import Storage

#: How long the answers to calls with an idempotency key are kept, and how often old ones go.
ANSWERS_KEPT = timedelta(hours=48)
_FORGET_EVERY = timedelta(hours=1)

log = logging.getLogger(__name__)


def create_app(settings: Settings, storage: Storage) -> Edge:
    """The ASGI application over an open database. Its lifespan opens and closes the desk."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        desk = Desk(Batches(storage), most_waiting=settings.queue_limit)
        app.state.desk = edge.desk = desk
        forgetting = asyncio.create_task(_forget_answers(desk))
        try:
            yield
        finally:
            forgetting.cancel()
            await asyncio.wait([forgetting])
            await desk.close()

    starlette = Starlette(routes=pages.ROUTES, lifespan=lifespan, exception_handlers=pages.HANDLERS)
    starlette.router.redirect_slashes = False
    starlette.state.settings = settings
    edge = Edge(settings, starlette)
    return edge


async def _forget_answers(desk: Desk) -> None:
    origin = Origin("keywright", "", "")
    while True:
        now = datetime.now(UTC).replace(microsecond=0)
        try:
            while await desk.change(ForgetAnswers(now=now, origin=origin, before=now - ANSWERS_KEPT)):
                # Others come in between.
                await asyncio.sleep(0)
        except KeywrightError as fault:
            log.warning("old answers could not be forgotten: %s", fault)
        await asyncio.sleep(_FORGET_EVERY.total_seconds())
