"""The page about v3: each route with its members, problems, and an example call in several languages."""

from collections.abc import Sequence
from typing import Any

from keywright.config import Settings
from keywright.core.errors.problems import PROBLEMS
from keywright.http.middleware.routing import Right
from keywright.http.openapi import page
from keywright.http.openapi.languages import LANGUAGES, Example
from keywright.http.openapi.v3_document import build, example_url, problems_of
from keywright.http.v3.route import JSON_TYPE, Route
from keywright.http.v3.routes import ROUTES

_Part = dict[str, Any]


def render_reference(settings: Settings, server: str, routes: Sequence[Route] = ROUTES) -> str:
    """The page; ``server`` is the URL of the server as callers write it."""
    document = build(settings, routes)
    base = server + document["servers"][0]["url"]
    calls = [_describe(route, document, base) for route in routes]
    return page.render("reference_v3.html", document=document, calls=calls, script=page.read_script())


def render_problem(code: str) -> str:
    """The page about a problem code."""
    return page.render("problem.html", code=code, problem=PROBLEMS[code])


def render_no_problem() -> str:
    """The page about a code that is none."""
    return page.render("no_problem.html")


def render_problems() -> str:
    """The page that lists the problem codes."""
    return page.render("problems.html", problems=PROBLEMS)


def _describe(route: Route, document: _Part, base: str) -> _Part:
    """The facts about a route that the template shows."""
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
