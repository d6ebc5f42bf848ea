"""Texts, numbers and dates in the reader's language."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from markupsafe import Markup

from keywright.core.errors import RateLimited, StillInUse
from keywright.http.admin.app import CATALOGS
from keywright.http.pages import formats
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import Languages, _, gettext, ngettext, speaking
from keywright.http.pages.render import open_templates
from keywright.languages import Language
from tests.tables import each_row

NOW = datetime(2026, 11, 23, 14, 5, tzinfo=UTC)
CATALOG = """
msgid ""
msgstr ""
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"
"Content-Type: text/plain; charset=utf-8\\n"

msgid "Hello %(name)s"
msgstr "Hallo %(name)s"

msgid "<b>%(name)s</b> is here"
msgstr "<b>%(name)s</b> ist da"

msgid "%(num)s license"
msgid_plural "%(num)s licenses"
msgstr[0] "%(num)s Lizenz"
msgstr[1] "%(num)s Lizenzen"

msgid "plain"
msgstr "<i>schlicht</i>"
"""


@pytest.fixture
def languages(tmp_path: Path) -> Languages:
    for name in ("de", "pt_BR"):
        (tmp_path / f"{name}.po").write_text(CATALOG, encoding="utf-8")
    return Languages(tmp_path)


@each_row(
    ("chosen", "accepted", "code"),
    [
        (None, "", "en"),
        (None, "de-AT,de;q=0.9,en;q=0.8", "de"),
        (None, "fr, pt-br;q=0.5, de;q=0.2", "pt-BR"),
        (None, "en-GB, de", "en"),
        (None, "de;q=0, *;q=0.1", "en"),
        (None, "de;q=x, ;;,", "en"),
        (None, ",".join(["fr"] * 20) + ",de", "en"),
        ("de", "en", "de"),
        ("en", "de", "en"),
        ("tlh", "de", "de"),
    ],
)
def test_what_a_user_chose_counts_and_then_what_the_browser_asks_for(
    languages: Languages, chosen: str | None, accepted: str, code: str
) -> None:
    assert languages.choose(chosen, accepted).code == code
    catalogs = [("en", "English"), ("de", "Deutsch"), ("pt-BR", "Português (Brasil)")]
    assert [(one.code, one.name) for one in languages] == catalogs


def test_texts_are_said_in_the_language_of_the_request_only(languages: Languages) -> None:
    with speaking(languages.choose("de", "")):
        assert _("Hello %(name)s", name="Ada") == "Hallo Ada"
        assert ngettext("%(num)s license", "%(num)s licenses", 1) == "1 Lizenz"
        assert ngettext("%(num)s license", "%(num)s licenses", 1234) == "1.234 Lizenzen"
        assert _("Not in the catalog") == "Not in the catalog"
    assert _("Hello %(name)s", name="Ada") == "Hello Ada"
    assert ngettext("%(num)s license", "%(num)s licenses", 1234) == "1,234 licenses"


def test_the_facts_of_an_error_are_said_in_the_language_too() -> None:
    with speaking(Languages(CATALOGS).choose("de", "")):
        assert message_for(RateLimited(30)).sentence.endswith("Bitte warten Sie 30 Sekunden.")
        assert "Produkt 7" in message_for(StillInUse("product 7", "licenses")).sentence
    assert message_for(RateLimited(1)).sentence.endswith("Please wait 1 second.")


def test_a_value_cannot_bring_html_and_nor_can_a_catalog(languages: Languages) -> None:
    with speaking(languages.choose("de", "")):
        assert _("<b>%(name)s</b> is here", name="<i>") == "<b>&lt;i&gt;</b> ist da"
        assert not isinstance(gettext("plain"), Markup)
        assert not isinstance(gettext("<script> is no tag of a text"), Markup)
        assert _("Hello %(name)s", name=Markup("<a>")) == Markup("Hallo <a>")


def test_templates_speak_it_too(languages: Languages, tmp_path: Path) -> None:
    source = """{{ _("Hello %(name)s", name=who) }}|{% trans name=who %}<b>{{ name }}</b>
        is here{% endtrans %}|{{ ngettext("%(num)s license", "%(num)s licenses", number) }}"""
    template = open_templates(tmp_path).from_string(source)
    with speaking(languages.choose("de", "")):
        said = template.render(who="<Ada>", number=2000)
    assert said == "Hallo &lt;Ada&gt;|<b>&lt;Ada&gt;</b> ist da|2.000 Lizenzen"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("en", ["1,234.5", "Nov 23, 2026, 2:05:00\u202fPM UTC", "Nov 23, 2026", "Nov 23", "3 minutes ago"]),
        ("de", ["1.234,5", "23.11.2026, 14:05:00 UTC", "23.11.2026", "23. Nov.", "vor 3 Minuten"]),
    ],
)
def test_numbers_and_times_are_written_as_the_language_does(code: str, expected: list[str]) -> None:
    with speaking(Language(code)):
        assert expected == [
            formats.write_number(1234.5),
            formats.write_moment(NOW),
            formats.write_day(NOW.date()),
            formats.write_short_day(NOW.date()),
            formats.write_ago(NOW - timedelta(minutes=3), NOW),
        ]
