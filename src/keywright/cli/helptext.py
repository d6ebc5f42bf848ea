"""The texts of the help."""

import inspect

from rich.markup import escape


def paragraphs(text: str) -> str:
    """The text with its paragraphs unwrapped: they are wrapped anew, to the width of the terminal."""
    return "\n\n".join(" ".join(one.split()) for one in inspect.cleandoc(text).split("\n\n"))


def epilog(*examples: str) -> str | None:
    """The examples that end a command's help."""
    lines = "\n".join(f"[dim]$[/dim] {escape(one)}" for one in examples)
    return f"[bold]Examples[/bold]\n\n{lines}" if examples else None
