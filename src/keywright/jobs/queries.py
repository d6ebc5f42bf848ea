"""Read jobs."""

from typing import Any

from keywright.core.errors import UnknownJob
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.commands import GetJob
from keywright.jobs.model import Job, JobState


def get_job(read: Any, query: GetJob) -> Job:
    """One job. Raises ``UnknownJob``."""
    job = job_store.find_job(read.tx, query.job_id)
    if job is None or job.state is JobState.DRAFT:
        raise UnknownJob(query.job_id)
    search = orders.search_of(job)
    if query.only_product_id is not None and (search is None or search.product_id != query.only_product_id):
        raise UnknownJob(query.job_id)
    return job
