"""Make license keys from a generator's recipe, and measure how hard they are to guess."""

import math
import secrets

from keywright.licensing.licenses.keys import UNUSABLE
from keywright.provisioning.generators.model import Generator

#: Generators below this are refused unless forced.
MIN_ENTROPY_BITS = 64.0


def is_drawable(recipe: Generator) -> bool:
    """Whether every key from the recipe is a license key as ``normalize_key`` returns it."""
    parts = (recipe.charset, recipe.separator, recipe.prefix, recipe.suffix)
    if any(part and UNUSABLE.search(part) for part in parts):
        return False
    firsts = recipe.prefix[0] if recipe.prefix else recipe.charset
    lasts = recipe.suffix[-1] if recipe.suffix else recipe.charset
    return not any(one.isspace() for one in firsts + lasts)


def generate_key(recipe: Generator) -> str:
    """One license key after the recipe, from the operating system's randomness."""
    chunks = (
        "".join(secrets.choice(recipe.charset) for _ in range(recipe.chunk_length))
        for _ in range(recipe.chunks)
    )
    return f"{recipe.prefix or ''}{(recipe.separator or '').join(chunks)}{recipe.suffix or ''}"


def entropy_bits(charset: str, chunks: int, chunk_length: int) -> float:
    """The entropy of a key in bits: drawn characters × log2 of the distinct ones."""
    return chunks * chunk_length * math.log2(max(1, len(set(charset))))


def key_length(recipe: Generator) -> int:
    """The length of the recipe's keys, in characters."""
    drawn = recipe.chunks * recipe.chunk_length
    between = max(0, recipe.chunks - 1) * len(recipe.separator or "")
    return drawn + between + len(recipe.prefix or "") + len(recipe.suffix or "")
