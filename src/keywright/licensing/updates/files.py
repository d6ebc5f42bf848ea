"""Choose the file of a release for a platform and processor. Pure."""

from collections.abc import Sequence

from keywright.licensing.updates.model import ReleaseFile


def choose_file(files: Sequence[ReleaseFile], platform: str | None, arch: str | None) -> ReleaseFile | None:
    """Return the file for a platform; one that names the platform and the processor precedes one for any.
    None if there is none, or if the platform is unknown and the files are for several.
    """
    fitting = [one for one in files if fits(one, platform, arch)]
    if platform is not None:
        fitting = [one for one in fitting if one.platform is not None] or fitting
    if arch is not None:
        fitting = [one for one in fitting if one.arch is not None] or fitting
    if len({(one.platform, one.arch) for one in fitting}) > 1:
        fitting = [one for one in fitting if one.arch is None and (platform or one.platform is None)]
    return fitting[0] if fitting else None


def fits(file: ReleaseFile, platform: str | None, arch: str | None) -> bool:
    """Whether a file is for this platform and processor; None matches any."""
    return _is_word(platform, file.platform) and _is_word(arch, file.arch)


#: Synonyms of platforms and processors, from update frameworks and programming languages.
_SAME = {
    **dict.fromkeys(("darwin", "mac", "osx"), "macos"),
    **dict.fromkeys(("win", "win32", "win64"), "windows"),
    **dict.fromkeys(("amd64", "x64"), "x86_64"),
    **dict.fromkeys(("i386", "i686", "ia32"), "x86"),
    **dict.fromkeys(("iphone", "ipad"), "ios"),
    "aarch64": "arm64",
}


def _is_word(asked: str | None, of_file: str | None) -> bool:
    return asked is None or of_file is None or to_usual_word(asked) == to_usual_word(of_file)


def to_usual_word(word: str) -> str:
    """Return this server's word for a platform or processor."""
    return _SAME.get(word, word)
