"""Write the shared test vectors: ``python -m clients.vectors.make``.

Every client runs every case. README.md in this folder says what a case means.
"""

import json
from pathlib import Path

from clients.vectors.answers import bindings, files, key_sets, questions, states, times
from clients.vectors.tokens import formats, headers, signatures

FOLDER = Path(__file__).parent
GROUPS = (formats, headers, signatures, bindings, states, questions, times, files, key_sets)


def build_files() -> dict[str, str]:
    """The text of each file of vectors by its name."""
    made = {}
    for group in GROUPS:
        document = {"about": (group.__doc__ or "").split("\n", 1)[0], "cases": list(group())}
        made[f"{group.__name__.replace('_', '-')}.json"] = (
            json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        )
    return made


if __name__ == "__main__":
    for name, text in build_files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
