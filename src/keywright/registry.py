"""The registry of handlers: the function that decides each command and answers each query.

The executor gets it as an argument, and depends on no feature.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from keywright.config.settings import Settings
from keywright.core.command import Command, Query
from keywright.db import Storage
from keywright.delivery.mail import handlers as mails
from keywright.delivery.webhooks import handlers as webhooks
from keywright.delivery.webhooks import queries as webhook_queries
from keywright.engine import health, queue
from keywright.engine.executor import Executor, Registry
from keywright.engine.idempotency import PurgeIdempotencyRecords, purge_idempotency_records
from keywright.events.model import RecordEvent, SettleEvents
from keywright.events.unit_of_work import record_event, settle_events
from keywright.identity import api_keys, second_factors, users
from keywright.identity.model import FindApiKey
from keywright.jobs import handlers as jobs
from keywright.jobs import import_handlers, making_files, notifying, store, taking_back
from keywright.jobs.model import GetJob
from keywright.licensing import handlers as licensing_handlers
from keywright.licensing import queries as licensing_queries
from keywright.licensing.activations import device_handlers as devices
from keywright.licensing.activations import handlers as activations
from keywright.licensing.activations import site_handlers
from keywright.licensing.activations.model import (
    FindLicenses,
    ListLicenses,
    RecordLimits,
    Validate,
    ValidateAlone,
)
from keywright.licensing.leases import handlers as leases_handlers
from keywright.licensing.leases.model import ListLeases
from keywright.licensing.licenses import handlers as licenses
from keywright.licensing.licenses.store import find_holders
from keywright.licensing.undo import handlers as undo
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.updates import tokens as update_tokens
from keywright.licensing.updates.queries import CheckForUpdate, ExplainRelease, FindDownload
from keywright.licensing.usage import handlers as usage_handlers
from keywright.licensing.validation import ValidateLicense
from keywright.licensing.views_store import Names
from keywright.maintenance import clock, old_events, personal_data
from keywright.maintenance import settings as stored_settings
from keywright.provisioning import handlers as provisioning_handlers
from keywright.provisioning import licenses as new_licenses
from keywright.provisioning.importers import handlers as importers
from keywright.provisioning.ownership import handlers as ownership_handlers
from keywright.provisioning.policies import handlers as policies_handlers
from keywright.provisioning.policies.model import FindPolicies, GetPolicy, ListPolicies, PreviewTerms
from keywright.provisioning.portal import handlers as portal
from keywright.provisioning.releases import handlers as releases
from keywright.provisioning.releases import notices
from keywright.provisioning.shops import handlers as shops
from keywright.provisioning.shops import queries as shop_queries
from keywright.provisioning.shops.commands import OpenConnection
from keywright.provisioning.shops.later_purchases import apply_to_restored
from keywright.search import feed, license_pages, projector, reports
from keywright.signing import handlers as license_files
from keywright.signing import keys as signing_keys

HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = (
    licenses.HANDLERS
    | activations.HANDLERS
    | devices.HANDLERS
    | site_handlers.HANDLERS
    | licensing_handlers.REFUSAL_HANDLERS
    | licensing_handlers.REMOVAL_HANDLERS
    | licensing_handlers.MOMENT_HANDLERS
    | licensing_handlers.NOTE_HANDLERS
    | undo.HANDLERS
    | update_tokens.HANDLERS
    | leases_handlers.HANDLERS
    | usage_handlers.HANDLERS
    | policies_handlers.HANDLERS
    | new_licenses.HANDLERS
    | provisioning_handlers.TRIAL_HANDLERS
    | provisioning_handlers.NAME_HANDLERS
    | provisioning_handlers.PRODUCT_HANDLERS
    | releases.HANDLERS
    | notices.HANDLERS
    | provisioning_handlers.CUSTOMER_HANDLERS
    | portal.HANDLERS
    | ownership_handlers.HANDLERS
    | provisioning_handlers.BRAND_HANDLERS
    | importers.HANDLERS
    | shops.HANDLERS
    | api_keys.HANDLERS
    | users.HANDLERS
    | users.INVITATION_HANDLERS
    | users.VIEW_HANDLERS
    | second_factors.HANDLERS
    | projector.HANDLERS
    | jobs.HANDLERS
    | taking_back.HANDLERS
    | import_handlers.HANDLERS
    | notifying.HANDLERS
    | making_files.HANDLERS
    | personal_data.HANDLERS
    | old_events.HANDLERS
    | clock.HANDLERS
    | stored_settings.HANDLERS
    | license_files.HANDLERS
    | signing_keys.HANDLERS
    | webhooks.HANDLERS
    | mails.HANDLERS
    | queue.HANDLERS
    | {
        PurgeIdempotencyRecords: purge_idempotency_records,
        RecordEvent: record_event,
        SettleEvents: settle_events,
        health.ProbeWrite: health.probe_write,
    }
)

QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    Validate: licensing_queries.validate,
    ValidateAlone: licensing_queries.validate,
    ValidateLicense: licensing_queries.validate_license,
    CheckForUpdate: licensing_queries.check_for_update,
    ExplainRelease: licensing_queries.explain_release,
    FindDownload: licensing_queries.find_download,
    **update_tokens.QUERY_HANDLERS,
    **site_handlers.QUERY_HANDLERS,
    FindLicenses: licensing_queries.find_licenses,
    ListLicenses: licensing_queries.list_licenses,
    ListLeases: leases_handlers.list_leases,
    **licensing_queries.QUERY_HANDLERS,
    **usage_handlers.QUERY_HANDLERS,
    **license_pages.QUERY_HANDLERS,
    **feed.QUERY_HANDLERS,
    **reports.QUERY_HANDLERS,
    GetPolicy: policies_handlers.find_policy,
    ListPolicies: policies_handlers.list_policies,
    FindPolicies: policies_handlers.find_policies,
    PreviewTerms: policies_handlers.preview_terms,
    GetJob: store.get_job,
    FindApiKey: api_keys.find_api_key,
    health.CheckDatabase: health.check_database,
    **personal_data.QUERY_HANDLERS,
    **provisioning_handlers.PRODUCT_QUERIES,
    **releases.QUERY_HANDLERS,
    **notices.QUERY_HANDLERS,
    **notifying.QUERY_HANDLERS,
    **making_files.QUERY_HANDLERS,
    **provisioning_handlers.CUSTOMER_QUERIES,
    **provisioning_handlers.BRAND_QUERIES,
    **shop_queries.QUERY_HANDLERS,
    **provisioning_handlers.TRIAL_QUERIES,
    **ownership_handlers.QUERY_HANDLERS,
    **signing_keys.QUERY_HANDLERS,
    **webhook_queries.QUERY_HANDLERS,
    **licensing_handlers.QUERY_HANDLERS,
    **queue.QUERY_HANDLERS,
    **clock.QUERY_HANDLERS,
    **stored_settings.QUERY_HANDLERS,
}
#: Queries that need no snapshot, because a single statement reads everything in the answer that must be
#: consistent: for ``ValidateLicense``, the license and the device's place; names, usage and leases may be
#: newer.
SINGLE_MOMENT: frozenset[type[Query]] = frozenset(
    {
        Validate,
        ValidateAlone,
        ValidateLicense,
        CheckForUpdate,
        site_handlers.CheckSite,
        GetPolicy,
        ListPolicies,
        FindApiKey,
        OpenConnection,
        health.CheckDatabase,
    }
)


def make_registry(limits: Callable[[], RecordLimits] = RecordLimits) -> Registry:
    """Return the registry of one executor."""
    names, pages = Names(), licensing_queries.Pages()
    return Registry(
        handlers=HANDLERS,
        query_handlers=QUERY_HANDLERS,
        single_moment=SINGLE_MOMENT,
        begin=lambda tx, commands: LicenseWork(
            tx, commands, limits=limits(), names=names, on_restored=apply_to_restored
        ),
        begin_queries=lambda tx, queries: licensing_queries.QueryContext(
            tx, queries, limits=limits(), pages=pages, names=names
        ),
        find_holders=find_holders,
    )


def record_limits(settings: Settings) -> RecordLimits:
    """Return the limits on the activations that are kept and listed."""
    return RecordLimits(settings.kept_records, settings.listed_records, settings.keep_deleted_days > 0)


def open_executor(
    storage: Storage,
    limits: Callable[[], RecordLimits] = RecordLimits,
    on_queued: Callable[[], None] | None = None,
) -> Executor:
    """Open an executor over a database, with every handler; closing it closes the database. ``limits`` is
    called for each batch, and ``on_queued`` when a mail was queued.
    """
    return Executor(storage, partial(make_registry, limits), on_queued)
