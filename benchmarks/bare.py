"""Keywright without administration pages, and without what is done for them behind the calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from keywright.cli import main
from keywright.http import app


def leave_out_pages() -> None:
    """Nothing answers below /admin; nothing follows the events, and nobody works on jobs."""

    def only(pages: ASGIApp, _: object) -> ASGIApp:
        return pages

    @asynccontextmanager
    async def nothing(*_: object) -> AsyncIterator[None]:
        yield

    replaced = {"_with_admin": only, "looked_after": nothing, "working_on_jobs": nothing}
    for name, other in replaced.items():
        if not hasattr(app, name):
            raise RuntimeError(f"there is no {name} any more")
        setattr(app, name, other)


if __name__ == "__main__":
    leave_out_pages()
    main()
