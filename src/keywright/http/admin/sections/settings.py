"""Settings that administrators change, stored in the database; the environment and files take precedence."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin
from urllib.parse import quote

from starlette.responses import Response

from keywright.background.mailer import send_test_mail
from keywright.config import Settings
from keywright.config.groups import SmtpServer
from keywright.config.stored import LABELS, apply, choose_usable, find_wrong, is_fixed, is_secret, layer
from keywright.core.errors import ConfigurationError, NoSuchAddress
from keywright.db.stored_settings import list_stored
from keywright.delivery.mail.defaults import choose_language
from keywright.delivery.mail.model import Fate
from keywright.http.admin import company
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import Form
from keywright.http.pages.page import Section, page
from keywright.http.pages.render import BASE
from keywright.http.pages.request import PageRequest
from keywright.identity import oidc
from keywright.identity.model import Right
from keywright.maintenance.tasks import SaveSettings

#: The groups of settings: the title of each and the settings, in the order of the page.
_GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "address": (N_("Address and time"), ("public_url", "time_zone", "customer_link", "security_contact")),
    "mail": (N_("Mails"), ("mail_from", "mail_language", "keep_mails_days")),
    "sign-in": (N_("User sign-in"), ("session_hours", "session_idle_minutes", "require_second_factor")),
    "company": (
        N_("Sign-in with your company's accounts"),
        (
            "oidc_issuer",
            "oidc_client_id",
            "oidc_client_secret",
            "oidc_scopes",
            "oidc_roles_claim",
            "oidc_administrators",
            "oidc_support",
            "oidc_readers",
            "oidc_check_minutes",
        ),
    ),
    "portal": (N_("Portal"), ("portal",)),
    "backups": (N_("Backups"), ("backup_daily_at", "backup_keep")),
    "notices": (N_("Expiry notices"), ("expiry_notice_days", "expiry_mails")),
    "retention": (
        N_("Data retention"),
        (
            "keep_deleted_days",
            "keep_events_days",
            "keep_shop_events_days",
            "keep_usage_days",
            "keep_notices_days",
            "keep_addresses_days",
        ),
    ),
    "start": (N_("First steps"), ("getting_started",)),
}
#: The labels of choices; languages are shown by name.
_CHOICES = {
    "none": N_("nobody"),
    "administrators": N_("administrators"),
    "all": N_("all users"),
}
_ENCRYPTIONS = {"starttls": N_("STARTTLS"), "tls": N_("TLS from the start"), "none": N_("none")}


class SettingField(NamedTuple):
    """A setting in a form. ``source`` is where it is set, if it cannot be changed in the form."""

    name: str
    label: str
    value: str
    help: str
    is_check: bool
    is_number: bool
    is_secret: bool
    options: list[tuple[str, str]] | None
    source: str | None


class SettingsPages(Section):
    """The settings, in groups that are saved separately."""

    label = N_("Settings")
    path = "/settings"
    group = N_("Settings")
    icon = "sliders"
    right = Right.ADMINISTER

    @page("")
    def show(self, request: PageRequest) -> Response:
        """Every group."""
        return self._render(request, "", {}, {})

    @page("/{group}", methods=("POST",))
    def save(self, request: PageRequest) -> Response:
        """Save a group; if the form asks for it, send a test mail."""
        group, settings = request.path_params["group"], self.site.settings
        if group not in _GROUPS:
            raise NoSuchAddress
        stored = request.ask(list_stored)
        apply(settings, stored)
        texts, errors = _read(request.form, settings, group, stored)
        if group == "mail" and not is_fixed(settings, "smtp_url"):
            texts |= _read_mail_server(request.form, settings, errors)
            if find_wrong({"smtp_url": texts["smtp_url"] or "smtp://localhost"}):
                texts["smtp_url"] = None
                errors["smtp_host"] = _(
                    "It must be a server such as smtp.example.com, with a number as the port."
                )
        changes = {name: _to_stored(name, text, errors) for name, text in texts.items()}
        if group in _CHECKED_TOGETHER:
            _CHECKED_TOGETHER[group](request, stored | changes, errors)
        if "test" in request.form and not request.form.get("to", ""):
            errors["to"] = _("This field is required.")
        if errors:
            return self._render(request, group, texts, errors)
        request.change(SaveSettings(context=request.context, changes=changes))
        apply(settings, request.ask(list_stored))
        if "test" in request.form:
            return self._send_test_mail(request, request.form.get("to", ""))
        return request.redirect(
            f"/settings#{group}", _("Saved. Every server uses the new settings within seconds.")
        )

    def _send_test_mail(self, request: PageRequest, address: str) -> Response:
        settings = self.site.settings
        with request.release_lock():
            try:
                outcome = send_test_mail(settings, address, request.now)
            except ValueError:
                reason: str | None = _("No mail can be sent to this address.")
            else:
                reason = None if outcome.fate is Fate.SENT else outcome.reason
        if reason is not None:
            message = _("The test mail was not sent. %(reason)s", reason=reason)
            return request.redirect("/settings#mail", message, is_error=True)
        host = "" if settings.smtp_server is None else settings.smtp_server.host
        message = _("%(server)s accepted the test mail to %(address)s.", server=host, address=address)
        return request.redirect("/settings#mail", message)

    def _render(
        self, request: PageRequest, sent: str, texts: Mapping[str, str | None], errors: Mapping[str, str]
    ) -> Response:
        settings = self.site.settings
        apply(settings, request.ask(list_stored))
        groups = [
            (name, _(title), [_field(settings, one, texts) for one in names])
            for name, (title, names) in _GROUPS.items()
        ]
        return request.render(
            "settings.html",
            groups=groups,
            sent=sent,
            errors=errors,
            server=_mail_server_values(request.form if sent == "mail" else None, settings.smtp_server),
            encryptions=[(value, _(text)) for value, text in _ENCRYPTIONS.items()],
            server_source=settings.source_of("smtp_url") if is_fixed(settings, "smtp_url") else None,
            has_password=settings.smtp_server is not None and settings.smtp_server.password is not None,
            to=request.form.get("to", "") or request.user.email,
            callback=f"{request.base_url}{BASE}{company.CALLBACK}",
            has_client_secret=settings.oidc_client_secret is not None,
        )


def _field(settings: Settings, name: str, texts: Mapping[str, str | None]) -> SettingField:
    declared = Settings.model_fields[name]
    kind = declared.annotation
    is_choice = get_origin(kind) is Literal
    return SettingField(
        name,
        _(LABELS[name]),
        ""
        if is_secret(name)
        else texts.get(name) or ""
        if name in texts
        else _write(getattr(settings, name)),
        _(str(declared.description)),
        kind is bool,
        kind is int,
        is_secret(name),
        [(one, _write_choice(one)) for one in get_args(kind)] if is_choice else None,
        settings.source_of(name) if is_fixed(settings, name) else None,
    )


def _write_choice(value: str) -> str:
    return _(_CHOICES[value]) if value in _CHOICES else choose_language(value, "en").name


def _write(value: Any) -> str:
    """A value in the format of environment variables."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _read(
    form: Form, settings: Settings, group: str, stored: Mapping[str, str]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """The texts of those settings of a group that can be changed, and an empty mapping for errors."""
    names = [name for name in _GROUPS[group][1] if not is_fixed(settings, name)]
    checks = {name for name in names if Settings.model_fields[name].annotation is bool}
    texts = {name: _write(name in form) if name in checks else form.get(name, "") for name in names}
    if "oidc_client_secret" in texts:
        texts["oidc_client_secret"] = _read_client_secret(form, settings, stored)
    return dict(texts), {}


def _to_stored(name: str, text: str | None, errors: dict[str, str]) -> str | None:
    """The text to store for a setting; None for the default. Adds to ``errors`` if it is invalid."""
    if text is None or text == _write(Settings.model_fields[name].default):
        return None
    must_be = find_wrong({name: text}).get(name)
    if must_be is not None and text:
        errors[name] = _("It must be %(what)s.", what=_(must_be))
    return None if must_be is not None else text


def _require_sender(request: PageRequest, texts: Mapping[str, str | None], errors: dict[str, str]) -> None:
    """Add an error if there is a mail server without a sender. Each value was validated before; invalid
    values of other groups do not prevent saving this one.
    """
    after = {name: text for name, text in texts.items() if text is not None}
    try:
        layer(request.site.settings, choose_usable(after))
    except ConfigurationError:
        errors.setdefault("mail_from", _("This field is required."))


def _require_provider(request: PageRequest, texts: Mapping[str, str | None], errors: dict[str, str]) -> None:
    """Add errors if there is a provider without a client, or one that does not answer."""
    before = request.site.settings
    issuer = before.oidc_issuer if is_fixed(before, "oidc_issuer") else texts.get("oidc_issuer")
    client = before.oidc_client_id if is_fixed(before, "oidc_client_id") else texts.get("oidc_client_id")
    if issuer is None or errors:
        return
    if client is None:
        errors["oidc_client_id"] = _("This field is required.")
    try:
        with request.release_lock():
            oidc.Client().discover(issuer)
    except oidc.NotBelieved as problem:
        errors["oidc_issuer"] = _("The provider cannot be used: %(reason)s.", reason=str(problem))


_CHECKED_TOGETHER = {"mail": _require_sender, "company": _require_provider}


def _read_mail_server(form: Form, settings: Settings, errors: dict[str, str]) -> dict[str, str | None]:
    """The texts of ``smtp_url`` and ``smtp_tls``. The stored password is kept only if server, port, user and
    encryption are unchanged, so that no other server receives it.
    """
    values, before = _mail_server_values(form, None), settings.smtp_server
    host, user, password = values["host"], values["user"], form.raw("smtp_password")
    if not host:
        return {"smtp_url": None, "smtp_tls": None}
    is_same = values | {"host": host.lower()} == _mail_server_values(None, before)
    if user and not password and is_same and before is not None:
        password = before.password or ""
    if user and not password:
        errors["smtp_password"] = _("This field is required.")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    scheme = "smtps" if values["encryption"] == "tls" else "smtp"
    # Quoted, so that an invalid port cannot change the host.
    port = f":{quote(values['port'], safe='')}" if values["port"] else ""
    texts: dict[str, str | None] = {"smtp_url": f"{scheme}://{login}{host}{port}"}
    if not is_fixed(settings, "smtp_tls"):
        texts["smtp_tls"] = "none" if values["encryption"] == "none" else None
    return texts


def _read_client_secret(form: Form, settings: Settings, stored: Mapping[str, str]) -> str:
    """The text of ``oidc_client_secret``: the new one, or the stored one for the same provider and client."""
    names = [name for name in ("oidc_issuer", "oidc_client_id") if not is_fixed(settings, name)]
    is_same = all(form.get(name, "") == (getattr(settings, name) or "") for name in names)
    typed = form.raw("oidc_client_secret").strip()
    return typed or (stored.get("oidc_client_secret", "") if is_same else "")


def _mail_server_values(form: Form | None, server: SmtpServer | None) -> dict[str, str]:
    """The fields of the mail server, except for its password: those of the form, or those of ``server``."""
    if form is not None:
        return {name: form.get(f"smtp_{name}", "") for name in ("host", "port", "user", "encryption")}
    if server is None:
        return {"host": "", "port": "", "user": "", "encryption": "starttls"}
    encryption = "tls" if server.is_encrypted else "starttls" if server.needs_tls else "none"
    port = "" if server.port == (465 if server.is_encrypted else 587) else str(server.port)
    return {"host": server.host, "port": port, "user": server.user or "", "encryption": encryption}
