"""All texts of the pages are marked for translation, and all catalogs contain them."""

from pathlib import Path

import pytest
from babel.messages.catalog import Catalog

from tests.tables import each_row
from tools import bare_texts, texts
from tools.texts import DOMAINS, Domain


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_every_catalog_has_every_text_with_its_values_and_tags(domain: Domain) -> None:
    """``make texts`` collects them; then translate the empty ones."""
    assert texts.find_problems(domain) == []


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_a_catalog_is_as_make_texts_writes_it(domain: Domain, tmp_path: Path) -> None:
    for path in domain.catalogs.glob("*.po"):
        texts.save(texts.load(path), tmp_path / path.name)
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_no_text_of_a_page_is_bare() -> None:
    folders = [one for domain in DOMAINS.values() for one in domain.folders if one.is_relative_to(texts.HTTP)]
    assert bare_texts.find_all(folders) == {}


@each_row(
    ("source", "found"),
    [
        ('redirect("/x", "The license was deleted.")', ["The license was deleted."]),
        ('redirect("/x", f"The license {one} is deleted.")', ["The license … is deleted."]),
        ('redirect("/x", _("The license was deleted."))', []),
        ('def x() -> None:\n    """Delete a license."""\n    log.warning("It failed: %s", x)', []),
    ],
)
def test_bare_sentences_of_code_are_found(source: str, found: list[str]) -> None:
    assert bare_texts.in_python(source) == found


@each_row(
    ("source", "found"),
    [
        ("<p>Save</p>", ["Save"]),
        ('<a title="Save it">{{ _("Save") }}</a>', ["Save it"]),
        ("<p>{% if x %}{{ x }} licenses{% endif %}</p>", ["… licenses"]),
        ('{{ field("name", "Name") }}', ["Name"]),
        ('{{ card("1. Save it") }}', ["1. Save it"]),
        ('{{ field("name", _("Name")) }}', []),
        ("{% trans %}Save <b>it</b>{% endtrans %}", []),
        ("<p class=\"muted wide\"><code>keywright serve</code> {{ _('Save') }} — 12</p>", []),
    ],
)
def test_bare_words_of_a_template_are_found(source: str, found: list[str]) -> None:
    assert bare_texts.in_template(source) == found


@pytest.mark.parametrize(
    ("said", "translated", "problem"),
    [
        ("Save", "Speichern", []),
        ("Save", "", ["not translated"]),
        ("%(num)s of %(all)s", "%(num)s von %(al)s", ["other values"]),
        ("{count:,} left", "{count} \u00fcbrig", ["other values"]),
        ("a <b>word</b>", "ein <i>Wort</i>", ["other tags"]),
    ],
)
def test_what_is_wrong_in_a_catalog_is_found(said: str, translated: str, problem: list[str]) -> None:
    collected, catalog = Catalog(), Catalog(locale="de")
    collected.add(said)
    catalog.add(said, translated)
    assert [what for _message, what in texts._problems_of(catalog, collected)] == problem
