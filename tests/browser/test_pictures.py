"""The pictures in the documentation are small."""

from tools.screenshot import MAX_BYTES, OVERVIEW


def test_the_pictures_in_the_documentation_are_small() -> None:
    sizes = [one.stat().st_size for one in OVERVIEW.parent.glob("*.png")]
    assert sizes
    assert max(sizes) <= MAX_BYTES
