"""The sources of settings, in rising precedence: a file, the environment, command-line options."""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, get_args

from annotated_types import Ge, Le
from pydantic import SecretStr, ValidationError

from keywright.config.settings import PREFIX, Settings
from keywright.core.errors import ConfigurationError
from keywright.db import database_path, find_unverified_hosts, without_password
from keywright.db.urls import is_local


def risks(settings: Settings) -> list[str]:
    """Return a sentence about each risky setting, and what to do about it. None of them is an error."""
    risks = []
    for name in ("database_url", "read_database_url"):
        url: str | None = getattr(settings, name)
        if url is not None and database_path(url) is None and (hosts := find_unverified_hosts(url)):
            risks.append(
                f"the connection to {', '.join(hosts)} ({name}) is not protected by verified TLS: anyone "
                "on the network in between can read and change its data. Add sslmode=verify-full and "
                "sslrootcert to the URL."
            )
    server = settings.smtp_server
    if server is not None and not (server.is_encrypted or server.needs_tls or is_local(server.host)):
        risks.append(
            f"mails go to {server.host} without TLS (smtp_tls is none): anyone on the network in between "
            "can read license keys, sign-in codes and the password. Set smtp_tls to auto."
        )
    if not settings.trusted_proxies and not is_local(settings.host):
        risks.append(
            f"the server listens on {settings.host}, and trusted_proxies is empty: behind a proxy, all "
            "callers share the proxy's address, and a single attacker uses up everyone's limits. Add the "
            "proxy to trusted_proxies."
        )
    return risks


#: The default settings files; the first one that exists is read.
DEFAULT_FILES = (Path("keywright.toml"), Path("/etc/keywright/keywright.toml"))
_MASK = "********"
#: Variables with Keywright's prefix that are not settings.
_OTHER_VARIABLES = ("KEYWRIGHT_CONFIG", "KEYWRIGHT_DEBUG")
# Kubernetes sets these variables in other pods for a Service named "keywright".
_FROM_KUBERNETES = re.compile(r"KEYWRIGHT_(SERVICE_\w+|PORT_\d+_\w+)")

#: Values and their sources, by name.
Values = dict[str, tuple[object, str]]


class Setting(NamedTuple):
    """A setting for display: its value in force, masked if it is secret, and the source of the value."""

    name: str
    value: str | int | bool | list[str] | None
    source: str


#: The first words of the paths of pages and documents.
_PATHS_OF_PAGES = frozenset({"admin", "docs", "healthz", "openapi", "problems", "readyz"})


def list_settings(settings: Settings) -> list[Setting]:
    """List every setting, in the order of ``Settings``."""
    return [
        Setting(name, _display_value(settings, name), _source(settings, name))
        for name in Settings.model_fields
    ]


def read_settings(options: Mapping[str, object] | None = None, config_file: Path | None = None) -> Settings:
    """Read the settings from all sources. An option that is None was not given.

    Raises ``ConfigurationError`` for an unknown setting or a bad value in any source.
    """
    return build_settings(_from_file(config_file) | _from_environment() | _from_options(options or {}))


def build_settings(values: Values) -> Settings:
    """Validate values, and build the settings from them. Raises ``ConfigurationError``."""
    try:
        settings = Settings.model_validate({name: value for name, (value, _) in values.items()})
    except ValidationError as problem:
        name = str(problem.errors()[0]["loc"][0])
        raise ConfigurationError(_error_message(name, *values[name])) from None
    settings._sources.update({name: source for name, (_, source) in values.items()})
    _require_credentials(settings)
    _require_sender(settings)
    _require_own_root(settings)
    return settings


def _require_credentials(settings: Settings) -> None:
    for name in ("relay_consumer_key", "relay_consumer_secret"):
        if settings.relay_url is not None and getattr(settings, name) is None:
            raise ConfigurationError(f"relay_url is set, but {name} is not: set both, or neither.")


def _require_sender(settings: Settings) -> None:
    if settings.smtp_url is not None and settings.mail_from is None:
        raise ConfigurationError("smtp_url is set, but mail_from is not: set the sender of mails, too.")


def _require_own_root(settings: Settings) -> None:
    """Raise ``ConfigurationError`` if paths of v3 would collide with other paths."""
    root, v2 = f"{settings.v3_root}/", f"{settings.api_root}/{settings.namespace}/v2/"
    if v2.startswith(root) or root.startswith(v2) or root.partition("/")[0] in _PATHS_OF_PAGES:
        raise ConfigurationError(f"v3_root is {settings.v3_root}, a path that is in use: choose another one.")


def child_environment(settings: Settings) -> dict[str, str]:
    """Return an environment in which ``keywright`` uses the same installation as this process."""
    ours = {
        "data_dir": str(settings.data_dir.absolute()),
        "database_url": settings.database_url,
        "backup_command": settings.backup_command,
    }
    for name, secret in (("secret", settings.secret), ("previous_secret", settings.previous_secret)):
        if secret is not None:
            ours[name] = secret.get_secret_value()
    variables = {f"{PREFIX}{name.upper()}": value for name, value in ours.items() if value is not None}
    return {**os.environ, **variables}


def is_debugging() -> bool:
    """Return whether unexpected errors are shown with their details (``KEYWRIGHT_DEBUG=1``)."""
    return os.environ.get("KEYWRIGHT_DEBUG", "") not in ("", "0")


def _from_options(options: Mapping[str, object]) -> Values:
    return {
        name: (value, f"--{name.replace('_', '-')}") for name, value in options.items() if value is not None
    }


def _from_environment() -> Values:
    known = {f"{PREFIX}{name.upper()}": name for name in Settings.model_fields}
    given = {variable.upper(): value for variable, value in os.environ.items()}
    for variable in given:
        is_ours = variable.startswith(PREFIX) and not _FROM_KUBERNETES.fullmatch(variable)
        if is_ours and variable not in known and variable not in _OTHER_VARIABLES:
            raise ConfigurationError(
                f"the environment variable {variable} is not a setting of Keywright. "
                f"{_hint(variable, known)} Correct it, or unset it."
            )
    if given.get(f"{PREFIX}PORT", "").startswith("tcp://"):
        del given[f"{PREFIX}PORT"]  # Kubernetes again.
    return {name: (given[variable], variable) for variable, name in known.items() if variable in given}


def _from_file(config_file: Path | None) -> Values:
    variable = os.environ.get("KEYWRIGHT_CONFIG")
    named = config_file or (Path(variable) if variable else None)
    for path in DEFAULT_FILES if named is None else (named,):
        with suppress(FileNotFoundError):
            return _values_of(path, _read_toml(path))
    if named is None:
        return {}
    source = "KEYWRIGHT_CONFIG" if config_file is None else "--config"
    raise ConfigurationError(
        f"there is no settings file {named} (from {source}). Create it, or name another."
    )


def _values_of(path: Path, values: Mapping[str, object]) -> Values:
    for name in values:
        if name not in Settings.model_fields:
            raise ConfigurationError(
                f"{name!r} in {path} is not a setting of Keywright. {_hint(name, Settings.model_fields)}"
            )
    return {name: (value, str(path)) for name, value in values.items()}


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except PermissionError:
        raise ConfigurationError(
            f"no permission to read the settings file {path}. Run this command as the server's user (such "
            "as `sudo -u keywright`), or name another file with --config."
        ) from None
    except OSError as problem:
        raise ConfigurationError(f"the settings file {path} cannot be read: {problem.strerror}.") from problem
    except ValueError as problem:
        raise ConfigurationError(f"{path} is not valid TOML: {problem}. Correct the file.") from None


def _hint(name: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"Did you mean {nearest[0]}?" if nearest else "`keywright config` lists the settings."


def _error_message(name: str, value: object, source: str) -> str:
    """Build the error message for a bad value; the value of a secret is left out."""
    is_secret = SecretStr in get_args(Settings.model_fields[name].annotation)
    assignment = "" if is_secret else f" = {_format(name, value)}"
    return f"{name}{assignment} (from {source}) cannot be used: it must be {describe_values(name)}."


def _format(name: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if name.endswith("database_url"):
        text = without_password(text)
    return text if re.fullmatch(r"[\w.:/+-]+", text) else repr(text)


def describe_values(name: str) -> str:
    """Return the end of the sentence "it must be …" about a setting."""
    field = Settings.model_fields[name]
    if isinstance(field.json_schema_extra, dict) and "allowed" in field.json_schema_extra:
        return str(field.json_schema_extra["allowed"])
    if field.annotation is int:
        least = next((one.ge for one in field.metadata if isinstance(one, Ge)), 0)
        most = next((one.le for one in field.metadata if isinstance(one, Le)), None)
        return f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
    *others, last = ("true", "false") if field.annotation is bool else get_args(field.annotation)
    return f"{', '.join(others)} or {last}"


def _source(settings: Settings, name: str) -> str:
    file = _file_of(settings, name)
    if file is not None and getattr(settings, name) is None and file.exists():
        return str(file)
    return settings.source_of(name)


def _file_of(settings: Settings, name: str) -> Path | None:
    """Return the file that contains a secret if the setting is missing; None for other settings."""
    files = {"secret": settings.secret_file, "previous_secret": settings.previous_secret_file}
    return files.get(name)


def _display_value(settings: Settings, name: str) -> str | int | bool | list[str] | None:
    value = getattr(settings, name)
    if name == "database_url":
        return without_password(settings.database_url_in_force)
    if name == "read_database_url" and settings.read_database_url is not None:
        return without_password(settings.read_database_url)
    file = _file_of(settings, name)
    if isinstance(value, SecretStr) or (file is not None and file.exists()):
        return _MASK
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return value if value is None or isinstance(value, int) else str(value)
