"""Commands of imports. Each is one transaction; run again, it changes nothing."""

from collections.abc import Collection

from keywright.core.command import Command, Cost
from keywright.provisioning.importers.model import (
    ImportedApiKey,
    ImportedGenerator,
    ImportedLicense,
    ImportedNames,
)


class Import(Command, frozen=True, kw_only=True):
    """Bring records from ``source``, such as ``lmfwc``; a dry run says what would be done."""

    cost = Cost.LONG

    source: str
    is_dry_run: bool = False


class ImportLicenses(Import, frozen=True, kw_only=True):
    """Bring licenses and their activations; those that are here are merged. The outcome is ``Imported``."""

    licenses: tuple[ImportedLicense, ...]

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses that have these keys or ids."""
        ids = [one.id for one in self.licenses if one.id is not None]
        return [*(one.key for one in self.licenses), *ids]


class ImportGenerators(Import, frozen=True, kw_only=True):
    """Bring generators."""

    generators: tuple[ImportedGenerator, ...]


class ImportApiKeys(Import, frozen=True, kw_only=True):
    """Bring API keys, whose secrets then work here, too."""

    api_keys: tuple[ImportedApiKey, ...]


class ImportNames(Import, frozen=True, kw_only=True):
    """Bring names; a number that has one here keeps it."""

    names: ImportedNames


class ReserveIds(Command, frozen=True, kw_only=True):
    """Let no new license or activation have an id up to these: an import brings such. The outcome says which
    ids of activations no server has given: those after the first number, up to the second.
    """

    cost = Cost.LONG

    license_id: int
    activation_id: int
