"""Open a folder of Jinja2 templates, whose texts are in the reader's language."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from keywright.http.pages import languages


def open_templates(folder: Path) -> Environment:
    """The templates in this folder. Texts are escaped; undefined names raise ``UndefinedError``."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    # Line ends in {% trans %} are spaces, and these functions put the values in.
    environment.policies["ext.i18n.trimmed"] = True
    vars(environment).update(newstyle_gettext=True)
    environment.globals.update(
        _=languages.gettext,
        gettext=languages.gettext,
        ngettext=languages.ngettext,
        pgettext=languages.pgettext,
        language=languages.current_language,
    )
    return environment
