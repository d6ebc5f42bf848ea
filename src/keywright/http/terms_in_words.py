"""Describe terms in words, in English or the language of ``texts``. Pure."""

from collections.abc import Iterator
from typing import Any, Protocol

from keywright.licensing.terms import model as terms_model


class Texts(Protocol):
    """Translates texts. In plurals, ``num`` is the number in the format of the language."""

    def gettext(self, text: str, /, **values: Any) -> str:
        """Translate the text and insert the values."""

    def ngettext(self, singular: str, plural: str, number: int, /, **values: Any) -> str:
        """Translate the text in the plural form for this number."""


class _English:
    """Returns the texts untranslated."""

    def gettext(self, text: str, /, **values: Any) -> str:
        return text % values

    def ngettext(self, singular: str, plural: str, number: int, /, **values: Any) -> str:
        return (singular if number == 1 else plural) % ({"num": f"{number:,}"} | values)


ENGLISH: Texts = _English()


def describe_terms(terms: terms_model.Terms, texts: Texts = ENGLISH) -> list[str]:
    """Describe what the terms allow, in phrases: ``3 devices``, ``365 days from the first activation`` …"""
    return [
        *_describe_places(terms, texts),
        *_describe_life(terms, texts),
        *_describe_device(terms, texts),
        *_describe_full(terms, texts),
        *_describe_use(terms, texts),
        *_describe_customers(terms, texts),
    ]


def _describe_places(terms: terms_model.Terms, texts: Texts) -> Iterator[str]:
    limit = terms.max_activations
    if limit is None:
        yield texts.gettext("any number of devices")
    else:
        yield texts.ngettext("%(num)s device", "%(num)s devices", limit)
    if terms.max_leases is not None:
        duration = format_seconds(terms.lease_seconds, texts)
        yield texts.ngettext(
            "%(num)s at the same time, for %(duration)s each",
            "%(num)s at the same time, for %(duration)s each",
            terms.max_leases,
            duration=duration,
        )


def _describe_life(terms: terms_model.Terms, texts: Texts) -> Iterator[str]:
    days = terms.valid_for_days
    if days is None:
        yield texts.gettext("no expiry")
    elif terms.starts is terms_model.Starts.FIRST_ACTIVATION:
        yield texts.ngettext(
            "%(num)s day from the first activation", "%(num)s days from the first activation", days
        )
    else:
        yield texts.ngettext("%(num)s day from creation", "%(num)s days from creation", days)
    if terms.grace_days:
        yield texts.ngettext("%(num)s day of grace", "%(num)s days of grace", terms.grace_days)
    if terms.after_expiry is terms_model.AfterExpiry.ALLOW:
        yield texts.gettext("stays valid after expiry")
    elif terms.after_expiry is terms_model.AfterExpiry.OLDER_VERSIONS:
        yield texts.gettext("valid for versions built before expiry")


def _describe_device(terms: terms_model.Terms, texts: Texts) -> Iterator[str]:
    if terms.device is terms_model.DeviceRule.REQUIRED:
        yield texts.gettext("a fingerprint is required")
    defaults = terms_model.Terms()
    if terms.offline_days != defaults.offline_days:
        yield _describe_offline(terms.offline_days, texts)
    if terms.next_check_seconds != defaults.next_check_seconds:
        duration = format_seconds(terms.next_check_seconds, texts)
        yield texts.gettext("next check after %(duration)s", duration=duration)
    if terms.new_devices is not None:
        allowed = describe_allowance(terms.new_devices, texts)
        yield texts.gettext("new devices: %(allowed)s", allowed=allowed)
    if terms.portal_removals is not None and terms.portal_removals.count:
        allowed = describe_allowance(terms.portal_removals, texts)
        yield texts.gettext("removals in the portal: %(allowed)s", allowed=allowed)
    elif terms.portal_removals is not None:
        yield texts.gettext("removals in the portal: none")


def _describe_full(terms: terms_model.Terms, texts: Texts) -> Iterator[str]:
    if terms.when_full is terms_model.WhenFull.REPLACE_UNSEEN and terms.unseen_days is not None:
        yield texts.ngettext(
            "a new device replaces one unseen for %(num)s day",
            "a new device replaces one unseen for %(num)s days",
            terms.unseen_days,
        )
    if terms.devices_visible:
        yield texts.gettext("the program shows the devices of a full license")


def _describe_offline(days: int, texts: Texts) -> str:
    if not days:
        return texts.gettext("never offline")
    return texts.ngettext("%(num)s day offline", "%(num)s days offline", days)


def _describe_use(terms: terms_model.Terms, texts: Texts) -> Iterator[str]:
    if terms.entitlements:
        yield texts.gettext("entitlements: %(codes)s", codes=", ".join(terms.entitlements))
    if terms.channels != terms_model.Terms().channels:
        yield texts.gettext("update channels: %(codes)s", codes=", ".join(terms.channels) or "—")
    if terms.uncounted_hosts:
        yield texts.gettext(
            "up to %(num)s sites take no place: %(hosts)s",
            num=terms.max_uncounted,
            hosts=", ".join(terms.uncounted_hosts),
        )
    for name, meter in terms.meters.items():
        yield f"{name}: {describe_meter(meter, texts)}"
    if terms.trial:
        yield texts.gettext("a trial: one per device")


def _describe_customers(terms: terms_model.Terms, texts: Texts) -> Iterator[str]:
    if terms.claimable:
        yield texts.gettext("can be claimed with its key")
    days = terms.transfer_after_days
    if terms.transferable is terms_model.Transferable.ONCE:
        yield texts.ngettext(
            "can be transferred once, after %(num)s day", "can be transferred once, after %(num)s days", days
        )
    elif terms.transferable is terms_model.Transferable.ALWAYS:
        yield texts.ngettext(
            "can be transferred after %(num)s day", "can be transferred after %(num)s days", days
        )


def describe_allowance(allowance: terms_model.Allowance, texts: Texts = ENGLISH) -> str:
    """Describe an allowance: ``3 in 30 days``."""
    return texts.ngettext(
        "%(count)s in %(num)s day",
        "%(count)s in %(num)s days",
        allowance.per_days,
        count=f"{allowance.count:,}",
    )


def describe_meter(meter: terms_model.Meter, texts: Texts = ENGLISH) -> str:
    """Describe a meter: ``100 per month``, and whether more is allowed."""
    period = _describe_period(meter.per, texts)
    if meter.overage is terms_model.Overage.ALLOW:
        return texts.ngettext(
            "%(num)s per %(period)s, more is allowed",
            "%(num)s per %(period)s, more is allowed",
            meter.limit,
            period=period,
        )
    return texts.ngettext("%(num)s per %(period)s", "%(num)s per %(period)s", meter.limit, period=period)


def _describe_period(period: terms_model.Period, texts: Texts) -> str:
    words = {
        terms_model.Period.DAY: texts.gettext("day"),
        terms_model.Period.MONTH: texts.gettext("month"),
        terms_model.Period.YEAR: texts.gettext("year"),
        terms_model.Period.LICENSE_MONTH: texts.gettext("month since the license was made"),
        terms_model.Period.LICENSE_YEAR: texts.gettext("year since the license was made"),
        terms_model.Period.LICENSE: texts.gettext("license"),
    }
    return words[period]


def format_seconds(seconds: int, texts: Texts = ENGLISH) -> str:
    """Format a duration in the largest unit that divides it: ``10 minutes``."""
    if seconds % 86_400 == 0:
        return texts.ngettext("%(num)s day", "%(num)s days", seconds // 86_400)
    if seconds % 3_600 == 0:
        return texts.ngettext("%(num)s hour", "%(num)s hours", seconds // 3_600)
    if seconds % 60 == 0:
        return texts.ngettext("%(num)s minute", "%(num)s minutes", seconds // 60)
    return texts.ngettext("%(num)s second", "%(num)s seconds", seconds)
