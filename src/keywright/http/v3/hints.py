"""What is meant by an address, a parameter or a member that beginners guess: the right one, in words."""

from collections.abc import Collection, Sequence

from keywright.licensing.terms.model import Terms

_SEARCH = '; license keys are never in an address: POST …/licenses/search {"key": "…"}'
_SEARCH_EMAIL = '; addresses are never in a URL: POST …/licenses/search or …/customers/search {"email": "…"}'
#: By the noun that is followed by what is no number.
_OF_PATHS = {
    "licenses": f"A license is addressed by its id{_SEARCH}.",
    "customers": f"A customer is addressed by the id{_SEARCH_EMAIL}.",
}
_CLIENT_CALLS = frozenset({"validate", "activate", "deactivate"})
#: By the name of a member or parameter, where no member has it.
_OF_NAMES = {
    "key": _SEARCH,
    "license_key": _SEARCH,
    "email": _SEARCH_EMAIL,
    "state": "; it is derived from the time: use status, expires_before and expires_after",
    "months": "; send days, or until",
    "years": "; send days, or until",
}


def of_path(words: Sequence[str]) -> str:
    """A sentence about the words of a path at which nothing is; empty where none is known."""
    if words and words[-1] in _CLIENT_CALLS:
        return f" Programs send POST …/{words[-1]}, with the license key in the body."
    is_guessed = len(words) > 1 and not words[1].isdigit()
    return f" {_OF_PATHS[words[0]]}" if is_guessed and words[0] in _OF_PATHS else ""


def of_name(name: str, known: Collection[str]) -> str:
    """What follows "is unknown" about a name beside these known ones; empty where nothing is known."""
    if "terms" in known and name in Terms.__struct_fields__:
        return f'; it is a member of terms: {{"terms": {{"{name}": …}}}}'
    return _OF_NAMES.get(name, "")
