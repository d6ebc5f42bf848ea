"""The picture in the documentation is small, and as good as the one it was made from."""

from base64 import b64encode
from contextlib import closing

import pytest
from playwright.sync_api import Browser

from tools.palette import with_palette
from tools.screenshot import MAX_BYTES, OVERVIEW

_COMPARE = """async (addresses) => {
    const pixels = await Promise.all(addresses.map(async (address) => {
        const image = new Image();
        image.src = address;
        await image.decode();
        const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        return context.getImageData(0, 0, canvas.width, canvas.height).data;
    }));
    if (pixels[0].length !== pixels[1].length) return 256;
    return pixels[0].reduce((most, one, at) => Math.max(most, Math.abs(one - pixels[1][at])), 0);
}"""
_COLORFUL = """<body style="margin: 0; background: linear-gradient(90deg, #fff, #246)"><h1>A picture</h1>
<p style="color: #d63939">Something red</p>"""


def test_a_picture_with_a_palette_is_smaller_and_looks_the_same(browser: Browser) -> None:
    with closing(browser.new_context(viewport={"width": 400, "height": 150})) as context:
        page = context.new_page()
        page.set_content(_COLORFUL)
        before = page.screenshot()
        after = with_palette(before)
        addresses = [f"data:image/png;base64,{b64encode(one).decode()}" for one in (before, after)]
        assert len(after) < len(before)
        assert 0 < page.evaluate(_COMPARE, addresses) < 16


@pytest.mark.parametrize("png", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n"])
def test_only_pictures_are_taken(png: bytes) -> None:
    with pytest.raises(ValueError, match="PNG"):
        with_palette(png)


def test_the_picture_in_the_documentation_is_small() -> None:
    pictures = list(OVERVIEW.parent.glob("*.png"))
    assert all(one.stat().st_size <= MAX_BYTES for one in pictures)
