"""The tables. What an activation looks up has a primary key that begins with the license; there are no
triggers.

Times are whole seconds since 1970-01-01 UTC, in 64-bit integers: the same on every database, and compared
without conversion. ``sealed_columns`` lists what binary columns contain.
"""

# ruff: noqa: F403
from keywright.db.schema.base import *
from keywright.db.schema.catalog import *
from keywright.db.schema.delivery import *
from keywright.db.schema.identity import *
from keywright.db.schema.licenses import *
from keywright.db.schema.portal import *
from keywright.db.schema.records import *
from keywright.db.schema.releases import *
from keywright.db.schema.shops import *
