"""Collect the translatable texts of pages and mails, and update their translation catalogs.

python -m tools.texts              update all catalogs
python -m tools.texts --add fr     create catalogs for another language
python -m tools.texts --check      list what is missing or wrong in the catalogs
"""

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from babel import Locale
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from keywright.config import Settings
from keywright.config.sources import describe_values
from keywright.config.stored import LABELS
from keywright.core.errors import KeywrightError
from keywright.core.nouns import list_members
from keywright.events.prose import PROSE
from keywright.http.admin.event_text import NOUNS
from keywright.http.pages import error_messages
from keywright.http.pages.formats import PORTAL_CATALOGS
from keywright.licensing.licenses.model import LicenseFields
from keywright.licensing.terms.model import Terms
from keywright.provisioning.importers.run import ODDITIES, VERDICTS
from keywright.provisioning.policies.model import KeyFormatFields

HTTP = Path(error_messages.__file__).parent.parent
_KEYWORDS = {"_": None, "N_": None, "gettext": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2)}
_METHODS = [("**.py", "python"), ("**.html", "jinja2")]
_OPTIONS = {"**.html": {"trimmed": "true"}}
_VALUE = re.compile(r"%\(\w+\)s|%%|\{[^{}]*\}")
_TAG = re.compile(r"</?\w+[^<>]*>")
#: A value that a plural form may omit.
_NUMBER = "%(num)s"
_NEW = "# Texts of Keywright's pages. Say here how the reader is addressed, and one word for each thing."
#: Replaces Babel's header, which also contains dates and addresses.
_HEADER = """\
{comment}
msgid ""
msgstr ""
"Language: {catalog.locale}\\n"
"Plural-Forms: {catalog.plural_forms}\\n"
"Content-Type: text/plain; charset=utf-8\\n"

"""


class Domain(NamedTuple):
    """The texts of one site: the folders and files that contain them, and the folder with its catalogs. With
    ``has_errors``, texts of errors, fields, events and imports are included.
    """

    folders: tuple[Path, ...]
    catalogs: Path
    has_errors: bool = True


_MAIL = HTTP.parent / "delivery" / "mail"
DOMAINS = {
    "admin": Domain((HTTP / "pages", HTTP / "admin", HTTP / "terms_in_words.py"), HTTP / "admin" / "locale"),
    "portal": Domain((HTTP / "portal", HTTP / "public"), PORTAL_CATALOGS, has_errors=False),
    "mail": Domain((_MAIL,), _MAIL / "locale", has_errors=False),
}


def collect(domain: Domain) -> Catalog:
    """Collect the texts of a domain."""
    catalog = Catalog()
    for folder in domain.folders:
        # A single file is extracted from its folder, ignoring all others.
        methods = _METHODS if folder.is_dir() else [(folder.name, "python"), ("**", "ignore")]
        found = extract_from_dir(folder if folder.is_dir() else folder.parent, methods, _OPTIONS, _KEYWORDS)
        for name, _line, text, _comments, context in found:
            place = (folder / name if folder.is_dir() else folder).relative_to(HTTP.parent).as_posix()
            catalog.add(text, locations=[(place, 0)], context=context)
    if not domain.has_errors:
        return catalog
    for text in sorted(set(_texts_of_errors(KeywrightError))):
        catalog.add(text, locations=[("core/errors", 0)])
    for text in sorted(set(_texts_of_fields())):
        catalog.add(text, locations=[("core/nouns.py", 0)])
    for text in sorted({*PROSE, *(text for named in PROSE.values() for text in named.values())}):
        catalog.add(text, locations=[("events/prose.py", 0)])
    for text in sorted({*VERDICTS.values(), *chain(*ODDITIES.values())}):
        catalog.add(text, locations=[("provisioning/importers/report.py", 0)])
    return catalog


def _texts_of_errors(kind: type[KeywrightError]) -> Iterator[str]:
    yield from filter(None, (kind.heading, kind.sentence))
    for inner in kind.__subclasses__():
        yield from _texts_of_errors(inner)


def _texts_of_fields() -> Iterator[str]:
    """Yield the labels and hints of fields in forms and in the history."""
    for fields in (*(noun.new for noun in NOUNS), LicenseFields, KeyFormatFields, Terms):
        for member in list_members(fields):
            yield from filter(None, (member.form.get("label"), member.form.get("none")))
    for name, label in LABELS.items():
        yield label
        if not name.startswith("smtp_"):
            # The form for the mail server has its own fields.
            yield from (Settings.model_fields[name].description or "", describe_values(name))
    for fields in (*(noun.new for noun in NOUNS), LicenseFields):
        yield from (member.form["hint"] for member in list_members(fields) if member.form.get("hint"))


def load(path: Path) -> Catalog:
    """Load a catalog."""
    with path.open("rb") as file:
        return read_po(file, locale=path.stem, ignore_obsolete=True)


def save(catalog: Catalog, path: Path) -> None:
    """Write a catalog without obsolete texts."""
    path.parent.mkdir(exist_ok=True)
    for message in catalog:
        message.locations.sort()
    with path.open("wb") as file:
        file.write(_HEADER.format(comment=catalog.header_comment, catalog=catalog).encode())
        write_po(
            file,
            catalog,
            110,
            omit_header=True,
            sort_by_file=True,
            ignore_obsolete=True,
            include_lineno=False,
        )


def update(domain: Domain) -> None:
    """Add new texts to the domain's catalogs, untranslated, and drop old ones."""
    collected = collect(domain)
    for path in sorted(domain.catalogs.glob("*.po")):
        catalog = load(path)
        catalog.update(collected, no_fuzzy_matching=True, update_creation_date=False)
        save(catalog, path)


def find_problems(domain: Domain) -> list[str]:
    """List what is missing or wrong in the domain's catalogs, one line each."""
    collected = collect(domain)
    return [
        f"{path.name}: {problem}: {_forms_of(message.id)[0]!r}"
        for path in sorted(domain.catalogs.glob("*.po"))
        for message, problem in _problems_of(load(path), collected)
    ]


def _problems_of(catalog: Catalog, collected: Catalog) -> Iterator[tuple[Message, str]]:
    for message in collected:
        if not message.id:
            continue
        translated = catalog.get(message.id, message.context)
        if translated is None:
            yield message, "missing"
        elif problem := _find_problem(translated, catalog.num_plurals):
            yield message, problem
    for message in catalog:
        if message.id and collected.get(message.id, message.context) is None:
            yield message, "not used"


def _find_problem(message: Message, plurals: int) -> str:
    forms = _forms_of(message.string)
    if not all(forms) or (message.pluralizable and len(forms) != plurals):
        return "not translated"
    if message.fuzzy:
        return "fuzzy"
    said = _forms_of(message.id)[-1]
    ignored = {_NUMBER} if message.pluralizable else set()
    if any(_values_in(form) - ignored != _values_in(said) - ignored for form in forms):
        return "other values"
    if any(_tags_in(form) != _tags_in(said) for form in forms):
        return "other tags"
    return ""


def _values_in(text: str) -> set[str]:
    return set(_VALUE.findall(text))


def _tags_in(text: str) -> list[str]:
    return sorted(_TAG.findall(text))


def _forms_of(text: str | Sequence[str] | None) -> tuple[str, ...]:
    """The plural forms of a text; if it has none, the text alone."""
    return (text or "",) if text is None or isinstance(text, str) else tuple(text)


def main(arguments: list[str]) -> int:
    """Run the command in the arguments for all domains; return 1 if ``--check`` finds problems."""
    if arguments == ["--check"]:
        problems = [line for domain in DOMAINS.values() for line in find_problems(domain)]
        print("\n".join(problems) or "All texts are translated.")
        return int(bool(problems))
    for domain in DOMAINS.values():
        if arguments[:1] == ["--add"]:
            path = domain.catalogs / f"{arguments[1].replace('-', '_')}.po"
            save(Catalog(locale=Locale.parse(path.stem), header_comment=_NEW), path)
        update(domain)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
