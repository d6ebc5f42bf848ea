"""Pictures of screens as small PNG files, with 256 colors at most, after https://www.w3.org/TR/png-3/."""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import count

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST_COLORS = 256
#: How many bytes a pixel has, by the type of its color.
_CHANNELS = {2: 3, 6: 4}

_Color = tuple[int, int, int]


def with_palette(png: bytes) -> bytes:
    """The same picture in 256 colors at most, each pixel as near to what it was as that allows.

    The picture is opaque and not interlaced, with three or four channels of eight bits; else ``ValueError``.
    """
    width, height, rows = _read(png)
    pixels = [list(zip(*(row[channel::step] for channel in range(3)), strict=True)) for row, step in rows]
    numbers = _numbered([color for color, _ in Counter(one for row in pixels for one in row).most_common()])
    palette = {number: color for color, number in reversed(numbers.items())}
    # Without a filter: the numbers of colors do not continue each other.
    lines = b"".join(bytes([0, *(numbers[color] for color in row)]) for row in pixels)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes(channel for number in sorted(palette) for channel in palette[number])),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    ]
    return _SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def _numbered(colors: list[_Color]) -> dict[_Color, int]:
    """A number for each color, the commonest first; those that differ too little to matter share one."""
    return next(found for step in count() if (found := _numbered_within(colors, step * step)) is not None)


def _numbered_within(colors: list[_Color], most: int) -> dict[_Color, int] | None:
    """The same, where a color may be replaced by one at this distance (squared); None: they are too many."""
    kept: list[_Color] = []
    numbers: dict[_Color, int] = {}
    for color in colors:
        number = next((n for n, one in enumerate(kept) if _distance(one, color) <= most), len(kept))
        if number == len(kept):
            kept.append(color)
        if len(kept) > _MOST_COLORS:
            return None
        numbers[color] = number
    return numbers


def _distance(one: _Color, other: _Color) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _read(png: bytes) -> tuple[int, int, Iterator[tuple[bytes, int]]]:
    """Width, height, and the rows, each with the number of bytes that a pixel takes in it."""
    chunks = list(_chunks(png)) if png.startswith(_SIGNATURE) else []
    if not chunks:
        raise ValueError("this is no PNG file")
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or kind not in _CHANNELS or interlaced:
        raise ValueError("only pictures with eight bits a channel, not interlaced")
    step = _CHANNELS[kind]
    lines = zlib.decompress(b"".join(content for name, content in chunks if name == b"IDAT"))
    return width, height, ((row, step) for row in _unfiltered(lines, width * step, step))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _unfiltered(lines: bytes, length: int, step: int) -> Iterator[bytes]:
    """The rows as they are, from what each of them says of its difference to the one above."""
    above = bytes(length)
    for at in range(0, len(lines), length + 1):
        kind, row = lines[at], bytearray(lines[at + 1 : at + 1 + length])
        for i in range(length if kind else 0):
            left, corner = (row[i - step], above[i - step]) if i >= step else (0, 0)
            row[i] = (row[i] + _expected(kind, left, above[i], corner)) & 255
        yield bytes(row)
        above = bytes(row)


def _expected(kind: int, left: int, above: int, corner: int) -> int:
    """What this filter expects a byte to be."""
    if kind in (1, 2):
        return left if kind == 1 else above
    if kind == 3:
        return (left + above) // 2
    guess = left + above - corner
    return min((left, above, corner), key=lambda one: abs(guess - one))
