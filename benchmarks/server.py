"""Keywright with an additional address, ``licenses/constant/{key}``: a fixed response through the same code.

``python server.py FILE serve …`` responds with the contents of FILE; the other arguments are Keywright's.
"""

import sys
from pathlib import Path

from keywright.cli import main
from keywright.http.answer import Answer
from keywright.http.middleware.call import Call
from keywright.http.middleware.routing import Right
from keywright.http.v2 import routes


def add_constant(body: bytes) -> None:
    """Insert the address next to that of validate, so that routing takes as long."""

    async def constant(_: Call) -> Answer:
        return Answer(200, body)

    action = routes.Action("constant", Right.CORE, constant, changes=False)
    address = routes.Address(("licenses", "constant", None), {"GET": action})
    words = [one.words for one in routes.ADDRESSES]
    routes.ADDRESSES.insert(words.index(("licenses", "validate", None)), address)


if __name__ == "__main__":
    add_constant(Path(sys.argv[1]).read_bytes())
    main(sys.argv[2:])
