"""Format the texts of help and errors."""

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keywright.core.errors import KeywrightError


def paragraphs(text: str) -> str:
    """Unwrap the paragraphs of a text, so that they can be wrapped to the width of the terminal."""
    return "\n\n".join(" ".join(one.split()) for one in inspect.cleandoc(text).split("\n\n"))


def epilog(*examples: str) -> str | None:
    """Format the examples that end a command's help. They must not contain brackets: rich markup."""
    lines = "\n".join(f"[dim]$[/dim] {one}" for one in examples)
    return f"[bold]Examples[/bold]\n\n{lines}" if examples else None


def sentence(problem: "KeywrightError | OSError") -> str:
    """Describe an error: what is wrong, and what to do about it."""
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename else ""
        return f"{where}{problem.strerror or problem}."
    text = problem.fill(problem.hint or problem.sentence)
    return text if problem.hint else text[:1].lower() + text[1:]
