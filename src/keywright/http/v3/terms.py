"""Terms that a body changes."""

from typing import Annotated, Any

from keywright.core.fields import about

#: The body's member: a JSON merge patch of terms, which ``merge_terms`` checks.
TermsPatch = Annotated[
    dict[str, Any],
    about("Those of the terms that differ; null is the default.", {"max_activations": 3, "grace_days": 7}),
]
