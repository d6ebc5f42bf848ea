"""A call as a line for the shell."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

_MOST_IN_QUERY = 2


def line(
    address: str,
    method: str,
    operation: Mapping[str, Any],
    parameters: Sequence[Mapping[str, Any]],
    body: Mapping[str, Any],
) -> str:
    """The call, filled with the document's examples."""
    words = ["curl"]
    if {} not in operation["security"]:
        words.append("-u ck_…:cs_…")
    if method not in ("get", "post"):
        words.append(f"-X {method.upper()}")
    example = body.get("application/json", {}).get("example", {})
    query = ""
    if method == "get":
        query = _query(example or _of_query(parameters))
    elif example:
        words.append("-H 'Content-Type: application/json'")
        words.append(f"\\\n  -d {shlex.quote(json.dumps(example, indent=2, ensure_ascii=False))} \\\n ")
    elif method == "post":
        words.append("-X POST")
    for one in parameters:
        if one["in"] == "path":
            address = address.replace(f"{{{one['name']}}}", quote(str(one["example"]), safe=""))
    return f"{' '.join(words)} {shlex.quote(address + query)}"


def _of_query(parameters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = [one for one in parameters if one["in"] == "query"][:_MOST_IN_QUERY]
    return {one["name"]: one["example"] for one in first}


def _query(values: Mapping[str, Any]) -> str:
    simple = {name: value for name, value in values.items() if not isinstance(value, dict)}
    return f"?{urlencode(simple)}" if simple else ""
