"""One harness under atheris, which looks for inputs that reach code which none has reached:
``python -m tests.fuzzing NAME FOLDER OPTIONS``. The folder holds the inputs to begin with, and gets those
that it finds; the options are libFuzzer's (https://llvm.org/docs/LibFuzzer.html#options).
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "clients" / "python"))
#: What is watched; the harnesses themselves are not.
WATCHED = [
    "keywright",
    "keywright_client",
    "starlette.formparsers",
    "python_multipart",
    "tests.fuzzing.planted",
]


def main(name: str, *arguments: str) -> None:
    # Not everywhere, and without types.
    atheris: Any = import_module("atheris")
    check: Callable[[bytes], None]
    with atheris.instrument_imports(include=WATCHED):
        if name == "planted":
            from tests.fuzzing.planted import planted

            check = planted
        else:
            from tests.fuzzing.harnesses import BY_NAME

            check = BY_NAME[name].check
    atheris.Setup([sys.argv[0], *arguments], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
