"""The documents of v3 as served: the page, the OpenAPI document, the problem pages."""

import asyncio
import re

import pytest
from starlette.requests import Request

from keywright.config import Settings
from keywright.core.errors.problems import PROBLEMS
from keywright.http.openapi import library
from keywright.http.openapi.routes import Documents
from keywright.http.openapi.v3_document import write_yaml
from tests.http.asking import Client

DATABASES = ("sqlite",)


def test_the_page_runs_its_own_script_and_loads_nothing(program: Client) -> None:
    reply = program.get("/openapi/v3")
    page = reply.body.decode()
    policy = reply.header("content-security-policy") or ""
    assert reply.status == 200
    assert re.search(r"style-src 'sha256-[^']+'; script-src 'sha256-[^']+'; img-src data:;", policy)
    assert "unsafe" not in policy
    assert not [one for one in re.findall(r'(?:src|href)="([^"]*)"', page) if "//" in one]
    anchors = set(re.findall(r' id="([^"]*)"', page))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= anchors


def test_the_document_may_be_kept_and_read_by_any_site(program: Client) -> None:
    reply = program.get("/openapi/v3.json")
    assert reply.json["openapi"].startswith("3.1.")
    assert reply.header("cache-control") == "public, max-age=300"
    assert reply.header("access-control-allow-origin") == "*"
    assert program.get("/v3/openapi.json").body == reply.body


def test_the_document_is_there_in_yaml(program: Client) -> None:
    reply = program.get("/openapi/v3.yaml")
    assert (reply.status, reply.header("content-type")) == (200, "application/yaml")
    assert reply.body.decode() == write_yaml(program.get("/openapi/v3.json").json)
    assert program.get("/v3/openapi.yaml").body == reply.body


def test_documents_are_pages_and_markdown_and_are_found(program: Client) -> None:
    page = program.get("/docs/how-to/how-to-leave")
    assert (page.status, '<h1 id="how-to-leave">' in page.body.decode()) == (200, True)
    assert "script-src" not in (page.header("content-security-policy") or "")
    assert "form-action 'self'" in (page.header("content-security-policy") or "")
    written = program.get("/docs/how-to/how-to-leave.md")
    assert written.header("content-type") == "text/markdown; charset=utf-8"
    assert written.body.decode().startswith("# How to leave\n")
    listed = program.get("/llms.txt").body.decode()
    assert listed.startswith("# Keywright\n\n> ")
    for address in re.findall(r"\((http[^)]*/(?:docs/reference|openapi)[^)]*)\)", listed):
        assert program.get("/" + address.split("/", 3)[3]).status == 200, address
    assert "Upgrade and downgrade a customer" in program.get("/docs").body.decode()
    found = program.get("/docs?q=leaving%20%3Cscript%3E").body.decode()
    assert ('href="/docs/how-to/how-to-leave"' in found, "<script>" in found) == (True, False)
    assert program.get("/docs/images/keywright.svg").status == 200
    assert program.get("/openapi.json").body == program.get("/openapi/v3.json").body
    for odd in ("nothing", "..%2f..%2fREADME", "images/..%2fREADME.md", "README.md.md", "images/"):
        assert program.get(f"/docs/{odd}").status == 404, odd


def test_strangers_search_the_documents_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search reads all of them; many concurrent ones would slow down the programs' calls."""
    running, most, search = [0], [0], library.search

    def observe(question: str) -> list[library.Document]:
        running[0] += 1
        most[0] = max(most[0], running[0])
        try:
            return search(question)
        finally:
            running[0] -= 1

    async def ask_together(number: int) -> list[int]:
        documents = Documents(Settings(), lambda _: True)
        asked = Request({"type": "http", "query_string": b"q=upgrade+a+license+of+a+customer", "headers": []})
        answers = await asyncio.gather(*(documents._answer_search(asked) for _ in range(number)))
        return [one.status_code for one in answers]

    monkeypatch.setattr(library, "search", observe)
    assert asyncio.run(ask_together(40)) == [200] * 40
    assert most == [1]


def test_a_contact_for_flaws_is_told_where_one_is_set(program: Client) -> None:
    assert program.get("/.well-known/security.txt").status == 404
    documents = Documents(Settings(security_contact="mailto:security@example.com"), lambda _: True)
    answer = asyncio.run(documents._answer_security(Request({"type": "http"})))
    text = bytes(answer.body).decode()
    assert re.fullmatch(
        r"Contact: mailto:security@.*\nExpires: \d{4}-\d\d-\d\dT00:00:00Z\nPreferred-Languages: .*\n",
        text,
    )


def test_every_problem_has_a_page_for_people_and_one_for_programs(program: Client) -> None:
    listed = program.get("/problems").body.decode()
    for code, problem in PROBLEMS.items():
        assert f'href="problems/{code}"' in listed
        page = program.get(f"/problems/{code}", headers={"Accept": "text/html,*/*;q=0.8"})
        assert page.header("content-type") == "text/html; charset=utf-8"
        assert page.header("cache-control") == "public, max-age=300"
        assert f"<h1>{problem.title}</h1>" in page.body.decode()
        read = program.get(f"/problems/{code}", headers={"Accept": "application/json"})
        assert read.json["code"] == code
    assert set(program.get("/problems", headers={"Accept": "application/json"}).json) == set(PROBLEMS)


def test_another_code_has_no_page(program: Client) -> None:
    page = program.get("/problems/nonsense", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (page.status, page.header("content-type")) == (404, "text/html; charset=utf-8")
    assert 'href="../problems"' in page.body.decode()
    read = program.get("/problems/nonsense", headers={"Accept": "application/json"})
    assert (read.status, read.header("content-type")) == (404, "application/problem+json")
    assert (read.json["code"], read.json["detail"]) == ("not_found", "There is no such problem code.")


def test_a_problem_names_its_page(program: Client) -> None:
    problem = program.get("/v3/me").json
    assert problem["type"] == "/problems/credentials_missing"
    assert program.get(problem["type"]).status == 200
