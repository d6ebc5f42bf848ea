"""JSON values as YAML 1.2 in block style. Its texts are quoted as in JSON, which is YAML, too."""

import json
import re
from collections.abc import Iterator
from typing import Any

#: What every reader takes for a text without quotes.
_PLAIN_KEY = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[A-Za-z_$/][\w$/{}+.-]*", re.IGNORECASE)


def write_yaml(value: Any) -> str:
    """The value, an object or a list, as a YAML document."""
    return "".join(f"{line}\n" for line in _write_lines(value))


def _write_lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        entries = ((f"{_write_key(name)}:", one) for name, one in value.items())
    else:
        entries = (("-", one) for one in value)
    for start, one in entries:
        if not one or not isinstance(one, dict | list):
            yield f"{start} {json.dumps(one, ensure_ascii=False)}"
        else:
            yield start
            yield from (f"  {line}" for line in _write_lines(one))


def _write_key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
