"""The shared test vectors of clients/vectors."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "clients" / "vectors"
#: Every case of every file; README.md beside them says what a case has.
CASES: list[dict[str, Any]] = [
    case
    for path in sorted(FOLDER.glob("*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
]
