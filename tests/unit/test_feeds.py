"""Which of several files a client gets, and what file names mean."""

from msgspec.structs import replace

from keywright.licensing.updates.feeds import find_file
from keywright.licensing.updates.files import choose_file
from keywright.licensing.updates.model import FileKind
from keywright.licensing.updates.rules import UpdateCode, decide
from keywright.licensing.updates.store import order_releases
from keywright.provisioning.releases.fields import kind_of
from tests.proving import size
from tests.unit.test_update_gate import a_file, draw_facts, draw_license, draw_releases


def test_a_feed_is_that_of_the_newest_release_that_is_offered() -> None:
    for _ in range(size(1_000, 30_000)):
        facts = draw_facts(draw_releases(), draw_license())
        feed = a_file(name="appcast.xml", kind=FileKind.FEED)
        shipped = [replace(one, others=(feed,)) for one in facts.releases.releases if one.files]
        asked = replace(facts.asked, app_version=None, platform=None)
        facts = replace(facts, releases=order_releases(shipped), asked=asked)
        offered, found = decide(facts), find_file(facts, "appcast.xml")
        assert found.offered == offered.offered
        assert found.is_refused is offered.is_refused
        assert (found.file is not None) is (found.code is UpdateCode.UPDATE_AVAILABLE)
        assert find_file(facts, "other.xml").file is None


def test_other_words_for_a_platform_mean_the_same() -> None:
    file = a_file(platform="macos", arch="arm64")
    asked = [("darwin", "aarch64"), ("mac", "arm64"), ("osx", None), ("windows", "arm64"), ("darwin", "x64")]
    assert [choose_file([file], *one) is file for one in asked] == [True, True, True, False, False]
    assert choose_file([a_file(platform="win32", arch="ia32")], "windows", "x86") is not None


def test_the_names_of_files_say_their_kinds() -> None:
    kinds = {
        "feed": "latest.yml latest-mac.yml beta.yaml appcast.xml releases.win.json RELEASES RELEASES-win-x64",
        "blockmap": "a.exe.blockmap",
        "signature": "a.exe.sig a.zip.minisig appcast.xml.signature a.tar.gz.asc",
        "delta": "Paint-2.0.0-delta.nupkg Paint2-1.delta",
        "archive": "Paint-2.0.0-full.nupkg a.zip a.tar.gz a.tgz a.7z",
        "installer": "a.exe a.msi a.dmg a.AppImage a.deb a",
    }
    found = {kind: {kind_of(name).value for name in names.split()} for kind, names in kinds.items()}
    assert found == {kind: {kind} for kind in kinds}
