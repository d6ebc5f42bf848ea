"""Generate the parts of docs/reference that come from the code; with ``--check``, only compare them.

python -m tools.reference [--check]
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from msgspec.structs import fields

from keywright.cli.program import command_tree
from keywright.config import Settings
from keywright.config.sources import describe_values
from keywright.config.stored import LABELS
from keywright.core.errors import V2
from keywright.core.errors.problems import PROBLEMS
from keywright.core.fields import strip_annotations
from keywright.core.nouns import ListQuery
from keywright.http.middleware.routing import Right
from keywright.http.v2 import routes, wire
from keywright.http.v3 import routes as v3_routes
from keywright.http.v3.route import Route
from tools import privacy

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
_RIGHTS = {
    Right.NONE: "–",
    Right.CORE: "the license key",
    Right.READ: "`read`",
    Right.WRITE: "`write`",
    Right.API_KEY: "any API key",
}
#: The options that select the installation; shown once for all commands.
_PLACE = {"--data-dir", "--database-url", "--config"}
_DO_NOT_EDIT = "<!-- Written by `python -m tools.reference` from the code; change it there. -->"


def commands() -> str:
    """Build the page about the commands."""
    program: Any = command_tree()
    parts = [
        "# Commands",
        _DO_NOT_EDIT,
        "`keywright COMMAND --help` shows the same at the terminal. Commands access the database directly, "
        "whether the server runs or not. They print what they did; an error is one sentence on standard "
        "error, with exit status 1 (2 for wrong usage); with `--json`, it is a JSON object of `code` and "
        "`detail`. `keywright --install-completion` makes your shell "
        "complete the commands.",
        "Every command that works on an installation takes these options:\n\n"
        + _table(_rows(program.commands["init"], lambda name: name in _PLACE)),
        *_sections("keywright", program),
    ]
    return "\n\n".join(parts) + "\n"


def _sections(name: str, command: Any) -> Iterator[str]:
    for sub in getattr(command, "commands", {}).values():
        full_name = f"{name} {sub.name}"
        if hasattr(sub, "commands"):
            yield f"## {full_name}\n\n{_prose(sub.help)}"
            yield from _sections(full_name, sub)
        else:
            level = "##" if name == "keywright" else "###"
            yield f"{level} {_usage(full_name, sub)}\n\n{_prose(sub.help)}{_options(sub)}"


def _usage(name: str, command: Any) -> str:
    arguments = [_metavar(one) for one in command.params if one.param_type_name == "argument"]
    return " ".join([name, *arguments])


def _options(command: Any) -> str:
    rows = _rows(command, lambda name: name not in {*_PLACE, "--help"})
    return f"\n\n{_table(rows)}" if rows else ""


def _table(rows: list[str]) -> str:
    return "\n".join(["| option | |", "|---|---|", *rows])


def _rows(command: Any, is_shown: Callable[[str], bool]) -> list[str]:
    return [
        f"| `{'`, `'.join(one.opts)}`{_value(one)} | {_prose(one.help or '')} |"
        for one in command.params
        if one.param_type_name == "option" and is_shown(one.opts[0])
    ]


def _value(option: Any) -> str:
    return "" if option.is_flag else f" `{_metavar(option)}`"


def _metavar(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    return (name[1:-1] if name.startswith("[") else name).replace("|", " or ")


def _prose(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\b", "")).replace("|", "\\|").strip()


def settings() -> str:
    """Build the page about the settings."""
    rows = [
        f"| `{name}` | `KEYWRIGHT_{name.upper()}` | {_default(field)} | {_prose(field.description or '')} "
        f"Must be {describe_values(name)}.{_place_in_pages(name)} |"
        for name, field in Settings.model_fields.items()
    ]
    parts = [
        "# Settings",
        _DO_NOT_EDIT,
        "A setting comes from the first of these that has it: an option of the command, the environment, "
        "the file `keywright.toml` (in the current directory, else in `/etc/keywright`; or the one that "
        "`--config` or `KEYWRIGHT_CONFIG` names), the page *Settings*, the default. `keywright config` shows "
        "each value and where it came from. What an administrator changes in the pages is in force on every "
        "server within seconds, is stored sealed, and is an event; [some settings](../decisions/"
        "049-settings-in-the-pages.md) are not there. Any other change needs a restart.",
        '```toml\n# keywright.toml\nport = 8080\ntrusted_proxies = ["10.0.0.0/8"]\n```',
        "\n".join(["| name in the file | in the environment | default | |", "|---|---|---|---|", *rows]),
        "`KEYWRIGHT_DEBUG=1` shows the details of an unexpected error of a command.",
    ]
    return "\n\n".join(parts) + "\n"


def _place_in_pages(name: str) -> str:
    return f" In the pages: *{LABELS[name]}*." if name in LABELS else ""


def _default(field: Any) -> str:
    value = field.default
    if value is None or value == ():
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def v2_interface() -> str:
    """Build the page about the v2 interface: handwritten, except for the table of refusals."""
    rows = sorted((problem.status, problem.code, problem.sentence) for problem in _every_problem())
    refusals = [f"{status} | `{code}` | {_placeholders(sentence)}" for status, code, sentence in rows]
    return _fill("v2.md", {"refusals": _write_table("status | code | message", refusals)})


def v3_interface() -> str:
    """Build the page about the v3 interface: handwritten, except for the tables between marks."""
    client = [one for one in v3_routes.ROUTES if one.is_client]
    others = [one for one in v3_routes.ROUTES if not one.is_client]
    management = sorted(others, key=lambda one: one.path)
    lists = [one for one in management if one.query and "cursor" in one.query.struct.__struct_fields__]
    problems = [
        f"{one.status} | `{code}` | {one.meaning} | {one.remedy}"
        for code, one in sorted(PROBLEMS.items(), key=lambda item: item[1].status)
    ]
    return _fill(
        "v3.md",
        {
            "client calls": _write_table("call | does | refuses with", map(_describe_client_call, client)),
            "management calls": _write_table(
                "call | does | needs | refuses with", map(_describe, management)
            ),
            "lists": _write_table("list | filters | `sort` | default", map(_describe_list, lists)),
            "problems": _write_table("status | code | means | what to do", problems),
        },
    )


def _describe(route: Route) -> str:
    title = route.text.partition("\n")[0].rstrip(".")
    right = _RIGHTS[route.right] + (" *" if route.needs_all_products else "")
    return f"{_name(route)} | {title} | {right} | {_codes(route.refusals)}"


def _describe_client_call(route: Route) -> str:
    name, title, _, codes = _describe(route).split(" | ")
    return f"{name} | {title} | {codes}"


def _describe_list(route: Route) -> str:
    assert route.query is not None
    every = fields(route.query.struct)
    own = {one.encode_name: one for one in every if one.name not in ListQuery.__struct_fields__}
    sort = own.pop("sort", None)
    orders = get_args(strip_annotations(sort.type)) if sort else ()
    default = f"`{sort.default}`" if sort else "–"
    return f"{_name(route)} | {_codes(own)} | {_codes(orders)} | {default}"


def _name(route: Route) -> str:
    return f"`{route.method} /v3{route.public_path}`"


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{one}`" for one in names) or "–"


def _write_table(heading: str, rows: Iterable[str]) -> str:
    lines = [heading, "|".join("---" for _ in heading.split(" | ")), *rows]
    return "\n".join(f"|{one}|" if one.startswith("---") else f"| {one} |" for one in lines)


def _fill(page: str, tables: Mapping[str, str]) -> str:
    """Return the page with these tables between their marks."""
    text = (REFERENCE / page).read_text()
    for name, table in tables.items():
        marked = re.compile(f"(<!-- {name} -->).*(<!-- /{name} -->)", re.DOTALL)
        text = marked.sub(lambda found, table=table: f"{found[1]}\n{table}\n{found[2]}", text)  # type: ignore[misc]
    return text


def _every_problem() -> set[V2]:
    """Return all refusals, including those with sentences specific to an action."""
    own_words = {
        wire.PROBLEMS[error]._replace(sentence=sentence)
        for address in routes.ADDRESSES
        for action in address.actions.values()
        for error, sentence in action.sentences.items()
    }
    return set(wire.PROBLEMS.values()) | own_words


def _placeholders(sentence: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: f"*{found[1].replace('_in_words', '')}*", sentence)


def personal_data() -> str:
    """Build the page about personal data."""
    parts = [
        "# Personal data",
        _DO_NOT_EDIT,
        "What Keywright stores about people, in which column of its database, and for how long. Numbers in "
        "parentheses are the defaults of [settings](settings.md). None of this leaves the server except in "
        "mails to the person, and in webhooks and backups that you set up.",
        "\n".join(["| what | where | for how long |", "|---|---|---|", *privacy.write_rows()]),
        "Sealed columns are encrypted (AES-256-GCM) with the installation's secret, which is not in the "
        f"database: {', '.join(privacy.write_seals())}. License keys are found by a blind index; passwords "
        "are stored as argon2id hashes, API secrets and sessions as SHA-256.",
        "`keywright customer export` writes everything about a customer, `keywright customer erase` erases "
        "it; backups still contain what was erased later, until they are deleted. To keep less: [Keep less "
        "about people](../how-to/keep-less-about-people.md).",
    ]
    return "\n\n".join(parts) + "\n"


PAGES = {
    "v2.md": v2_interface,
    "v3.md": v3_interface,
    "commands.md": commands,
    "settings.md": settings,
    "privacy.md": personal_data,
}


def main() -> int:
    """Write or compare the pages; return the exit status."""
    stale = []
    for name, write in PAGES.items():
        page = REFERENCE / name
        if "--check" not in sys.argv:
            page.write_text(write())
        elif not page.exists() or page.read_text() != write():
            stale.append(name)
    if stale:
        print(f"Out of date: {', '.join(stale)}. Run `python -m tools.reference`.")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
