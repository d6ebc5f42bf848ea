"""The HTML of a mail: generated from its text, or the vendor's, in a common frame.

Nothing is loaded from a server, so nobody learns that the mail was opened. The colors suit light and dark
mode, and the mail stays readable in mail programs without support for style sheets.
"""

import re

from markupsafe import Markup, escape

from keywright.provisioning.brand import Brand, build_palette

_BUTTON = re.compile(r"https?://[^\s\"'<>]+")
_LINK = re.compile(r"https?://[^\s\"'<>]+[^\s\"'<>.,;:!?)]")
_FONT = Markup("font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif")
_FRAME = Markup("""\
<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
a {{ color: {palette.link}; }}
a.button {{ background: {palette.button}; color: {palette.button_text}; }}
@media (prefers-color-scheme: dark) {{
  .ground {{ background: #15171a !important; }}
  .card {{ background: #1f2226 !important; border-color: #3a3f45 !important; }}
  .card, .card p, .card h1, .card td {{ color: #e8eaed !important; }}
  .key {{ background: #2b2f34 !important; border-color: #4a5058 !important; color: #ffffff !important; }}
  .foot, .foot a {{ color: #a5abb3 !important; }}
  a {{ color: {palette.dark_link} !important; }}
  a.button {{ background: {palette.dark_button} !important; color: {palette.dark_button_text} !important; }}
}}
</style>
</head>
<body class="ground" style="margin:0;padding:0;background:#f3f4f6">
<table role="presentation" class="ground" width="100%" cellpadding="0" cellspacing="0" \
style="background:#f3f4f6"><tr><td align="center" style="padding:24px 12px">
<table role="presentation" class="card" width="100%" cellpadding="0" cellspacing="0" \
style="max-width:560px;background:#ffffff;border:1px solid #dfe2e6;border-radius:8px">
<tr><td style="padding:28px 28px 12px;{font};font-size:16px;line-height:1.55;color:#1f2328">
{logo}{body}
</td></tr></table>
<p class="foot" style="{font};font-size:13px;color:#5f6670;margin:16px 0 0">{vendor}{links}</p>
</td></tr></table>
</body>
</html>
""")
_PARAGRAPH = Markup('<p style="margin:0 0 16px">{}</p>')
_KEY = Markup(
    '<p class="key" style="margin:0 0 8px;padding:12px 14px;background:#f3f4f6;border:1px solid #d0d5db;'
    "border-radius:6px;font:600 17px/1.4 ui-monospace,Menlo,Consolas,monospace;word-break:break-all;"
    'color:#111418">{}</p>'
)
_BUTTON_HTML = Markup(
    '<p style="margin:0 0 20px"><a class="button" href="{}" style="display:inline-block;padding:11px 18px;'
    'background:#24704b;color:#ffffff;border-radius:6px;text-decoration:none;font-weight:600">{}</a></p>'
)
#: The logo is a part of the message, not loaded from a server.
LOGO = "cid:logo"
_LOGO = Markup(
    '<p style="margin:0 0 20px"><img src="{}" alt="{}" style="max-height:40px;max-width:220px"></p>\n'
)
_PLAIN_BUTTON = "background:#24704b;color:#ffffff;"
_FOOTER_LINK = Markup(' · <a href="{}" style="color:#5f6670">{}</a>')


def frame(body: Markup, *, title: str, vendor: str, brand: Brand, language: str) -> str:
    """Put the body of a mail into a whole page."""
    links = Markup().join(_FOOTER_LINK.format(one.url, one.text) for one in brand.links)
    palette = build_palette(brand.color)
    logo = _LOGO.format(LOGO, vendor) if brand.logo else ""
    values = {"title": title, "vendor": vendor, "language": language, "links": links, "palette": palette}
    page = str(_FRAME.format(body=body, logo=logo, font=_FONT, **values))
    # For mail programs that drop style sheets: set the colors on the elements.
    return page.replace(_PLAIN_BUTTON, f"background:{palette.button};color:{palette.button_text};")


def from_text(text: str) -> Markup:
    """Build the body from a text: indented lines become keys, and a label above a URL becomes a button."""
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return Markup("\n").join(one for part in paragraphs if part.strip() for one in _parts_of(part))


def _parts_of(paragraph: str) -> list[Markup]:
    lines = [line for line in paragraph.split("\n") if line.strip()]
    label, address = lines[-2:] if len(lines) > 1 else ("", lines[-1])
    if label.rstrip().endswith((":", "\uff1a")) and _BUTTON.fullmatch(address.strip()):
        before = _plain(lines[:-2])
        return [*before, _BUTTON_HTML.format(address.strip(), label.strip().rstrip(": \uff1a\u00a0"))]
    parts: list[Markup] = []
    rest: list[str] = []
    for line in lines:
        if line.startswith("    "):
            parts += [*_plain(rest), _KEY.format(line.strip())]
            rest = []
        else:
            rest.append(line)
    return parts + _plain(rest)


def _plain(lines: list[str]) -> list[Markup]:
    if not lines:
        return []
    return [_PARAGRAPH.format(Markup("<br>").join(_with_links(line.strip()) for line in lines))]


def _with_links(line: str) -> Markup:
    found, start = Markup(), 0
    for match in _LINK.finditer(line):
        link = Markup('<a href="{0}">{0}</a>').format(match[0])
        found += escape(line[start : match.start()]) + link
        start = match.end()
    return found + escape(line[start:])
