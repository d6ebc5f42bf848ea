"""The one list of handlers: the function that decides each command and answers each query."""

from collections.abc import Callable
from typing import Any

from keywright import jobs
from keywright.core.command import Command, Query
from keywright.engine import health
from keywright.engine.idempotency import ForgetAnswers, forget_answers
from keywright.events.commands import Note
from keywright.events.handlers import note
from keywright.identity import api_keys, second_factors, users
from keywright.identity import queries as identity
from keywright.identity.commands import FindApiKey
from keywright.licensing import queries as licensing
from keywright.licensing.activations import handlers as activations
from keywright.licensing.activations.commands import FindLicenses, ListLicenses, Validate, ValidateAlone
from keywright.licensing.licenses import handlers as licenses
from keywright.maintenance import personal_data, retention
from keywright.provisioning.catalog import handlers as catalog
from keywright.provisioning.generators import handlers as generators
from keywright.provisioning.generators import queries as generator_queries
from keywright.provisioning.generators.commands import GetGenerator, ListGenerators
from keywright.search import projector

HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = (
    licenses.DECISIONS
    | activations.DECISIONS
    | generators.DECISIONS
    | catalog.DECISIONS
    | api_keys.DECISIONS
    | users.DECISIONS
    | second_factors.DECISIONS
    | projector.DECISIONS
    | jobs.DECISIONS
    | personal_data.DECISIONS
    | retention.DECISIONS
    | {ForgetAnswers: forget_answers, Note: note}
)

QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    Validate: licensing.validate,
    ValidateAlone: licensing.validate,
    FindLicenses: licensing.find_licenses,
    ListLicenses: licensing.list_licenses,
    GetGenerator: generator_queries.find_generator,
    ListGenerators: generator_queries.list_generators,
    FindApiKey: identity.find_api_key,
    health.CheckStore: health.check,
}
#: Answered by statements each of which sees one moment of the database, all that an answer needs.
SINGLE_MOMENT = frozenset(
    {Validate, ValidateAlone, GetGenerator, ListGenerators, FindApiKey, health.CheckStore}
)
