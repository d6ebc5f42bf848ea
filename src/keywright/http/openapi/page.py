"""The pages of the API: the reference, made from the OpenAPI document, and the landing page."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment

from keywright.http.openapi import curl
from keywright.http.pages.static_files import LOOK
from keywright.http.pages.templates import open_templates

_Part = dict[str, Any]
_TEMPLATES = Path(__file__).with_name("templates")
_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_MARKS = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
_NAME_IN_PATH = re.compile(r"(\{\w+\})")
_NAME_IN_JSON = re.compile(r'^(\s*)("[^"]+")(?=:)', re.MULTILINE)


def render(template: str, **context: Any) -> str:
    """A page from its template. Its style is inside, and needs ``security_policy``."""
    return _environment().get_template(template).render(style=_style(), **context)


def render_reference(document: _Part, base: str) -> str:
    """The page about the interface; ``base`` is the URL of the interface as callers write it."""
    document = _with_components(document)
    return render(
        "reference.html",
        document=document,
        calls=list(_calls(document["paths"])),
        curl=partial(curl.line, base),
        records=_records(document["components"]["schemas"]),
    )


@cache
def security_policy(*, has_script: bool = False) -> str:
    """The Content-Security-Policy of a page: its own style and script, and nothing else from anywhere."""
    script = f" script-src 'sha256-{_digest(read_script())}';" if has_script else ""
    return (
        f"default-src 'none'; style-src 'sha256-{_digest(_style())}';{script} img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@cache
def read_script() -> str:
    """The script of a page with tabs and copy buttons."""
    return (_TEMPLATES / "page.js").read_text(encoding="utf-8")


@cache
def _style() -> str:
    return "".join(one.read_text(encoding="utf-8") for one in (LOOK, _TEMPLATES / "page.css"))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = open_templates(_TEMPLATES)
    environment.filters.update(
        anchor=lambda name: name.lower().replace(" ", "-"),
        reasons=_reasons,
        split_json=lambda value: _tokens(_NAME_IN_JSON, json.dumps(value, indent=2, ensure_ascii=False)),
        split_marks=partial(_tokens, _MARKS),
        split_names=partial(_tokens, _NAME_IN_PATH),
        type=_type,
    )
    return environment


def _tokens(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, ...]]:
    """The text before each match, together with the groups of the match; they are empty at the end."""
    step = pattern.groups + 1
    parts = [*pattern.split(text), *([""] * pattern.groups)]
    return (tuple(parts[start : start + step]) for start in range(0, len(parts), step))


def _with_components(document: _Part) -> _Part:
    """The document with its shared bodies and responses put where it refers to them."""

    def resolve(part: Any) -> Any:
        match part:
            case {"$ref": str(ref)} if not ref.startswith("#/components/schemas/"):
                _, _, kind, name = ref.split("/")
                return resolve(document["components"][kind][name])
            case dict():
                return {name: resolve(one) for name, one in part.items()}
            case list():
                return [resolve(one) for one in part]
        return part

    resolved: _Part = resolve(document)
    return resolved


def _calls(paths: dict[str, _Part]) -> Iterator[_Part]:
    """The operations; methods that do the same at a path are one call, and so are HEAD and OPTIONS."""
    for path, item in paths.items():
        calls: dict[str, _Part] = {}
        for method in filter(item.get, _METHODS):
            operation = item[method]
            name = "" if method in ("head", "options") else operation["operationId"].partition("_by_")[0]
            parameters = item.get("parameters", []) + operation.get("parameters", [])
            new = {"path": path, "methods": [], "operation": operation, "parameters": parameters, "body": {}}
            call = calls.setdefault(name, new)
            call["methods"].append(method)
            call["body"] = call["body"] or operation.get("requestBody", {}).get("content", {})
        yield from calls.values()


def _type(schema: _Part) -> str:
    """The type of a schema's values in words."""
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2]).lower()
    if "enum" in schema and "type" not in schema:
        return ", ".join(map(str, schema["enum"]))
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"array of {_type(schema['items'])}s"
    return str(kind).replace("string", "text")


def _reasons(operations: Iterable[_Part], *statuses: str) -> list[tuple[str, _Part]]:
    """The reasons for failures, or for those with these statuses, each once, by status."""
    reasons = {
        (status, example["value"]["message"]): (status, example)
        for operation in operations
        for status, response in operation["responses"].items()
        if status in statuses or (not statuses and status != "200")
        for content in response["content"].values()
        for example in content["examples"].values()
    }
    return sorted(reasons.values(), key=lambda one: one[0])


def _records(schemas: dict[str, _Part]) -> Iterator[_Part]:
    """The records, the largest first; of one that is a part of an earlier one, the difference."""
    wholes: dict[str, _Part] = {}
    for name, schema in sorted(schemas.items(), key=lambda one: -len(one[1]["properties"])):
        fields = schema["properties"]
        whole = next((one for one in wholes if fields.keys() <= wholes[one].keys()), "")
        its_fields = wholes.get(whole, {})
        yield {
            "name": name,
            "description": schema["description"],
            "whole": whole,
            "missing": [one for one in its_fields if one not in fields],
            "fields": [
                (one, field)
                for one, field in fields.items()
                if one not in its_fields or _type(field) != _type(its_fields[one])
            ],
        }
        if not whole:
            wholes[name] = fields
