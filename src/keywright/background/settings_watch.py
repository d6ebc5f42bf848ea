"""Take over settings that were changed in the pages, by this server or another one."""

import asyncio

from keywright.background.loops import Waits
from keywright.config import Settings
from keywright.config.stored import apply
from keywright.core.errors import ShuttingDown
from keywright.engine.desk import Desk
from keywright.maintenance.tasks import ListSettings

#: The time between two looks, in seconds.
_INTERVAL = 2.0


async def watch_settings(desk: Desk, settings: Settings) -> None:
    """Look again and again, until this is cancelled."""
    waits = Waits("changes of settings have to wait")
    while True:
        await asyncio.sleep(_INTERVAL)
        try:
            apply(settings, await desk.query(ListSettings()))
            waits.reset()
        except ShuttingDown:
            return
        except Exception as problem:
            waits.log(problem)
