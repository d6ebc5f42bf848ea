"""Settings, and what they lead to: what an installation is told, where each value came from, and the
way into its database.

This package is the only reader of the environment.
"""

from keywright.config.installation import (
    find_secret,
    has_database,
    load_key_ring,
    load_secret,
    make_data_dir,
    open_copy,
    open_installation,
)
from keywright.config.risks import risks
from keywright.config.rotation import retire_previous_secret, retired_secret_file, take_new_secret
from keywright.config.settings import Settings
from keywright.config.sources import (
    Setting,
    child_environment,
    is_debugging,
    read_settings,
    settings_in_force,
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
    "load_key_ring",
    "load_secret",
    "make_data_dir",
    "open_copy",
    "open_installation",
    "read_settings",
    "retire_previous_secret",
    "retired_secret_file",
    "risks",
    "settings_in_force",
    "take_new_secret",
    "without_password",
]
