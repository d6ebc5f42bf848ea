"""All errors of Keywright, as one tree of classes; import them from here.

A class declares in its attributes what every interface answers, see ``KeywrightError``. So a new error is a
single class in one of these files, which v2, the pages, the terminal and the documents read.
"""

# ruff: noqa: F403
# isort: off
# The order in which the documents list them.
from keywright.core.errors.root import *
from keywright.core.errors.licensing import *
from keywright.core.errors.terms import *
from keywright.core.errors.management import *
from keywright.core.errors.provisioning import *
from keywright.core.errors.provisioning import *
from keywright.core.errors.calls import *
from keywright.core.errors.management import *
from keywright.core.errors.management import *
from keywright.core.errors.calls import *
from keywright.core.errors.requests import *
from keywright.core.errors.faults import *

#: All classes, in order of definition.
CATALOG: tuple[type[KeywrightError], ...] = tuple(  # noqa: F405
    kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, KeywrightError)  # noqa: F405
)
