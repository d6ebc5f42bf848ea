"""Keywright for a program: is its license valid, with the server or without it."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from . import _device
from ._deadline import bounded, deadline
from ._http import Server
from ._kept import Kept, Store, default_folder
from ._lease import Lease
from .errors import KeywrightError, Refused, StorageError, Unreachable, VerificationError
from .status import Status, build_status, is_verdict, parse_time, state_of
from .verify import TOLERANCE, Trust, encode, follow_key_sets, key_id, require_in_time, unarmour, verify

_SIGNED, _JSON = "application/jwt, application/problem+json", "application/json"
#: In seconds: after an outage, a kept answer is used this long without asking again.
_PAUSE = 300
#: What an answer or a file that does not verify is told as; ``tampered`` for the other reasons.
_STATE_OF_REASON = dict.fromkeys(("device", "license_key", "audience", "issuer"), "not_activated")
_STATE_OF_REASON.update(expired="expired", not_yet_valid="clock_moved_back", build="unreachable_too_long")
Claims = dict[str, Any]


class Keywright:
    """The license of one program on this device. It may be used from several threads and processes.

    ``public_keys``: those of the server, base64url. ``folder``: where to keep what is kept; the platform's
    place by default, named after the product. ``built_at``: like 2026-11-22T08:54:00Z, for licenses that
    cover older versions. ``issuer``: the ``iss`` that answers must have. ``timeout``: of a whole call, in
    seconds. ``named_by``: whether KEYWRIGHT_FINGERPRINT in the environment is part of the device's name
    (``machine+environment``), or all of it (``environment``). ``clock`` gives seconds since 1970.
    """

    def __init__(
        self,
        url: str,
        *,
        public_keys: list[str],
        product: str | None = None,
        app_version: str | None = None,
        built_at: str | None = None,
        issuer: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        timeout: float = 10.0,
        ca_file: str | None = None,
        named_by: str = "machine",
        clock: Callable[[], float] = time.time,
    ) -> None:
        for key in public_keys:
            key_id(key)
        if built_at is not None and not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", built_at):
            raise ValueError("built_at is written such as 2026-11-22T08:54:00Z.")
        if named_by not in _device.NAMED_BY:
            raise ValueError(f"named_by is one of {', '.join(_device.NAMED_BY)}.")
        name = re.sub(r"[^\w-]", "_", product or "license")
        # Not after the server: it may move. Without a product, the vendor's key keeps programs apart.
        own = name if product or not public_keys else key_id(public_keys[0])
        self._store = Store(default_folder(own) if folder is None else os.fspath(folder), name)
        self._server = Server(url, ca_file, f"keywright-client-python/1 {name}/{app_version or '-'}")
        self._timeout, self._named_by = timeout, named_by
        self._pinned, self._product, self._issuer, self._clock = tuple(public_keys), product, issuer, clock
        self._build = {"product": product, "app_version": app_version, "built_at": built_at}
        self._version = f"{app_version}|{built_at}"
        self._leases: list[Lease] = []
        #: Why nothing was activated, for the next check.
        self._refused: Refused | None = None

    @property
    @bounded
    def fingerprint(self) -> str:
        """What names this device to the server. Raises StorageError where it would be another next time."""
        device = self._device(self._store.read())
        if device.source.startswith("installation") and (trouble := self._store.read().trouble):
            raise StorageError(trouble, "no_storage")
        return device.fingerprint

    @bounded
    def check(self, *, now: bool = False) -> Status:
        """Whether the program may run. Asks the server when it is time, or ``now``; else uses what is kept.

        It raises nothing, and returns within the time-out, whatever the server does.
        """
        kept = self._store.read()
        status, is_due = self._judge(kept)
        if not kept.license_key or not (now or is_due):
            return status
        if status.valid and not now and self._clock() < kept.retry_at <= self._clock() + 2 * _PAUSE:
            return self._judge(kept, "The license server could not be reached a moment ago.")[0]
        if kept.source not in ("", self._device(kept).source):
            return self.activate(kept.license_key)
        return self._check_online(kept, status)

    @bounded
    def activate(self, license_key: str, **details: Any) -> Status:
        """Take a place for this device, and keep the answer. ``details``: ``name``, ``metadata``,
        ``remove`` (the ``id`` of one of the status's ``devices``, which gives its place on a full license).

        A refusal changes nothing that is kept. It never raises for a license that cannot be activated. Where
        nothing can be kept, no place is taken: it would be another one at each start.
        """
        kept = self._store.change(lambda kept: kept, is_trial=True)
        if kept.trouble:
            return build_status("no_storage", None, kept.trouble)
        license_key = license_key.strip()
        device = self._device(kept)
        is_same = license_key == kept.license_key
        if kept.fingerprint and is_same and kept.source != device.source:
            details["replaces"] = kept.fingerprint
        try:
            answer, claims = self._ask("/v3/activate", license_key, platform=sys.platform, **details)
        except Refused as error:
            self._refused = error
            return build_status(state_of({"code": error.code}), error)
        except Unreachable as error:
            if is_same and kept.answer:
                return self._judge(kept, str(error))[0]
            return build_status("not_activated", error, is_offline=True)
        except VerificationError as error:
            return build_status("tampered", error)
        self._refused = None
        self._keep_answer(answer, claims, license_key, True, license_key=license_key, **device._asdict())
        return build_status(state_of(claims), claims)

    @bounded
    def start_trial(self, **details: Any) -> Status:
        """Start this device's trial of the product, or get the one that it has; keep it as ``activate`` does.

        ``details``: ``policy`` (its number, where the product has several for trials), ``email``, ``name``. A
        refusal (``trial_used`` …) changes nothing that is kept, and raises nothing.
        """
        kept = self._store.change(lambda kept: kept, is_trial=True)
        if kept.trouble:
            return build_status("no_storage", None, kept.trouble)
        body = {"fingerprint": self._device(kept).fingerprint, "platform": sys.platform, **self._build}
        try:
            license_key = self._call("/v3/trials", {**body, **details}, "license").get("key", "")
        except Refused as error:
            self._refused = error
            return build_status(state_of({"code": error.code}), error)
        except Unreachable as error:
            return build_status("not_activated", error, is_offline=True)
        return self.activate(str(license_key))

    @bounded
    def load_file(self, text: str, license_key: str | None = None) -> Status:
        """Keep a license file: for a device without a network. A file that is not good changes nothing."""
        kept = self._store.change(lambda kept: kept, is_trial=True)
        if kept.trouble:
            return build_status("no_storage", None, kept.trouble)
        license_key = license_key or kept.license_key
        try:
            claims = self._verify(text, license_key, self._trust(kept).keys, now=self._clock())
        except VerificationError as error:
            return build_status(_STATE_OF_REASON.get(error.code, "tampered"), error)
        if not claims["valid"]:
            return build_status(state_of(claims), claims)
        # The same file again must not set the time back.
        latest = claims["iat"] if claims["iat"] > kept.issued_at else kept.latest
        fields = {**self._device(kept)._asdict(), "license_key": license_key, "latest": latest}
        is_other = license_key != kept.license_key
        return self._judge(self._keep_answer(unarmour(text), claims, kept.license_key, is_other, **fields))[0]

    def request_text(self, license_key: str, name: str | None = None) -> str:
        """What the user pastes into the server's page /offline, on another computer, for a license file.

        Raises StorageError as ``fingerprint`` does.
        """
        request = {"license_key": license_key.strip(), "fingerprint": self.fingerprint, "name": name}
        return "keywright-request:" + encode(json.dumps({**request, **self._build}).encode())

    @bounded
    def deactivate(self) -> None:
        """Give the place up, and forget the license. Raises Refused and Unreachable: nothing has changed."""
        kept = self._store.read()
        try:
            self._server.call("/v3/deactivate", _encode(self._body(kept, kept.license_key)), _JSON)
        except Refused as error:
            if error.status != 404:
                raise
        self._store.change(lambda kept: kept._replace(license_key="", answer="", issued_at=0))

    @bounded
    def use(self, meter: str, amount: int = 1) -> dict[str, Any]:
        """Count usage: ``meter``, ``used``, ``limit``, ``resets_at``. Raises Refused, and Unreachable."""
        kept = self._store.read()
        body = {**self._body(kept, kept.license_key), "meter": meter, "amount": amount}
        return self._call("/v3/usage", body)

    def lease(
        self, holder: str | None = None, seconds: int | None = None, license_key: str | None = None
    ) -> Lease:
        """A floating license for the length of a ``with``: renewed in the background, released at its end.

        ``license_key`` is needed where nothing was activated. Entering raises Refused (``no_free_lease`` …),
        Unreachable or VerificationError.
        """
        key = license_key or self._store.read().license_key

        def call(path: str, **request: Any) -> Claims:
            with deadline(self._timeout):
                if path.endswith("/release"):
                    self._server.call(path, _encode({"license_key": key, **request}), _JSON, attempts=1)
                    return {}
                return self._ask(path, key, **request)[1]

        return Lease(call, self._leases, holder, seconds, key)

    def _call(self, path: str, body: dict[str, Any], member: str = "") -> dict[str, Any]:
        """An answer that is not signed, or this object in it."""
        try:
            found = json.loads(self._server.call(path, _encode(body), _JSON))
            return dict(found[member] if member else found)
        except (ValueError, TypeError, LookupError, RecursionError):
            raise Unreachable("What answers is no Keywright server.", "unreachable") from None

    def _check_online(self, kept: Kept, before: Status) -> Status:
        held = [one.id for one in self._leases if one.is_held and one.license_key == kept.license_key]
        lease_id = held[-1] if held else None
        try:
            answer, claims = self._ask(
                "/v3/validate", kept.license_key, 1 if before.valid else 3, lease_id=lease_id
            )
            unknown = ("clock_moved_back", "unreachable_too_long", "no_storage")
            said_yes = before.valid or before.state in unknown
            if said_yes and is_verdict(claims) and not claims["valid"]:
                # Before it destroys what is kept, a "no" is asked again.
                answer, claims = self._ask("/v3/validate", kept.license_key, lease_id=lease_id)
        except (Unreachable, Refused) as error:
            pause = max(_PAUSE, error.retry_after)
            self._store.change(lambda found: found._replace(retry_at=self._clock() + min(pause, 2 * _PAUSE)))
            return self._judge(kept, str(error))[0]
        except VerificationError as error:
            if before.valid:
                return self._judge(kept, f"The answer cannot be believed. {error}")[0]
            return build_status("tampered", error)
        if len((trust := self._trust(self._store.read())).keys) > 1:
            # One of them may have been withdrawn since.
            self._learn_keys(trust)
        if not is_verdict(claims):
            return build_status(state_of(claims), claims)
        now_kept = self._keep_answer(answer, claims, kept.license_key)
        if now_kept.answer != answer:
            return self._judge(now_kept)[0]
        return build_status(state_of(claims), claims, now_kept.trouble)

    def _ask(self, path: str, license_key: str, attempts: int = 3, **more: Any) -> tuple[str, Claims]:
        """A signed answer and its claims. The nonce that it carries proves that it was made just now."""
        kept, nonce = self._store.read(), os.urandom(16).hex()
        body = _encode({**self._body(kept, license_key), **more, "nonce": nonce})
        answer = self._server.call(path, body, _SIGNED, attempts).strip()
        if answer.count(".") != 2 or answer[0] in "{<":
            raise Unreachable("What answers is no Keywright server that signs.", "unreachable")
        trust = self._trust(kept)
        # A floating license needs no place: such an answer may name no device, and is never kept.
        asked = {"nonce": nonce, "operation": path[len("/v3/") :], "body": body}
        expected = {**asked, "is_place_needed": not path.startswith("/v3/leases")}
        try:
            return answer, self._verify(answer, license_key, trust.keys, **expected)
        except VerificationError as error:
            newer = self._learn_keys(trust) if error.code == "header" else trust
            if newer == trust:
                raise
        return answer, self._verify(answer, license_key, newer.keys, **expected)

    def _verify(self, text: str, license_key: str, keys: tuple[str, ...], **more: Any) -> Claims:
        """``now`` is left out for an answer to a nonce just sent: it brings the server's time with it."""
        fingerprint = self._device(self._store.read()).fingerprint
        device = {"fingerprint": fingerprint, "license_key": license_key or None}
        program = {"product": self._product, "issuer": self._issuer, "built_at": self._build["built_at"]}
        return verify(text, public_keys=keys, **{"now": None, **program, **device, **more})

    def _trust(self, kept: Kept) -> Trust:
        # A set that was believed once goes on being believed after its end.
        return follow_key_sets(Trust(self._pinned), kept.key_sets, float("-inf"))

    def _learn_keys(self, trust: Trust) -> Trust:
        """The keys that the server names now, where trusted ones have signed them; they are kept."""
        try:
            sets = json.loads(self._server.call("/v3/signing-keys", None, _JSON, 2))["keys"]
            newer = follow_key_sets(trust, [text for text in sets if isinstance(text, str)], self._clock())
        except (KeywrightError, ValueError, TypeError, KeyError, RecursionError):
            return trust
        if set(newer.keys) != set(trust.keys):
            self._store.change(lambda kept: kept._replace(key_sets=newer.sets))
        return newer

    def _judge(self, kept: Kept, outage: str = "") -> tuple[Status, bool]:
        """What the kept answer says at this moment, and whether it is time to ask the server."""
        now, offline = self._clock(), bool(outage)
        if kept.trouble and not kept.answer:
            return build_status("no_storage", None, kept.trouble, offline), True
        if kept.is_damaged or not kept.answer:
            sentence = "" if self._refused else "No license was activated."
            empty = ("not_activated", self._refused, sentence)
            damaged = ("tampered", None, "What was kept is damaged: activate again.")
            return build_status(*(damaged if kept.is_damaged else empty), offline), True
        try:
            claims = self._verify(kept.answer, kept.license_key, self._trust(kept).keys)
        except VerificationError as error:
            return build_status(_STATE_OF_REASON.get(error.code, "tampered"), error, is_offline=offline), True
        state, detail = self._state_at(now, kept, claims, offline)
        asks_again = parse_time(claims.get("next_check_at"))
        is_due = state not in ("valid", "grace") or kept.version != self._version
        is_due = is_due or asks_again is None or now >= asks_again.timestamp()
        is_told = state == "no_storage" or not outage
        return build_status(state, claims, detail if is_told else outage, offline), is_due

    def _state_at(self, now: float, kept: Kept, claims: Claims, is_offline: bool) -> tuple[str, str]:
        if not claims["valid"]:
            return state_of(claims), ""
        if now < max(claims["iat"], kept.latest) - TOLERANCE:
            return "clock_moved_back", "This computer's clock is behind a time that was seen before."
        try:
            require_in_time(claims, now)
        except VerificationError as error:
            view = claims.get("license") or {}
            end = parse_time(view.get("grace_until") or view.get("expires_at"))
            is_over = end is not None and now >= end.timestamp()
            return "expired" if is_over else "unreachable_too_long", str(error)
        if now > kept.latest + 60:
            later = self._store.change(lambda found: found._replace(latest=max(found.latest, now)))
            if later.trouble:
                # Else a clock that is set back again and again would make the answer last for ever.
                return "no_storage", later.trouble
        return ("unreachable_but_valid_until" if is_offline else state_of(claims)), ""

    def _keep_answer(
        self, answer: str, claims: Claims, asked_for: str, is_chosen: bool = False, **fields: Any
    ) -> Kept:
        """Keep an answer, unless a newer one, or another license, was kept meanwhile."""

        def decide(kept: Kept) -> Kept:
            if not is_chosen and (kept.license_key != asked_for or kept.issued_at > claims["iat"]):
                return kept
            new = {"answer": answer, "issued_at": claims["iat"], "latest": claims["iat"], "retry_at": 0}
            return kept._replace(**{**new, "version": self._version, "is_damaged": False, **fields})

        return self._store.change(decide)

    def _body(self, kept: Kept, license_key: str) -> dict[str, Any]:
        return {"license_key": license_key, "fingerprint": self._device(kept).fingerprint, **self._build}

    def _device(self, kept: Kept) -> _device.Device:
        if not kept.installation_id:
            new = os.urandom(16).hex()
            kept = self._store.change(lambda one: one._replace(installation_id=one.installation_id or new))
        return _device.identify(self._product or "", kept.installation_id, self._named_by)


def _encode(body: Claims) -> bytes:
    """The bytes of a request: those that the answer has to name."""
    return json.dumps({name: value for name, value in body.items() if value is not None}).encode()
