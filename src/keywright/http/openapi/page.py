"""The document as a page for people: everything on it is read from the document."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from keywright.http.markup import Html, element, inline, joined, page, prose
from keywright.http.openapi import curl
from keywright.http.openapi.operations import ADDRESSES

_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_KEY_IN_JSON = re.compile(r'^(\s*)("[^"]+"):', re.MULTILINE)
_EXPECTED_HEADERS = ("Cache-Control", "X-Content-Type-Options")
#: Statuses whose reasons belong to the operation; the others may meet any call.
_OWN = ("403", "404")
_NO_ROUTE = "rest_no_route"


class _Call(NamedTuple):
    """What one or several methods at an address do."""

    path: str
    methods: list[str]
    operation: dict[str, Any]
    parameters: list[dict[str, Any]]
    body: dict[str, Any] | None


def write(document: Mapping[str, Any], base: str) -> Html:
    """The whole page; ``base`` is the address of the interface as callers write it."""
    calls = _calls(document)
    info = document["info"]
    title = element("h1", info["title"])
    version = element(
        "p",
        f"Keywright {info['version']} · ",
        element("a", "OpenAPI 3.1 document", href="v2.json"),
        class_="soft",
    )
    start = element("section", title, version, prose(info["description"]), id="start")
    groups = [_group(document, tag, calls, base) for tag in document["tags"]]
    main = element("main", start, *groups, _records(document), _reasons(document))
    return page(info["title"], element("div", _contents(document, calls), main, class_="frame"))


def _calls(document: Mapping[str, Any]) -> list[_Call]:
    """The operations; methods that do the same at an address are one."""
    found: list[_Call] = []
    for path, item in document["paths"].items():
        by_name: dict[str, _Call] = {}
        for method in _METHODS:
            if method in item:
                operation = item[method]
                name = operation["operationId"].partition("_by_")[0]
                body = _resolved(document, operation.get("requestBody"))
                parameters = [*item.get("parameters", []), *operation.get("parameters", [])]
                if name not in by_name:
                    by_name[name] = _Call(path, [], operation, parameters, body)
                by_name[name].methods.append(method)
                if body is not None:
                    by_name[name] = by_name[name]._replace(body=body)
        found += by_name.values()
    return found


def _resolved(document: Mapping[str, Any], part: Any) -> Any:
    """The part itself, where it is only referred to."""
    while isinstance(part, dict) and "$ref" in part:
        target: Any = document
        for word in part["$ref"].removeprefix("#/").split("/"):
            target = target[word]
        part = target
    return part


def _contents(document: Mapping[str, Any], calls: list[_Call]) -> Html:
    groups = []
    for tag in document["tags"]:
        name = tag["name"]
        if name == ADDRESSES:
            links = [_link(_anchor(name), name)]
            name = "More"
            links += [_link("records", "Records"), _link("reasons", "Reasons for a failure")]
        else:
            links = [
                _link(one.operation["operationId"], one.operation["summary"])
                for one in calls
                if name in one.operation["tags"]
            ]
        groups.append(joined(element("strong", name), element("ul", *links)))
    return element(
        "nav",
        element("a", "Keywright", href="../", class_="name"),
        element("input", type="checkbox", id="contents"),
        element("label", "Contents", for_="contents"),
        element("div", *groups, class_="contents"),
    )


def _link(anchor: str, text: str) -> Html:
    return element("li", element("a", text, href=f"#{anchor}"))


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _group(document: Mapping[str, Any], tag: dict[str, Any], calls: list[_Call], base: str) -> Html:
    name = tag["name"]
    own = [one for one in calls if name in one.operation["tags"]]
    head = joined(element("h2", name), prose(tag["description"]))
    if name == ADDRESSES:
        body = _table(("Address", "Methods"), _address_rows(own), kind="addresses")
    else:
        body = joined(*(_call(document, one, base) for one in own))
    return element("section", head, body, class_="group", id=_anchor(name))


def _address_rows(calls: list[_Call]) -> list[Html]:
    methods: dict[str, list[Html]] = {}
    for one in calls:
        methods.setdefault(one.path, []).append(_methods(one))
    return [_row(_address(path), joined(*found)) for path, found in methods.items()]


def _call(document: Mapping[str, Any], call: _Call, base: str) -> Html:
    name, summary = call.operation["operationId"], call.operation["summary"]
    responses = {status: _resolved(document, one) for status, one in call.operation["responses"].items()}
    told = element(
        "div",
        element("h3", element("a", summary, href=f"#{name}")),
        element("div", _methods(call), _address(call.path), class_="at"),
        prose(call.operation["description"]),
        _parameters(call),
        _success(responses["200"]),
        _refusals(responses),
    )
    shown = element(
        "div",
        element(
            "div",
            element("h4", "Example"),
            element("pre", _curl(call, base)),
            *_examples(responses["200"]),
            class_="inside",
        ),
        class_="shown",
    )
    return element("article", told, shown, class_="call", id=name)


def _curl(call: _Call, base: str) -> str:
    return curl.line(base + call.path, call.methods[0], call.operation, call.parameters, call.body)


def _methods(call: _Call) -> Html:
    return joined(*(element("span", one.upper(), class_=f"method {one}") for one in call.methods))


def _address(path: str) -> Html:
    parts = re.split(r"(\{\w+\})", path)
    return element("code", *(element("i", one) if one.startswith("{") else one for one in parts))


def _parameters(call: _Call) -> Html:
    """One row a parameter, wherever it may be sent."""
    rows = {}
    in_body = _body_schema(call.body)
    needed = in_body.get("required", [])
    for one in call.parameters:
        name, where = one["name"], one["in"]
        is_needed = one.get("required", False) or name in needed
        also = where == "query" and name in in_body.get("properties", {})
        where = "query or body" if also else where
        rows[name] = _parameter_row(name, where, one["schema"], one["description"], is_needed=is_needed)
    if not rows:
        return Html()
    return joined(element("h4", "Parameters"), _table(("Name", "What it is"), rows.values(), kind="fields"))


def _body_schema(body: dict[str, Any] | None) -> dict[str, Any]:
    if body is None:
        return {}
    schema: dict[str, Any] = body["content"]["application/x-www-form-urlencoded"]["schema"]
    return schema


def _parameter_row(
    name: str, where: str, schema: dict[str, Any], description: str, *, is_needed: bool
) -> Html:
    kind = f"{_type(schema)}, {where}"
    mark = [element("span", " required", class_="needed")] if is_needed else []
    return _row(
        joined(element("code", name), *mark, element("span", kind, class_="type")), inline(description)
    )


def _type(schema: Mapping[str, Any]) -> str:
    """What a schema's values are, in a word."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2]).lower()
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}s"
    kind = schema.get("type", "")
    kinds = kind if isinstance(kind, list) else [kind]
    return " or ".join("text" if one == "string" else one for one in kinds)


def _success(response: dict[str, Any]) -> Html:
    headers = [name for name in response["headers"] if name not in _EXPECTED_HEADERS]
    schema = response["content"]["application/json"]["schema"]["properties"]["data"]
    answer: list[str] = [element("span", "200 ", class_="status fine"), inline(response["description"])]
    records = _record_links(schema)
    if records:
        answer += [" ", element("code", "data"), " is ", *records, "."]
    if headers:
        names = [element("code", name) for name in headers]
        answer += [" Headers: ", *_listed(names, ", "), "."]
    return joined(element("h4", "Answer"), element("p", *answer))


def _record_links(schema: dict[str, Any]) -> list[str]:
    if "oneOf" in schema:
        return _listed([joined(*_record_links(one)) for one in schema["oneOf"]], " or ")
    if schema.get("type") == "array" and "items" in schema:
        return ["an array of ", *_record_links(schema["items"])]
    name = schema.get("$ref", "").rpartition("/")[2]
    return [element("a", name, href=f"#record-{name}")] if name else []


def _listed(parts: list[Html], between: str) -> list[str]:
    listed: list[str] = []
    for part in parts:
        listed += [between, part] if listed else [part]
    return listed


def _refusals(responses: dict[str, Any]) -> Html:
    rows = [
        _reason_row(status, example)
        for status in _OWN
        for example in _reasons_of(responses.get(status))
        if example["value"]["code"] != _NO_ROUTE
    ]
    everywhere = element(
        "p", element("a", "Further reasons", href="#reasons"), " may meet any call.", class_="soft"
    )
    return joined(element("h4", "Failures"), _table(("Status", "Message, and when"), rows), everywhere)


def _reasons_of(response: dict[str, Any] | None) -> Iterable[dict[str, Any]]:
    if response is None or "content" not in response:
        return ()
    content = response["content"].get("application/json", {})
    reasons: Iterable[dict[str, Any]] = content.get("examples", {}).values()
    return reasons


def _reason_row(status: str, example: dict[str, Any], *, with_code: bool = False) -> Html:
    said = [
        element("p", example["value"]["message"], class_="message"),
        element("p", inline(example["description"]), class_="soft"),
    ]
    if with_code:
        code = example["value"]["code"]
        said.append(element("p", element("code", code)))
    return _row(element("span", status, class_="status"), joined(*said))


def _examples(response: dict[str, Any]) -> list[Html]:
    """The first example at once, the others on demand."""
    examples = list(response["content"]["application/json"]["examples"].values())
    first, *others = examples
    shown = [element("h4", "Answers"), _json(first["value"])]
    for other in others:
        summary = element("summary", f"Another: {other['summary']}")
        shown.append(element("details", summary, _json(other["value"]), class_="more"))
    return shown


def _json(value: Any) -> Html:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    parts: list[str] = []
    end = 0
    for found in _KEY_IN_JSON.finditer(text):
        parts += [text[end : found.start(2)], element("b", found[2])]
        end = found.end(2)
    return element("pre", *parts, text[end:])


def _records(document: Mapping[str, Any]) -> Html:
    """The records field by field; one that is a part of an earlier one in a sentence."""
    parts: list[Html] = []
    shown: dict[str, dict[str, Any]] = {}
    for name, schema in document["components"]["schemas"].items():
        fields = schema["properties"]
        whole = next((one for one in shown if fields.keys() <= shown[one].keys()), None)
        parts += [element("h3", name, id=f"record-{name}"), prose(schema["description"])]
        if whole is None:
            shown[name] = fields
            rows = [_field_row(document, field, one) for field, one in fields.items()]
            parts.append(_table(("Field", "What it is"), rows, kind="fields"))
        else:
            parts.append(_difference(whole, shown[whole], fields))
    lead = prose("The fields come in this order. Numbers are JSON integers; every field is always there.")
    return element("section", element("h2", "Records"), lead, *parts, class_="group", id="records")


def _field_row(document: Mapping[str, Any], name: str, schema: dict[str, Any]) -> Html:
    head = joined(element("code", name), element("span", _type(schema), class_="type"))
    return _row(head, inline(_resolved(document, schema).get("description", "")))


def _difference(whole: str, its_fields: dict[str, Any], fields: dict[str, Any]) -> Html:
    """How a record differs from the one that it is a part of."""
    missing = _listed([element("code", name) for name in its_fields if name not in fields], ", ")
    others = [name for name in fields if _type(fields[name]) != _type(its_fields[name])]
    kinds = [joined("; ", element("code", name), f" is one {_type(fields[name])}") for name in others]
    link = element("a", whole, href=f"#record-{whole}")
    return element("p", "As ", link, ", without ", *missing, *kinds, ".")


def _reasons(document: Mapping[str, Any]) -> Html:
    """Every reason for a failure that any operation knows, once."""
    found: dict[tuple[str, str], Html] = {}
    for item in document["paths"].values():
        for method, operation in item.items():
            if method != "parameters":
                for status, response in operation["responses"].items():
                    for one in _reasons_of(_resolved(document, response)):
                        if status != "200":
                            message = (status, one["value"]["message"])
                            found.setdefault(message, _reason_row(status, one, with_code=True))
    rows = [row for _, row in sorted(found.items(), key=lambda one: one[0][0])]
    lead = prose(
        "Programs may match on status, code and message. The body is always a `Failure`; 401 comes with "
        "`WWW-Authenticate` where credentials help, 405 with `Allow`, and 409, 429 and 503 with "
        "`Retry-After`."
    )
    table = _table(("Status", "Message, when, and code"), rows)
    heading = element("h2", "Reasons for a failure")
    return element("section", heading, lead, table, class_="group", id="reasons")


def _table(names: tuple[str, ...], rows: Iterable[Html], *, kind: str = "reasons") -> Html:
    head = element("thead", element("tr", *(element("th", name) for name in names)))
    return element("table", head, element("tbody", *rows), class_=kind)


def _row(*cells: Html) -> Html:
    return element("tr", *(element("td", cell) for cell in cells))
