"""The texts of the help, and of errors."""

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keywright.core.errors import KeywrightError


def paragraphs(text: str) -> str:
    """The text with its paragraphs unwrapped: they are wrapped anew, to the width of the terminal."""
    return "\n\n".join(" ".join(one.split()) for one in inspect.cleandoc(text).split("\n\n"))


def epilog(*examples: str) -> str | None:
    """The examples that end a command's help. They have no brackets, which would be markup of rich."""
    lines = "\n".join(f"[dim]$[/dim] {one}" for one in examples)
    return f"[bold]Examples[/bold]\n\n{lines}" if examples else None


def sentence(problem: "KeywrightError | OSError") -> str:
    """The sentence about this problem: what is wrong, and what to do."""
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename else ""
        return f"{where}{problem.strerror or problem}."
    text = problem.fill(problem.hint or problem.sentence)
    return text if problem.hint else text[:1].lower() + text[1:]
