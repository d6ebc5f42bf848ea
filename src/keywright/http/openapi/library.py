"""The documents in Markdown, as pages, and as a list for language models (llms.txt); their search."""

import re
from functools import cache
from pathlib import Path, PurePosixPath
from posixpath import join, normpath
from typing import NamedTuple

from markupsafe import Markup

import keywright
from keywright.http.openapi import page

_PACKAGE = Path(keywright.__file__).parent
#: The folder of the documents: in an installation within the package, in the repository beside the code.
_FOLDER = next(one for one in (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs") if one.is_dir())
#: The name of the start page.
INDEX = "README"
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_HEADING = re.compile(r"^#{2,4} (.+)$", re.MULTILINE)
_LINK = re.compile(r'(href|src)="([^"#:]+)(#[^"]*)?"')
_WORD = re.compile(r"[a-z0-9]+")
#: Words that searches ignore.
_EMPTY = frozenset(
    "a an and are can do does for from how i in is it my of on or the to what when where with you".split()
)
#: The most results, the most words that are searched for, and the longest query in characters.
_MAX_FOUND, _MAX_WORDS, MAX_QUESTION = 20, 8, 200


class Document(NamedTuple):
    """A document: its name (``how-to/upgrade``), title and text."""

    name: str
    title: str
    text: str


@cache
def read_documents() -> dict[str, Document]:
    """Read all documents, by name."""
    found = {}
    for path in sorted(_FOLDER.rglob("*.md")):
        name = path.relative_to(_FOLDER).with_suffix("").as_posix()
        text = path.read_text(encoding="utf-8")
        title = _TITLE.search(text)
        found[name] = Document(name, title[1] if title else name, text)
    return found


def find_image(name: str) -> Path | None:
    """Return the file of an image that the documents show."""
    return next((one for one in (_FOLDER / "images").iterdir() if one.name == name), None)


@cache
def render(name: str) -> bytes:
    """Render the page of a document."""
    from markdown_it import MarkdownIt

    document = read_documents()[name]
    # HTML in a document is shown as text.
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(document.text)
    html = re.sub(r"<h([1-4])>(.*?)</h\1>", _with_anchor, html, flags=re.DOTALL)
    html = _LINK.sub(lambda link: _lead(link, name), html)
    safe = Markup(html)  # noqa: S704
    return page.render("document.html", title=document.title, name=name, html=safe, question="").encode()


def _with_anchor(heading: re.Match[str]) -> str:
    plain = re.sub(r"<[^>]+>", "", heading[2]).lower()
    anchor = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
    return f'<h{heading[1]} id="{anchor}">{heading[2]}</h{heading[1]}>'


def _lead(link: re.Match[str], name: str) -> str:
    """Turn a link of a document into a link between pages; other files exist only in the repository."""
    target = normpath(join("docs", str(PurePosixPath(name).parent), link[2]))
    inside = target.removeprefix("docs/")
    if target.startswith("docs/images/"):
        return f'{link[1]}="/docs/{inside}"'
    if target.startswith("docs/") and inside.removesuffix(".md") in read_documents():
        return f'{link[1]}="/docs/{inside.removesuffix(".md")}{link[3] or ""}"'
    return f'title="{target}, in the repository"'


def search(question: str) -> list[Document]:
    """Return the documents that match best, best first: titles count most, then entries of the index."""
    words = [one for one in _WORD.findall(question.lower()[:MAX_QUESTION]) if one not in _EMPTY][:_MAX_WORDS]
    scores = {name: _score(words, name) for name in read_documents()}
    best = sorted((name for name in scores if scores[name]), key=lambda name: (-scores[name], name))
    return [read_documents()[name] for name in best[:_MAX_FOUND]]


def _score(words: list[str], name: str) -> float:
    title, headings, about, text = _fields(name)
    total = 0.0
    for word in words:
        stem = word.removesuffix("s").removesuffix("e")
        found = 8.0 * (stem in title) + 3.0 * (stem in headings) + 6.0 * (stem in about)
        total += found + min(text.count(stem), 10) * 0.2 if found or stem in text else -4.0
    return max(total, 0.0)


@cache
def _fields(name: str) -> tuple[str, str, str, str]:
    document = read_documents()[name]
    headings = " ".join(_HEADING.findall(document.text)).lower()
    if name.endswith(INDEX) or name.startswith("decisions/"):
        return "", "", "", ""
    # A line of the index counts for the first document that it links.
    lines = [
        one for one in read_documents()[INDEX].text.splitlines() if f"({name}.md" in one.partition("),")[0]
    ]
    return f"{document.title} {name}".lower(), headings, " ".join(lines).lower(), document.text.lower()


def write_llms(base: str) -> str:
    """Write the list of documents for language models (https://llmstxt.org)."""
    lines = [
        "# Keywright",
        "",
        "> A license server that you run yourself: it activates, validates and deactivates license keys.",
        "",
        f"- [The v3 interface, as OpenAPI]({base}/openapi.json)",
        f"- [Every problem code, with what to do]({base}/problems): as JSON with `Accept: application/json`",
    ]
    folder = ""
    for name, document in read_documents().items():
        if name.startswith("decisions/"):
            continue
        if str(PurePosixPath(name).parent) != folder:
            folder = str(PurePosixPath(name).parent)
            lines += ["", f"## {folder if folder != '.' else 'Index'}", ""]
        lines.append(f"- [{document.title}]({base}/docs/{name}.md)")
    return "\n".join(lines) + "\n"
