"""The order of versions, by the scheme of a product. Pure.

A version is converted to a key that compares with keys of the same scheme; versions with equal keys rank
equal. Ranges such as ``>= 2, < 3.2.1`` contain versions.
"""

import operator
import re
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any

MAX_VERSION = 64
_TOKENS = re.compile(r"[0-9]+|[a-z]+")
_LOOSE = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_~:-]*")
#: Words that make a version older than the same one without them, oldest first; and words that make it newer.
_BEFORE = {"dev": -5, "alpha": -4, "a": -4, "beta": -3, "b": -3, "c": -2, "rc": -2, "pre": -2, "preview": -2}
_AFTER = frozenset({"p", "patch", "pl", "post", "r", "rev", "sp"})
_END, _POST, _NUMBER, _OTHER_WORD = 0, 1, 2, -6
_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-((?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+[0-9A-Za-z.-]+)?"
)
_PEP440 = re.compile(
    r"v?(?:(?P<epoch>[0-9]+)!)?(?P<release>[0-9]+(?:\.[0-9]+)*)"
    r"(?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_number>[0-9]*))?"
    r"(?P<post>-(?P<implicit>[0-9]+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>[0-9]*))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_number>[0-9]*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?"
)


class VersionScheme(StrEnum):
    """How a product's versions are ordered."""

    LOOSE = "loose"
    SEMVER = "semver"
    PEP440 = "pep440"


#: A sort key; comparable with keys of the same scheme.
VersionKey = tuple[Any, ...]


@lru_cache(maxsize=4096)
def version_key(scheme: VersionScheme, version: str) -> VersionKey:
    """Return the key of a version. Raises ``ValueError`` if the scheme cannot parse it."""
    if len(version) <= MAX_VERSION and version.isascii():
        found = _KEYS[scheme](version)
        if found is not None:
            return found
    raise ValueError(_IN_WORDS[scheme])


def find_key(scheme: VersionScheme, version: str | None) -> VersionKey | None:
    """Return the key of a version; None if the scheme cannot parse it."""
    try:
        return None if version is None else version_key(scheme, version)
    except ValueError:
        return None


def _loose(version: str) -> VersionKey | None:
    """Parse a loose version: ``1.10`` is newer than ``1.9``, ``1.0`` equals ``1.0.0`` and ``v1``,
    ``1.0-beta2`` is older than ``1.0``; what follows a ``+`` is ignored.
    """
    if not _LOOSE.fullmatch(version) or not re.search("[0-9]", version):
        return None
    key: list[tuple[int, int, str]] = []
    tokens = _TOKENS.findall(version.partition("+")[0].lower())
    for token in tokens[1:] if tokens[0] in ("v", "version") else tokens:
        if token.isdigit():
            key.append((_NUMBER, int(token), ""))
            continue
        _drop_zeros(key)
        weight = _POST if token in _AFTER else _BEFORE.get(token, _OTHER_WORD)
        key.append((weight, 0, token if weight == _OTHER_WORD else ""))
    _drop_zeros(key)
    return (*key, (_END, 0, ""))


def _drop_zeros(key: list[tuple[int, int, str]]) -> None:
    while key and key[-1] == (_NUMBER, 0, ""):
        key.pop()


def _semver(version: str) -> VersionKey | None:
    """Parse a version of Semantic Versioning 2.0.0, §11; a leading ``v`` is allowed."""
    found = _SEMVER.fullmatch(version.removeprefix("v"))
    if found is None:
        return None
    *core, pre = found.groups()
    words = () if pre is None else tuple(map(_semver_word, pre.split(".")))
    return (*map(int, core), pre is None, words)


def _semver_word(word: str) -> tuple[bool, int, str]:
    return (False, int(word), "") if word.isdigit() else (True, 0, word)


_PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_FIRST, _LAST = ("", -1), ("~", -1)


def _pep440(version: str) -> VersionKey | None:
    """Parse a version of PEP 440: dev releases precede pre-releases, then the release, post releases."""
    found = _PEP440.fullmatch(version.lower())
    if found is None:
        return None
    release = [int(one) for one in found["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    pre, post, dev = found["pre"], found["post"], found["dev"]
    if pre is not None:
        of_pre = (_PRE.get(pre, pre), int(found["pre_number"] or 0))
    else:
        of_pre = _FIRST if dev is not None and post is None else _LAST
    of_post = -1 if post is None else int(found["implicit"] or found["post_number"] or 0)
    of_dev = float("inf") if dev is None else int(found["dev_number"] or 0)
    local = () if found["local"] is None else tuple(map(_local_word, re.split("[-_.]", found["local"])))
    return (int(found["epoch"] or 0), tuple(release), of_pre, of_post, of_dev, local)


def _local_word(word: str) -> tuple[bool, int, str]:
    return (True, int(word), "") if word.isdigit() else (False, 0, word)


_KEYS = {VersionScheme.LOOSE: _loose, VersionScheme.SEMVER: _semver, VersionScheme.PEP440: _pep440}
_IN_WORDS = {
    VersionScheme.LOOSE: "must be a version such as 1.4.2 or 2.0-beta1, of at most 64 characters",
    VersionScheme.SEMVER: "must be a semantic version such as 1.4.2 or 2.0.0-beta.1",
    VersionScheme.PEP440: "must be a version such as 1.4.2 or 2.0b1 (PEP 440)",
}


#: Alternatives; a key matches an alternative if it passes all of its tests.
Ranges = tuple[tuple[tuple[Callable[[Any, Any], Any], VersionKey], ...], ...]
_TESTS = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
    "": operator.eq,
}
_TEST = re.compile(r"(<=|>=|<|>|=|)\s*(\S+)")


@lru_cache(maxsize=256)
def parse_ranges(scheme: VersionScheme, text: str) -> Ranges:
    """Parse version ranges: in ``>= 2, < 3.2.1`` both tests must pass, in ``1.4 || >= 2`` one; a version
    alone matches only itself. Raises ``ValueError``.
    """
    return tuple(
        tuple(_parse_test(scheme, one.strip()) for one in each.split(",")) for each in text.split("||")
    )


def _parse_test(scheme: VersionScheme, text: str) -> tuple[Callable[[Any, Any], Any], VersionKey]:
    found = _TEST.fullmatch(text)
    if found is None:
        raise ValueError("must be versions such as < 3.2.1, or >= 2, < 3.2.1 || 4.0")
    return _TESTS[found[1]], version_key(scheme, found[2])


def is_within(ranges: Ranges, key: VersionKey) -> bool:
    """Whether the ranges contain the version with this key."""
    return any(all(passes(key, bound) for passes, bound in each) for each in ranges)
