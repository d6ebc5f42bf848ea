"""The one list of handlers: the function that decides each command and answers each query."""

from collections.abc import Callable
from typing import Any

from keywright import jobs
from keywright.core.command import Command, Query
from keywright.engine import health
from keywright.engine.idempotency import PurgeIdempotencyRecords, purge_idempotency_records
from keywright.events.commands import RecordEvent
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
    licenses.HANDLERS
    | activations.HANDLERS
    | generators.HANDLERS
    | catalog.HANDLERS
    | api_keys.HANDLERS
    | users.HANDLERS
    | second_factors.HANDLERS
    | projector.HANDLERS
    | jobs.HANDLERS
    | personal_data.HANDLERS
    | retention.HANDLERS
    | {PurgeIdempotencyRecords: purge_idempotency_records, RecordEvent: note}
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
