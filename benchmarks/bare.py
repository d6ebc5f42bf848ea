"""Keywright without administration pages and their background loops: projector and jobs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from keywright.cli import main
from keywright.http import app


def leave_out_pages() -> None:
    """Serve nothing below /admin, project no events, and run no jobs."""

    @asynccontextmanager
    async def nothing(*_: object, **__: object) -> AsyncIterator[None]:
        yield

    async def nothing_projected(*_: object) -> None:
        return

    replaced = {"_open_runner": nothing, "running_jobs": nothing, "project_events": nothing_projected}
    for name, replacement in replaced.items():
        if not hasattr(app, name):
            raise RuntimeError(f"keywright.http.app has no {name} to replace")
        setattr(app, name, replacement)


if __name__ == "__main__":
    leave_out_pages()
    main()
