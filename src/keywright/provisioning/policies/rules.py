"""Make license keys by a policy's recipe, and measure how hard they are to guess."""

import math
import secrets
from typing import Any

from keywright.licensing.licenses.keys import UNUSABLE
from keywright.licensing.terms.model import Starts
from keywright.provisioning.policies.model import Policy

#: Policies with less entropy are refused unless weak keys are allowed.
MIN_ENTROPY_BITS = 64.0


def terms_from_first_activation(max_activations: int | None, valid_for_days: int | None) -> dict[str, Any]:
    """Return terms with a limit (None: no limit) and days from the first activation, as in v2."""
    terms = {"max_activations": max_activations, "valid_for_days": valid_for_days}
    return terms if valid_for_days is None else terms | {"starts": Starts.FIRST_ACTIVATION.value}


def is_drawable(recipe: Policy) -> bool:
    """Whether every key by the recipe is a license key that ``normalize_key`` returns unchanged."""
    parts = (recipe.charset, recipe.separator, recipe.prefix, recipe.suffix)
    if any(part and UNUSABLE.search(part) for part in parts):
        return False
    firsts = recipe.prefix[0] if recipe.prefix else recipe.charset
    lasts = recipe.suffix[-1] if recipe.suffix else recipe.charset
    return not any(one.isspace() for one in firsts + lasts)


def generate_key(recipe: Policy) -> str:
    """Draw a license key by the recipe, from the operating system's randomness."""
    chunks = (
        "".join(secrets.choice(recipe.charset) for _ in range(recipe.chunk_length))
        for _ in range(recipe.chunks)
    )
    return f"{recipe.prefix or ''}{(recipe.separator or '').join(chunks)}{recipe.suffix or ''}"


def entropy_bits(charset: str, chunks: int, chunk_length: int) -> float:
    """Return the entropy of a key in bits: the drawn characters × log2 of the distinct ones."""
    return chunks * chunk_length * math.log2(max(1, len(set(charset))))


def key_length(recipe: Policy) -> int:
    """Return the length of the recipe's keys, in characters."""
    drawn = recipe.chunks * recipe.chunk_length
    between = max(0, recipe.chunks - 1) * len(recipe.separator or "")
    return drawn + between + len(recipe.prefix or "") + len(recipe.suffix or "")
