"""Template functions: addresses, charts, and descriptions of licenses and browsers."""

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from keywright.http.admin.app import TEMPLATES
from keywright.http.admin.texts import FUNCTIONS, license_state
from keywright.http.pages.render import browser_name, build_environment, has_right, url
from keywright.identity.model import Right, Role
from keywright.licensing.licenses.model import Status
from tests.makers import LATER, NOW, a_license, a_user
from tests.tables import each_row

STATICS = dict.fromkeys(("look.css", "admin.css", "admin.js", "mark.svg"), "/x")


def part(call: str, **context: object) -> str:
    """Render a macro of parts.html."""
    name = call.partition("(")[0]
    source = f'{{% from "parts.html" import {name} with context %}}{{{{ {call} }}}}'
    return (
        build_environment(TEMPLATES, STATICS, **FUNCTIONS)
        .from_string(source)
        .render(now=NOW, csrf_token="t0k3n", current_path="/", **context)
    )


def test_an_address_leaves_out_what_is_not_given() -> None:
    assert url("/licenses") == "/admin/licenses"
    assert url("/licenses", status=None, q="") == "/admin/licenses"
    assert url("/licenses", page=0, q="ü &/") == "/admin/licenses?page=0&q=%C3%BC+%26%2F"


@each_row(
    ("status", "expires_at", "terms", "word"),
    [
        (Status.SOLD, None, "", "sold"),
        (Status.ACTIVE, LATER, "", "active"),
        (Status.ACTIVE, NOW, "", "expired"),
        (Status.DELIVERED, NOW, "", "expired"),
        (Status.INACTIVE, NOW, "", "inactive"),
        (Status.DISABLED, NOW, "", "disabled"),
        (Status.ACTIVE, NOW, '{"grace_days":14}', "grace"),
        (Status.SOLD, NOW, '{"after_expiry":"allow"}', "sold"),
    ],
)
def test_a_license_is_called_what_matters_most(
    status: Status, expires_at: object, terms: str, word: str
) -> None:
    license = a_license(status=status, expires_at=expires_at, terms=terms or None)
    assert license_state(license, NOW) == word
    assert f">{word}</span>" in part("status_badge(one)", one=license)


def test_nobody_has_no_right() -> None:
    assert not has_right(None, Right.LOOK)
    assert has_right(a_user(role=Role.SUPPORT), Right.CHANGE)
    assert not has_right(a_user(role=Role.SUPPORT), Right.ADMINISTER)


@each_row(
    ("user_agent", "name"),
    [
        ("Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Windows"),
        ("Mozilla/5.0 (X11; Linux x86_64) (KHTML, like Gecko) Chrome/140 Safari/537", "Chrome on Linux"),
        ("Mozilla/5.0 (Linux; Android 15) Chrome/140 Mobile Safari/537", "Chrome on Android"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18 like Mac OS X) Version/18 Safari/604", "Safari on iPhone"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 15) Chrome/140 Safari/537 Edg/140", "Edge on macOS"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("x" * 500, "x" * 60),
        ("", "unknown"),
    ],
)
def test_a_browser_is_called_by_its_name(user_agent: str, name: str) -> None:
    assert browser_name(user_agent) == name


def test_a_moment_says_utc_until_a_program_puts_it_into_the_readers_zone() -> None:
    html = part("moment(at)", at=NOW)
    assert '<time datetime="2026-01-15T12:30:45Z" title="2026-01-15 12:30:45 UTC">' in html
    assert ">Jan 15, 2026, 12:30:45\u202fPM UTC<" in html
    assert ">never<" in part("moment(none)")


def test_a_field_is_tied_to_its_label_its_help_and_its_error() -> None:
    html = part('field("limit", "Limit", 3, type="number", min=1, help="Help.", error="No!", required=true)')
    assert '<label for="field-limit">Limit</label>' in html
    assert 'aria-describedby="field-limit-error field-limit-help"' in html
    assert 'aria-invalid="true"' in html
    assert 'min="1"' in html
    assert 'id="field-limit-error">No!<' in html


@each_row(
    "call",
    [
        "field('a', text, text, help=text, error=text, placeholder=text)",
        "field('a', 'A', text, rows=3)",
        "field('a', 'A', text, options=[(text, text)])",
        "check('a', text, value=text, help=text)",
        "button(text, action=text, hidden=[(text, text)], title=text)",
        "link_button(text, text)",
        "empty(text, text, text, text)",
        "note_box(text, title=text)",
        "badge(text)",
        "fact(text, text)",
        "stat(text, text, text, text)",
        "tabs([(text, text)])",
        "pager(text, text, text)",
        "progress(1, 2, text)",
    ],
)
def test_whatever_comes_in_is_a_text_and_no_tag(call: str) -> None:
    evil = "\"'><script>alert(1)</script>{{ 7*7 }}"
    html = part(call, text=evil)
    assert "<script" not in html
    assert "'>" not in html.replace(Markup.escape(evil), "")
    assert "49" not in html


def test_a_template_that_uses_what_is_not_there_fails() -> None:
    with pytest.raises(UndefinedError):
        build_environment(TEMPLATES, STATICS, **FUNCTIONS).from_string("{{ mistyped }}").render()
