"""The fingerprint of this device: an HMAC that tells nothing of the machine, another for each product."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

#: Ids that stand in images which many machines are made from.
_KNOWN_DEFAULTS = frozenset({"0" * 32, "f" * 32, "b08dfa6083e7567a1921a715000001fb"})
_OF_CONTAINERS = (".dockerenv", "run/.containerenv")


#: Whether KEYWRIGHT_FINGERPRINT in the environment counts: not, beside the machine's mark, or in its place.
NAMED_BY = ("machine", "machine+environment", "environment")


class Device(NamedTuple):
    """``source`` says how the fingerprint was made, so that a later way can name what it replaces."""

    fingerprint: str
    source: str


def identify(
    product: str,
    installation_id: str,
    named_by: str = "machine",
    environ: Mapping[str, str] = os.environ,
    root: str = "/",
) -> Device:
    """The device that this runs on. Where the machine has no id of its own, the installation's is part of it.

    ``named_by`` is one of ``NAMED_BY``.
    """
    given = "" if named_by == "machine" else environ.get("KEYWRIGHT_FINGERPRINT", "")
    if given and named_by == "environment":
        return Device(given, "environment")
    machine_id, source = _machine_id(root), f"{sys.platform}-1"
    is_container = "container" in environ or "KUBERNETES_SERVICE_HOST" in environ
    is_container = is_container or any(os.path.exists(os.path.join(root, one)) for one in _OF_CONTAINERS)
    if not machine_id or machine_id in _KNOWN_DEFAULTS or is_container:
        machine_id, source = f"{machine_id}/{installation_id}", "installation-1"
    message = f"keywright-fingerprint:{product}".encode()
    if given:
        message, source = b"%b\n%b" % (message, given.encode(errors="replace")), f"{source}+environment"
    return Device(hmac.new(machine_id.encode(), message, hashlib.sha256).hexdigest(), source)


def _machine_id(root: str) -> str:
    """The id that the operating system keeps, in small letters; empty where there is none."""
    found = ""
    with suppress(OSError, AttributeError, ValueError):
        if sys.platform == "darwin":
            found = _platform_uuid()
        elif sys.platform == "win32":
            found = _machine_guid()
        else:
            with open(os.path.join(root, "etc/machine-id"), encoding="ascii") as file:
                found = file.read(100)
    found = found.strip().lower()
    return found if re.fullmatch("[0-9a-f-]{32,36}", found) else ""


def _machine_guid() -> str:
    import winreg

    registry: Any = winreg
    path, access = r"SOFTWARE\Microsoft\Cryptography", registry.KEY_READ | registry.KEY_WOW64_64KEY
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
