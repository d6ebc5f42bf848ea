"""Doctor, copies, backups, rotation of the secret, retention, and personal data."""
