"""Every error and refusal of Keywright, as one tree; import them from here.

A class declares once, in its attributes, what every interface answers: ``KeywrightError`` explains them. So a
new refusal is one class in one of these files; v2, the pages, the terminal and the documents read it there.
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

#: Every class of the tree, in the order of definition.
CATALOG: tuple[type[KeywrightError], ...] = tuple(  # noqa: F405
    kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, KeywrightError)  # noqa: F405
)
