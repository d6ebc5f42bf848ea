"""Settings from the pages: lower precedence than environment and files, and the same validation."""

import logging

import pytest

from keywright.config import Settings
from keywright.config.sources import list_settings, read_settings
from keywright.config.stored import LABELS, SOURCE, apply, find_wrong, is_fixed
from tests.unit.test_config import BAD_VALUES

MAIL = {"smtp_url": "smtps://ada:geheim@mail.example.com", "mail_from": "Larch <keys@example.com>"}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))


def sources(settings: Settings) -> dict[str, str]:
    return {one.name: one.source for one in list_settings(settings) if one.source != "default"}


def test_what_the_pages_set_counts_where_nothing_else_sets_it() -> None:
    settings = read_settings({"session_hours": 4})
    apply(settings, {**MAIL, "session_hours": "12", "expiry_notice_days": "", "portal": "false"})
    assert (settings.session_hours, settings.expiry_notice_days, settings.portal) == (4, (), False)
    assert settings.smtp_server is not None
    assert settings.smtp_server.host == "mail.example.com"
    assert is_fixed(settings, "session_hours")
    pages = dict.fromkeys((*MAIL, "expiry_notice_days", "portal"), SOURCE)
    assert sources(settings) == {"session_hours": "--session-hours", **pages}


def test_what_is_stored_no_more_is_the_default_again() -> None:
    settings = read_settings()
    apply(settings, {"session_hours": "12", "keep_events_days": "0"})
    apply(settings, {"keep_events_days": "0"})
    assert (settings.session_hours, settings.keep_events_days) == (10, 0)
    assert sources(settings) == {"keep_events_days": SOURCE}


def test_what_cannot_be_used_is_left_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    settings = read_settings()
    stored = {"smtp_url": MAIL["smtp_url"], "session_hours": "500", "port": "1", "of_tomorrow": "1"}
    with caplog.at_level(logging.WARNING):
        apply(settings, stored | {"portal": "false"})
        apply(settings, stored | {"portal": "false"})
    assert (settings.smtp_url, settings.session_hours, settings.port) == (None, 10, 8000)
    assert settings.portal is False
    assert len(caplog.messages) == 4
    assert "geheim" not in caplog.text


def test_each_setting_of_the_pages_is_checked_as_in_a_file() -> None:
    wrong = {name: find_wrong({name: BAD_VALUES[name]}) for name in LABELS}
    assert [name for name, found in wrong.items() if not found.get(name)] == []
    assert find_wrong({"session_hours": "168", "backup_daily_at": "03:30"}) == {}
    assert find_wrong({"session_hours": "169"}) == {"session_hours": "an integer from 1 to 168"}


def test_the_pages_set_nothing_that_runs_reads_or_reaches_something_of_the_machine() -> None:
    of_the_machine = {"data_dir", "database_url", "backup_command", "smtp_ca_file", "webhook_networks"}
    of_the_machine |= {"host", "port", "trusted_proxies", "secret", "admin", "admin_address", "relay_url"}
    assert of_the_machine & LABELS.keys() == set()
