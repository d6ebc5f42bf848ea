"""The fingerprint of this device: an HMAC that tells nothing of the machine, another for each product."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

#: Ids that stand in images which many machines are made from.
_KNOWN_DEFAULTS = frozenset({"0" * 32, "f" * 32, "b08dfa6083e7567a1921a715000001fb"})
#: The source where the machine has no id of its own.
INSTALLATION = "installation-1"
_IN_CONTAINERS = ("/.dockerenv", "/run/.containerenv")


class Device(NamedTuple):
    """``source`` says how the fingerprint was made, so that a later way can name what it replaces."""

    fingerprint: str
    source: str


def identify(
    product: str, installation_id: str, environ: Mapping[str, str] = os.environ, root: str = "/"
) -> Device:
    """The device that this runs on. Where the machine has no id of its own, the installation's is part of it.

    KEYWRIGHT_FINGERPRINT in the environment takes the place of both.
    """
    if given := environ.get("KEYWRIGHT_FINGERPRINT"):
        return Device(given, "environment")
    machine_id, source = _machine_id(root)
    if not machine_id or machine_id in _KNOWN_DEFAULTS or _is_container(environ, root):
        machine_id, source = f"{machine_id}/{installation_id}", INSTALLATION
    message = f"keywright-fingerprint:{product}".encode()
    return Device(hmac.new(machine_id.encode(), message, hashlib.sha256).hexdigest(), source)


def _machine_id(root: str) -> tuple[str, str]:
    """The id that the operating system keeps, in small letters; empty where there is none."""
    readers: dict[str, Callable[[], str]] = {"darwin": _platform_uuid, "win32": _machine_guid}
    try:
        found = readers[sys.platform]() if sys.platform in readers else _from_file(root)
    except (OSError, AttributeError, ValueError):
        found = ""
    found = found.strip().lower()
    return (found if re.fullmatch("[0-9a-f-]{32,36}", found) else ""), f"{sys.platform}-1"


def _from_file(root: str) -> str:
    for path in ("etc/machine-id", "var/lib/dbus/machine-id", "etc/hostid"):
        try:
            with open(os.path.join(root, path), encoding="ascii") as file:
                return file.read(100)
        except FileNotFoundError:
            continue
    return ""


def _is_container(environ: Mapping[str, str], root: str) -> bool:
    if "container" in environ or "KUBERNETES_SERVICE_HOST" in environ:
        return True
    return any(os.path.exists(os.path.join(root, path.lstrip("/"))) for path in _IN_CONTAINERS)


def _machine_guid() -> str:
    import winreg

    registry: Any = winreg
    access = registry.KEY_READ | registry.KEY_WOW64_64KEY
    path = r"SOFTWARE\Microsoft\Cryptography"
    with registry.OpenKey(registry.HKEY_LOCAL_MACHINE, path, 0, access) as key:
        return str(registry.QueryValueEx(key, "MachineGuid")[0])


def _platform_uuid() -> str:
    """IOPlatformUUID, asked of IOKit without starting a program."""
    import ctypes

    kit = ctypes.CDLL("/System/Library/Frameworks/IOKit.framework/IOKit")
    core = ctypes.CDLL("/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation")
    kit.IOServiceMatching.restype = core.CFStringCreateWithCString.restype = ctypes.c_void_p
    kit.IORegistryEntryCreateCFProperty.restype = ctypes.c_void_p
    pointer, utf8 = ctypes.c_void_p, 0x08000100
    name = pointer(core.CFStringCreateWithCString(None, b"IOPlatformUUID", utf8))
    matching = pointer(kit.IOServiceMatching(b"IOPlatformExpertDevice"))
    service = kit.IOServiceGetMatchingService(0, matching)
    value = pointer(kit.IORegistryEntryCreateCFProperty(service, name, None, 0))
    text = ctypes.create_string_buffer(64)
    found = bool(value) and core.CFStringGetCString(value, text, ctypes.c_long(64), utf8)
    return text.value.decode() if found else ""
