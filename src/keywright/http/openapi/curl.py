"""A call as a line for the shell, with the document's examples."""

import json
import shlex
from typing import Any
from urllib.parse import quote, urlencode

_MAX_IN_QUERY = 2


def line(base: str, call: dict[str, Any]) -> str:
    """The call with curl; ``base`` is the URL of the interface."""
    method = call["methods"][0]
    example = call["body"].get("application/json", {}).get("example", {})
    words, query = ["curl"], ""
    if {} not in call["operation"]["security"]:
        words.append("-u ck_…:cs_…")
    if method not in ("get", "post"):
        words.append(f"-X {method.upper()}")
    if method == "get":
        query = _query(example or dict(list(_examples(call, "query").items())[:_MAX_IN_QUERY]))
    elif example:
        words.append("-H 'Content-Type: application/json'")
        words.append(f"\\\n  -d {shlex.quote(json.dumps(example, indent=2, ensure_ascii=False))} \\\n ")
    elif method == "post":
        words.append("-X POST")
    names = {name: quote(str(value), safe="") for name, value in _examples(call, "path").items()}
    return f"{' '.join(words)} {shlex.quote(base + call['path'].format(**names) + query)}"


def _examples(call: dict[str, Any], place: str) -> dict[str, Any]:
    return {one["name"]: one["example"] for one in call["parameters"] if one["in"] == place}


def _query(values: dict[str, Any]) -> str:
    simple = {name: value for name, value in values.items() if not isinstance(value, dict)}
    return f"?{urlencode(simple)}" if simple else ""
