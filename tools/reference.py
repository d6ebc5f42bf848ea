"""Write the parts of docs/reference that come from the code; with ``--check``, compare them.

python -m tools.reference [--check]
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer.main

from keywright.cli.program import app
from keywright.config import Settings
from keywright.config.sources import describe_values
from keywright.core.errors import V2
from keywright.http.v2 import messages, routes

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
_REFUSALS = re.compile(r"(<!-- refusals -->).*(<!-- /refusals -->)", re.DOTALL)
#: The options that say which installation a command is about; shown once for all commands.
_PLACE = {"--data-dir", "--database-url", "--config"}
_DO_NOT_EDIT = "<!-- Written by `python -m tools.reference` from the code; change it there. -->"


def commands() -> str:
    """Build the page about the commands."""
    program: Any = typer.main.get_command(app)
    parts = [
        "# Commands",
        _DO_NOT_EDIT,
        "`keywright COMMAND --help` says the same at the terminal. Commands work on the database itself, "
        "whether the server runs or not. They print what was done; an error is one sentence on standard "
        "error, with exit status 1 (2 for wrong usage). `keywright --install-completion` makes your shell "
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
    return str(parameter.metavar or parameter.name.upper()).strip("[]").replace("|", " or ")


def _prose(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\b", "")).replace("|", "\\|").strip()


def settings() -> str:
    """Build the page about the settings."""
    rows = [
        f"| `{name}` | `KEYWRIGHT_{name.upper()}` | {_default(field)} | {_prose(field.description or '')} "
        f"Must be {describe_values(name)}. |"
        for name, field in Settings.model_fields.items()
    ]
    parts = [
        "# Settings",
        _DO_NOT_EDIT,
        "A setting comes from the first of these that has it: an option of the command, the environment, "
        "the file `keywright.toml` (in the current directory, else in `/etc/keywright`; or the one that "
        "`--config` or `KEYWRIGHT_CONFIG` names), the default. `keywright config` shows each value and where "
        "it came from.",
        '```toml\n# keywright.toml\nport = 8080\ntrusted_proxies = ["10.0.0.0/8"]\n```',
        "\n".join(["| name in the file | in the environment | default | |", "|---|---|---|---|", *rows]),
        "`KEYWRIGHT_DEBUG=1` shows the details of an unexpected error of a command.",
    ]
    return "\n\n".join(parts) + "\n"


def _default(field: Any) -> str:
    value = field.default
    if value is None or value == ():
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def interface() -> str:
    """Build the page about the v2 interface: it is written by hand, except for the table of refusals."""
    rows = sorted((problem.status, problem.code, problem.sentence) for problem in _every_problem())
    table = "\n".join(
        ["| status | code | message |", "|---|---|---|"]
        + [f"| {status} | `{code}` | {_placeholders(sentence)} |" for status, code, sentence in rows]
    )
    text = (REFERENCE / "v2.md").read_text()
    return _REFUSALS.sub(lambda found: f"{found[1]}\n{table}\n{found[2]}", text)


def _every_problem() -> set[V2]:
    """Return every refusal, also those that an action words itself."""
    own_words = {
        messages.PROBLEMS[error]._replace(sentence=sentence)
        for address in routes.ADDRESSES
        for action in address.actions.values()
        for error, sentence in action.sayings.items()
    }
    return set(messages.PROBLEMS.values()) | own_words


def _placeholders(sentence: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: f"*{found[1].replace('_in_words', '')}*", sentence)


PAGES = {"v2.md": interface, "commands.md": commands, "settings.md": settings}


def main() -> int:
    """Write the pages, or compare them; returns the exit status."""
    stale = []
    for name, write in PAGES.items():
        page = REFERENCE / name
        if "--check" not in sys.argv:
            page.write_text(write())
        elif not page.exists() or page.read_text() != write():
            stale.append(name)
    if stale:
        print(f"Out of date: {', '.join(stale)}. Run python -m tools.reference.")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
