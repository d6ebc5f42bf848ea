"""Open a folder of Jinja2 templates."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def open_templates(folder: Path) -> Environment:
    """The templates in this folder. Texts are escaped; undefined names raise ``UndefinedError``."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
