"""Long work: generating, changing and exporting many licenses, in steps that others get their turn between.

An order is given with ``start``; whoever has nothing to do claims the job and takes its ``Plan``, which makes
one step after the other, each to be decided at the desk. What is done is remembered with the job, so that
another server process can go on where one ended.
"""

from keywright.jobs.claims import Claims
from keywright.jobs.files import COLUMNS, defused, file_name, has_file, read_file
from keywright.jobs.handlers import CLAIM, HANDLERS, MOST_UNFINISHED
from keywright.jobs.orders import (
    MOST_GENERATED,
    MOST_SELECTED,
    Change,
    Export,
    Generate,
    Order,
    What,
    order_of,
    origin_of,
    start,
)
from keywright.jobs.planning import Plan
from keywright.jobs.store import (
    find_job,
    find_job_to_forget,
    has_old_jobs,
    list_claims,
    list_jobs,
    list_next_jobs,
)

__all__ = [
    "CLAIM",
    "COLUMNS",
    "HANDLERS",
    "MOST_GENERATED",
    "MOST_SELECTED",
    "MOST_UNFINISHED",
    "Change",
    "Claims",
    "Export",
    "Generate",
    "Order",
    "Plan",
    "What",
    "defused",
    "file_name",
    "find_job",
    "find_job_to_forget",
    "has_file",
    "has_old_jobs",
    "list_claims",
    "list_jobs",
    "list_next_jobs",
    "order_of",
    "origin_of",
    "read_file",
    "start",
]
