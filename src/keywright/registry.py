"""The one list of handlers: the function that decides each command and answers each query.

It is handed to the executor, which knows no feature.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from keywright.core.command import Command, Query
from keywright.db import Storage
from keywright.engine import health
from keywright.engine.executor import Executor, Registry
from keywright.engine.idempotency import PurgeIdempotencyRecords, purge_idempotency_records
from keywright.events.commands import RecordEvent
from keywright.events.handlers import record_event
from keywright.identity import api_keys, second_factors, users
from keywright.identity import queries as identity
from keywright.identity.commands import FindApiKey
from keywright.jobs import handlers as jobs
from keywright.licensing import queries as licensing
from keywright.licensing.activations import handlers as activations
from keywright.licensing.activations.commands import FindLicenses, ListLicenses, Validate, ValidateAlone
from keywright.licensing.activations.model import RecordLimits
from keywright.licensing.licenses import handlers as licenses
from keywright.licensing.licenses.store import find_holders
from keywright.licensing.unit_of_work import LicenseWork
from keywright.maintenance import personal_data, retention
from keywright.provisioning.catalog import handlers as catalog
from keywright.provisioning.generators import handlers as generators
from keywright.provisioning.generators import queries as generator_queries
from keywright.provisioning.generators.commands import GetGenerator, ListGenerators
from keywright.provisioning.importers import handlers as importers
from keywright.search import projector

HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = (
    licenses.HANDLERS
    | activations.HANDLERS
    | generators.HANDLERS
    | catalog.HANDLERS
    | importers.HANDLERS
    | api_keys.HANDLERS
    | users.HANDLERS
    | second_factors.HANDLERS
    | projector.HANDLERS
    | jobs.HANDLERS
    | personal_data.HANDLERS
    | retention.HANDLERS
    | {PurgeIdempotencyRecords: purge_idempotency_records, RecordEvent: record_event}
)

QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    Validate: licensing.validate,
    ValidateAlone: licensing.validate,
    FindLicenses: licensing.find_licenses,
    ListLicenses: licensing.list_licenses,
    GetGenerator: generator_queries.find_generator,
    ListGenerators: generator_queries.list_generators,
    FindApiKey: identity.find_api_key,
    health.CheckDatabase: health.check_database,
}
#: Queries answered by statements each of which sees all that the answer needs at one moment.
SINGLE_MOMENT: frozenset[type[Query]] = frozenset(
    {Validate, ValidateAlone, GetGenerator, ListGenerators, FindApiKey, health.CheckDatabase}
)

_LIMITS = RecordLimits()


def make_registry(limits: RecordLimits = _LIMITS) -> Registry:
    """The registry for one executor."""
    return Registry(
        handlers=HANDLERS,
        query_handlers=QUERY_HANDLERS,
        single_moment=SINGLE_MOMENT,
        begin=partial(LicenseWork, limits=limits),
        begin_queries=partial(licensing.QueryContext, limits=limits, pages=licensing.Pages()),
        find_holders=find_holders,
    )


def open_executor(storage: Storage, limits: RecordLimits = _LIMITS) -> Executor:
    """An executor over a database, with every handler; closing it closes the database."""
    return Executor(storage, partial(make_registry, limits))
