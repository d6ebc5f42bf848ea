"""Doctor, copies, backups, secret rotation, retention, and personal data."""
