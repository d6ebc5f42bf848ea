"""The brand: readable colors, valid images, valid links."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keywright.provisioning.brand import (
    MAX_LOGO_BYTES,
    FooterLink,
    build_palette,
    contrast,
    find_image_type,
    parse_color,
    parse_links,
)
from tests.tables import each_row

LIGHT, DARK = ("#ffffff", "#f5f7f5", "#eff2f0"), ("#111614", "#19201d", "#222a26")


@given(st.integers(0, 0xFFFFFF))
def test_every_color_can_be_read(number: int) -> None:
    palette = build_palette(f"#{number:06x}")
    for background in LIGHT:
        assert contrast(palette.link, background) >= 4.5
        assert contrast(palette.button, background) >= 1.5
    for background in DARK:
        assert contrast(palette.dark_link, background) >= 4.5
        assert contrast(palette.dark_button, background) >= 1.5
    assert contrast(palette.button, palette.button_text) >= 4.5
    assert contrast(palette.dark_button, palette.dark_button_text) >= 4.5


@pytest.mark.parametrize(
    ("text", "color"), [("#24704B", "#24704b"), (" 24704b ", "#24704b"), ("#27b", "#2277bb")]
)
def test_colors_are_read(text: str, color: str) -> None:
    assert parse_color(text) == color
    assert build_palette("#1f4fd8").link == build_palette("#1f4fd8").button == "#1f4fd8", "it can be read"


@each_row("text", ["", "red", "#12", "#1234567", "#12345g", "url(x)"])
def test_other_texts_are_no_colors(text: str) -> None:
    with pytest.raises(ValueError, match="must be a color"):
        parse_color(text)


def test_images_are_known_by_their_content() -> None:
    assert find_image_type(b"\x89PNG\r\n\x1a\n...") == "image/png"
    assert find_image_type(b"\xff\xd8\xff...") == "image/jpeg"
    assert find_image_type(b"RIFF\x01\x02\x03\x0aWEBP...") == "image/webp"
    for content in (b"", b"<svg onload='x'/>", b"GIF89a", b"<html>", b" \x89PNG\r\n\x1a\n"):
        with pytest.raises(ValueError, match="must be a PNG"):
            find_image_type(content)
    with pytest.raises(ValueError, match="at most 256 kB"):
        find_image_type(b"\x89PNG\r\n\x1a\n" + b"x" * MAX_LOGO_BYTES)


def test_links_are_read_line_by_line() -> None:
    text = "Imprint https://example.com/imprint\n\n  Write to us mailto:help@example.com \n"
    expected = (
        FooterLink("Imprint", "https://example.com/imprint"),
        FooterLink("Write to us", "mailto:help@example.com"),
    )
    assert parse_links(text) == expected
    for wrong in ("Imprint", "https://example.com", "X javascript:alert(1)", "X ftp://x", 'X https://a"b'):
        with pytest.raises(ValueError, match="in each line"):
            parse_links(wrong)
    with pytest.raises(ValueError, match="at most 6"):
        parse_links("X https://example.com\n" * 7)
