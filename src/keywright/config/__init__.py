"""Settings: their values and sources, and the installation that they describe.

This package is the only reader of the environment.
"""

from keywright.config.installation import (
    find_secret,
    has_database,
    load_key_ring,
    load_secret,
    make_data_dir,
    open_installation,
)
from keywright.config.risks import risks
from keywright.config.rotation import path_of_retired_secret, retire_previous_secret, take_new_secret
from keywright.config.settings import Settings, web_address
from keywright.config.sources import (
    Setting,
    child_environment,
    is_debugging,
    list_settings,
    read_settings,
)
from keywright.config.values import Network
from keywright.db import without_password

__all__ = [
    "Network",
    "Setting",
    "Settings",
    "child_environment",
    "find_secret",
    "has_database",
    "is_debugging",
    "list_settings",
    "load_key_ring",
    "load_secret",
    "make_data_dir",
    "open_installation",
    "path_of_retired_secret",
    "read_settings",
    "retire_previous_secret",
    "risks",
    "take_new_secret",
    "web_address",
    "without_password",
]
