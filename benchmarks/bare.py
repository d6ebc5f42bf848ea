"""Keywright without administration pages, and without what is done for them behind the calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from keywright.cli import main
from keywright.http import app


def leave_out_pages() -> None:
    """Nothing answers below /admin; nothing follows the events, and nobody works on jobs."""

    @asynccontextmanager
    async def nothing(*_: object, **__: object) -> AsyncIterator[None]:
        yield

    replaced = ("_admin_pages", "looked_after", "working_on_jobs")
    for name in replaced:
        if not hasattr(app, name):
            raise RuntimeError(f"there is no {name} any more")
        setattr(app, name, nothing)


if __name__ == "__main__":
    leave_out_pages()
    main()
