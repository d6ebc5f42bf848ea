"""The option for metadata."""

from typing import Annotated, Any

import msgspec
import typer

from keywright.cli.options import Change, changing
from keywright.core import parsing


def _parse_metadata(text: str) -> dict[str, Any]:
    parsed = parsing.parse_metadata(text)
    return {} if parsed is None else msgspec.json.decode(text, type=dict[str, Any])


Metadata = Annotated[
    Change | None,
    typer.Option(
        metavar="JSON",
        parser=changing(_parse_metadata),
        help="A JSON object with anything else; an update changes its members, null removes one, none all.",
    ),
]


def to_patch(metadata: Change | None) -> dict[str, Any] | None:
    """The object that was given; None for none."""
    patch: dict[str, Any] | None = None if metadata is None else metadata.value
    return patch
