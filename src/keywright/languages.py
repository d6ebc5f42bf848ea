"""Languages and their catalogs of texts."""

from functools import cached_property
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from babel import Locale

#: The language of the texts in code and templates.
ENGLISH = "en"


class Language:
    """A language by its code (``de``, ``pt-BR``), with its texts; English needs no catalog."""

    def __init__(self, code: str, catalog: Path | None = None) -> None:
        self.code = code
        self._catalog = catalog

    @cached_property
    def translations(self) -> NullTranslations:
        """The translated texts; the catalog is read on first use."""
        if self._catalog is None:
            return NullTranslations()
        from babel.messages.mofile import write_mo
        from babel.messages.pofile import read_po

        binary = BytesIO()
        with self._catalog.open("rb") as file:
            write_mo(binary, read_po(file, ignore_obsolete=True))
        binary.seek(0)
        return GNUTranslations(binary)

    @cached_property
    def locale(self) -> "Locale":
        """The formats of numbers, dates and times."""
        from babel import Locale

        return Locale.parse(self.code, sep="-")

    @property
    def name(self) -> str:
        """The language's own name: ``Deutsch``."""
        name = self.locale.get_display_name(self.locale) or self.code
        return name[:1].upper() + name[1:]
