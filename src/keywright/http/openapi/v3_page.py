"""The reference page of v3: each route with its members, its problems and an example in several languages."""

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keywright.config import Settings
from keywright.core.errors.problems import PROBLEMS
from keywright.http.middleware.routing import Right
from keywright.http.openapi import page
from keywright.http.openapi.v3_document import build, example_url, problems_of
from keywright.http.v3.route import JSON_TYPE, Route
from keywright.http.v3.routes import ROUTES

Json = Any


class Example(NamedTuple):
    """An example call; ``body`` is None if it has none."""

    method: str
    url: str
    has_api_key: bool
    body: Json = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the call must send."""
        key = {"Authorization": "Bearer kw_…"} if self.has_api_key else {}
        return key | ({} if self.body is None else {"Content-Type": "application/json"})


def write_curl(one: Example) -> str:
    """Write the call for the shell."""
    is_usual = one.method == ("GET" if one.body is None else "POST")
    words = ["curl" if is_usual else f"curl -X {one.method}"]
    words += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in one.headers.items()]
    if one.body is not None:
        words.append(f"-d {shlex.quote(_json(one.body))}")
    return " \\\n  ".join([*words, shlex.quote(one.url)])


def write_python(one: Example) -> str:
    """Write the call in Python with httpx."""
    arguments = [json.dumps(one.url)]
    if one.has_api_key:
        arguments.append('headers={"Authorization": "Bearer kw_…"}')
    if one.body is not None:
        arguments.append(f"json={_indent(_python(one.body))}")
    call = "".join(f"    {argument},\n" for argument in [f'"{one.method}"', *arguments])
    return f"import httpx\n\nanswer = httpx.request(\n{call})\nprint(answer.status_code, answer.text)"


def write_javascript(one: Example) -> str:
    """Write the call in JavaScript with fetch."""
    options = [f'method: "{one.method}"']
    if one.headers:
        options.append(f"headers: {_indent(_json(one.headers), 2)}")
    if one.body is not None:
        options.append(f"body: JSON.stringify({_indent(_json(one.body), 2)})")
    lines = "".join(f"  {option},\n" for option in options)
    return (
        f"const answer = await fetch({json.dumps(one.url)}, {{\n{lines}}});\n"
        "console.log(answer.status, await answer.text());"
    )


def write_php(one: Example) -> str:
    """Write the call in PHP with its built-in streams."""
    headers = [f"{name}: {value}" for name, value in one.headers.items()]
    options = [f"'method' => '{one.method}'"]
    if headers:
        options.append(f"'header' => {_php(headers, 2)}")
    if one.body is not None:
        options.append(f"'content' => json_encode({_php(one.body, 2)})")
    options.append("'ignore_errors' => true")
    lines = "".join(f"    {option},\n" for option in options)
    return (
        f"<?php\n$context = stream_context_create(['http' => [\n{lines}]]);\n"
        f"echo file_get_contents({_php(one.url)}, false, $context);"
    )


def write_go(one: Example) -> str:
    """Write the call in Go with net/http."""
    is_empty = one.body is None
    body = "nil" if is_empty else f"strings.NewReader(`{_json(one.body)}`)"
    imports = sorted(["fmt", "io", "net/http", *([] if is_empty else ["strings"])])
    lines = [
        f'request, err := http.NewRequest("{one.method}", {json.dumps(one.url)}, {body})',
        "if err != nil {\n\t\tpanic(err)\n\t}",
        *(f'request.Header.Set("{name}", "{value}")' for name, value in one.headers.items()),
        "answer, err := http.DefaultClient.Do(request)",
        "if err != nil {\n\t\tpanic(err)\n\t}",
        "defer answer.Body.Close()",
        "text, _ := io.ReadAll(answer.Body)",
        "fmt.Println(answer.Status, string(text))",
    ]
    imported = "".join(f'\t"{name}"\n' for name in imports)
    code = "".join(f"\t{line}\n" for line in lines)
    return f"package main\n\nimport (\n{imported})\n\nfunc main() {{\n{code}}}"


LANGUAGES: dict[str, Callable[[Example], str]] = {
    "curl": write_curl,
    "Python": write_python,
    "JavaScript": write_javascript,
    "PHP": write_php,
    "Go": write_go,
}


def _json(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _indent(text: str, spaces: int = 4) -> str:
    """Indent all lines of the text but the first."""
    return text.replace("\n", f"\n{' ' * spaces}")


def _python(value: Json) -> str:
    """Write a value as a Python literal, laid out like JSON."""
    names = {True: "True", False: "False", None: "None"}
    match value:
        case dict() if value:
            members = "".join(
                f"    {json.dumps(name)}: {_indent(_python(one))},\n" for name, one in value.items()
            )
            return f"{{\n{members}}}"
        case list() if value:
            return f"[{', '.join(map(_python, value))}]"
        case bool() | None:
            return names[value]
    return json.dumps(value, ensure_ascii=False)


def _php(value: Json, depth: int = 0) -> str:
    """Write a value as a PHP literal."""
    space = "  " * depth
    match value:
        case dict() if value:
            members = (f"{space}  {_php(name)} => {_php(one, depth + 1)},\n" for name, one in value.items())
            return f"[\n{''.join(members)}{space}]"
        case dict():
            return "new stdClass()"
        case list():
            return f"[{', '.join(_php(one, depth) for one in value)}]"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
    return json.dumps(value)


_Part = dict[str, Any]


def render_reference(settings: Settings, server: str, routes: Sequence[Route] = ROUTES) -> str:
    """Render the reference; ``server`` is the URL of the server as callers write it."""
    document = build(settings, routes)
    base = server + document["servers"][0]["url"]
    calls = [_describe(route, document, base) for route in routes]
    return page.render("reference_v3.html", document=document, calls=calls, script=page.read_script())


def render_problem(code: str) -> str:
    """Render the page about a problem code."""
    return page.render("problem.html", code=code, problem=PROBLEMS[code])


def render_no_problem() -> str:
    """Render the page about an unknown code."""
    return page.render("no_problem.html")


def render_problems() -> str:
    """Render the list of problem codes."""
    return page.render("problems.html", problems=PROBLEMS)


def _describe(route: Route, document: _Part, base: str) -> _Part:
    """Collect what the template shows about a route."""
    path = next(one for one in document["paths"] if one == route.public_path)
    operation = document["paths"][path][route.method.lower()]
    successes = {status: one for status, one in operation["responses"].items() if status < "300"}
    answer = successes[str(route.status)].get("content", {}).get(JSON_TYPE, {})
    body = operation.get("requestBody", {}).get("content", {}).get(JSON_TYPE)
    example = Example(
        route.method,
        example_url(route, base),
        route.right not in (Right.NONE, Right.CORE),
        None if body is None else body["example"],
    )
    own = [code for code in PROBLEMS if code in problems_of(route)]
    return {
        "path": path,
        "methods": [route.method.lower()],
        "operation": operation,
        "body": None if body is None else _record(document, body["schema"]),
        "successes": successes,
        "answer": answer.get("example"),
        "problems": own,
        "examples": {name: write(example) for name, write in LANGUAGES.items()},
    }


def _record(document: _Part, schema: _Part) -> _Part:
    record: _Part = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return record
