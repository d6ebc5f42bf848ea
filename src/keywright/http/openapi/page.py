"""The templates, style and script that the API pages share."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment

from keywright.http.pages.render import LOOK, open_templates

_Part = dict[str, Any]
TEMPLATES = Path(__file__).with_name("templates")
_MARKS = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
_NAME_IN_PATH = re.compile(r"(\{\w+\})")
_NAME_IN_JSON = re.compile(r'^(\s*)("[^"]+")(?=:)', re.MULTILINE)


def render(template: str, **context: Any) -> str:
    """Render a page from its template. The style is inline, so the response needs ``security_policy``."""
    return _environment().get_template(template).render(style=read_style(), **context)


@cache
def security_policy(*, has_script: bool = False, has_form: bool = False) -> str:
    """Return the Content-Security-Policy of a page: only its inline style and script; for a document, also
    its form and this server's images.
    """
    script = f" script-src 'sha256-{_digest(read_script())}';" if has_script else ""
    images, target = ("data: 'self'", "'self'") if has_form else ("data:", "'none'")
    return (
        f"default-src 'none'; style-src 'sha256-{_digest(read_style())}';{script} img-src {images}; "
        f"base-uri 'none'; form-action {target}; frame-ancestors 'none'"
    )


@cache
def read_script() -> str:
    """Read the script for pages with tabs and copy buttons."""
    return (TEMPLATES / "page.js").read_text(encoding="utf-8")


@cache
def read_style() -> str:
    """Read the style of the pages."""
    return "".join(one.read_text(encoding="utf-8") for one in (LOOK, TEMPLATES / "page.css"))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = open_templates(TEMPLATES)
    environment.filters.update(
        anchor=lambda name: name.lower().replace(" ", "-"),
        split_json=lambda value: _tokens(_NAME_IN_JSON, json.dumps(value, indent=2, ensure_ascii=False)),
        split_marks=partial(_tokens, _MARKS),
        split_names=partial(_tokens, _NAME_IN_PATH),
        type=_type,
    )
    return environment


def _tokens(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, ...]]:
    """Yield the text before each match with the match's groups; empty groups follow the last text."""
    step = pattern.groups + 1
    parts = [*pattern.split(text), *([""] * pattern.groups)]
    return (tuple(parts[start : start + step]) for start in range(0, len(parts), step))


def _type(schema: _Part) -> str:
    """Describe the type of a schema's values in words."""
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
