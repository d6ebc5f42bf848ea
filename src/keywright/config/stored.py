"""Settings that administrators change in the pages: the database stores them as texts, like an environment.

The environment, a file or an option takes precedence. The ``Settings`` of a process are changed in place, so
that code which reads a setting on use gets the new value.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import get_args

from pydantic import SecretStr, ValidationError

from keywright.config.settings import Settings
from keywright.config.sources import Values, build_settings, describe_values
from keywright.core.errors import ConfigurationError

#: The source of these values.
SOURCE = "the pages"

log = logging.getLogger(__name__)


def label_of(name: str) -> str | None:
    """Return the label of a setting in the pages; None for a setting that the pages cannot change."""
    extra = Settings.model_fields[name].json_schema_extra
    label = extra.get("label") if isinstance(extra, dict) else None
    return None if label is None else str(label)


#: The settings that the pages can change, with their labels.
LABELS = {name: label for name in Settings.model_fields if (label := label_of(name)) is not None}


def is_fixed(settings: Settings, name: str) -> bool:
    """Return whether the environment, a file or an option sets this setting."""
    return name in settings.model_fields_set


def is_secret(name: str) -> bool:
    """Return whether the value must never be shown."""
    return SecretStr in get_args(Settings.model_fields[name].annotation)


def find_wrong(texts: Mapping[str, str]) -> dict[str, str]:
    """Return what each invalid value must be instead: "a time such as 03:30"."""
    return {name: describe_values(name) for name, text in texts.items() if not _is_allowed(name, text)}


def choose_usable(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the stored values without invalid ones, which are damaged or from another version."""
    return {name: text for name, text in stored.items() if name in LABELS and _is_allowed(name, text)}


def layer(settings: Settings, stored: Mapping[str, str]) -> Settings:
    """Merge the settings over the stored ones, and validate the result. Raises ``ConfigurationError``."""
    free: Values = {name: (text, SOURCE) for name, text in stored.items() if not is_fixed(settings, name)}
    fixed: Values = {
        name: (getattr(settings, name), settings.source_of(name)) for name in settings.model_fields_set
    }
    return build_settings(free | fixed)


def apply(settings: Settings, stored: Mapping[str, str]) -> None:
    """Change the settings in place. Unusable values are left out, and logged."""
    if stored == settings._stored:
        return
    settings._stored = dict(stored)
    usable = choose_usable(stored)
    _warn_of(stored.keys() - usable.keys())
    try:
        layered = layer(settings, usable)
    except ConfigurationError as problem:
        # smtp_url is the only setting of the pages that requires another one.
        log.warning("the mail server of the pages is left out: %s", problem)
        layered = layer(settings, {name: text for name, text in usable.items() if name != "smtp_url"})
    free = [name for name in LABELS if not is_fixed(settings, name)]
    # Atomic for other threads.
    settings.__dict__.update({name: getattr(layered, name) for name in free})
    for name in free:
        settings._sources.pop(name, None)
        if name in layered._sources:
            settings._sources[name] = layered._sources[name]


def _warn_of(names: Iterable[str]) -> None:
    for name in sorted(names):
        log.warning("the setting %s of the pages cannot be used, and is left out", name)


def _is_allowed(name: str, text: str) -> bool:
    try:
        Settings.model_validate({name: text})
    except ValidationError:
        return False
    return True
