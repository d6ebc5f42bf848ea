"""The files of the two secrets during a rotation."""

import secrets
from pathlib import Path

from keywright.config.installation import add_previous_secret, find_secret, load_key_ring, write_secret
from keywright.config.settings import Settings
from keywright.core.crypto import KeyRing
from keywright.core.errors import ConfigurationError


def take_new_secret(settings: Settings) -> KeyRing:
    """Return the new secret and the previous one. If there is only one, make a new one, and keep the other
    beside it.

    Raises ``ConfigurationError`` when the secret is a setting, which only the owner can change.
    """
    # The database is not read: it is locked meanwhile.
    secret = find_secret(settings)
    if secret is None:
        raise ConfigurationError(f"{settings.secret_file} is missing: there is no secret to rotate.")
    key_ring = add_previous_secret(settings, secret)
    if len(key_ring.rings) > 1:
        return key_ring
    if settings.secret is not None:
        raise ConfigurationError(
            f"the secret is given by {settings.source_of('secret')}. Give a new one there (`openssl rand "
            "-hex 32` makes one) and the old one as previous_secret; restart every server, and try again."
        )
    # In this order: after an interruption at any moment, the old secret is still there.
    write_secret(settings.previous_secret_file, secret.decode())
    new = secrets.token_hex(32)
    write_secret(settings.secret_file, new)
    return KeyRing(new.encode(), secret)


def retire_previous_secret(settings: Settings) -> Path | None:
    """Rename the file of the previous secret after its ID, and return it: only backups need it from now on.
    None when that secret is not in a file.
    """
    key_ring = load_key_ring(settings)
    path = settings.previous_secret_file
    if settings.previous_secret is not None or not path.exists():
        return None
    return path.replace(path_of_retired_secret(settings, key_ring.rings[-1].secret_id))


def path_of_retired_secret(settings: Settings, secret_id: str) -> Path:
    """Return the path of the file that keeps the secret with this ID after its rotation."""
    return settings.data_dir / f"secret.retired-{secret_id}"
