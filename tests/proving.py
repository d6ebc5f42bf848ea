"""How far the proofs of Keywright's promises go in this run, and the record of what they found.

``make test`` runs each in its short form. ``make prove`` (proofs/) runs them whole: it says so in
``LONG_PROOFS``, which is the part of the whole that is wanted (1 is all), and collects the records from
the file that ``PROOFS_FILE`` names.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path

#: The part of the long form that is wanted: 0 is the short form, 1 is all of it.
PART = float(os.environ.get("LONG_PROOFS") or 0)
IS_LONG = PART > 0


def size(short: int, long: int) -> int:
    """How many attempts, cases or rounds: ``short``; or, in ``make prove``, the wanted part of ``long``."""
    return max(short, math.ceil(long * PART))


def record(
    promise: str,
    part: str,
    counted: Mapping[str, int] | None = None,
    worst: Mapping[str, float] | None = None,
) -> None:
    """Write down what a proof found.

    ``promise`` is its sign (``"R3"``); ``part`` is the kind of database, another part of the proof in a few
    words, or a control (``"control: synchronous=NORMAL"``). Names of figures are words as they are printed,
    with their unit. What several tests ``counted`` in one part is added up; of ``worst``, the highest stays.
    """
    counted, worst = dict(counted or {}), dict(worst or {})
    said = [f"{name} {value:,}" for name, value in {**counted, **worst}.items()]
    print(f"{promise}, {part}: {', '.join(said)}")
    entry = {"promise": promise, "part": part, "counted": counted, "worst": worst}
    if path := os.environ.get("PROOFS_FILE"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
