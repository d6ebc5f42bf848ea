"""Numbers in the paths of pages."""

from starlette.convertors import Convertor, register_url_convertor


class _Number(Convertor[int]):
    """A number in a path, ``{id:number}``; longer ones cannot exist."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


def register() -> None:
    """Let paths have ``{id:number}``."""
    register_url_convertor("number", _Number())
