"""The files of the two secrets while the secret is rotated."""

import secrets
from pathlib import Path

from keywright.config.installation import find_secret, load_key_ring, with_previous_secret, write_secret
from keywright.config.settings import Settings
from keywright.core.crypto import KeyRing
from keywright.core.errors import ConfigurationError


def take_new_secret(settings: Settings) -> KeyRing:
    """The new secret and the previous one: those that are there; where there is one only, a new one is made,
    and the other is kept beside it.

    Raises ``ConfigurationError`` when the secret is a setting, for that is not ours to change.
    """
    # Without a look into the database, which is locked meanwhile.
    secret = find_secret(settings)
    if secret is None:
        raise ConfigurationError(f"{settings.secret_file} is missing: there is no secret to rotate.")
    key_ring = with_previous_secret(settings, secret)
    if len(key_ring.rings) > 1:
        return key_ring
    if settings.secret is not None:
        raise ConfigurationError(
            f"the secret is given by {settings.source_of('secret')}. Give a new one there (`openssl rand "
            "-hex 32` makes one) and the old one as previous_secret; restart every server, and try again."
        )
    # In this order: whenever this is broken off, the old one is there.
    write_secret(settings.previous_secret_file, secret.decode())
    new = secrets.token_hex(32)
    write_secret(settings.secret_file, new)
    return KeyRing(new.encode(), secret)


def retire_previous_secret(settings: Settings) -> Path | None:
    """Put the file of the previous secret aside, under a name that says which secret it is: nothing but
    backups needs it any more. None where it is no file.
    """
    key_ring = load_key_ring(settings)
    path = settings.previous_secret_file
    if settings.previous_secret is not None or not path.exists():
        return None
    return path.replace(retired_secret_file(settings, key_ring.rings[-1].secret_mark))


def retired_secret_file(settings: Settings, secret_mark: str) -> Path:
    """The file that keeps the secret with this mark after its rotation."""
    return settings.data_dir / f"secret.retired-{secret_mark}"
