"""Settings, and their sources."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from keywright.config import Settings, logs, sources
from keywright.config.installation import load_secret
from keywright.config.sources import (
    child_environment,
    describe_values,
    is_debugging,
    list_settings,
    read_settings,
    risks,
)
from keywright.config.values import web_address
from keywright.core.errors import ConfigurationError
from keywright.db import database_path, without_password
from tests.tables import each_row

LONG = "a secret of thirty-two characters"
#: Values, and the settings for which they are invalid.
_WRONG = {
    "": "data_dir files_dir oidc_client_id oidc_client_secret oidc_roles_claim smtp_ca_file backup_command",
    " ": "host relay_consumer_key relay_consumer_secret",
    "short": "secret previous_secret",
    "x" * 256: "oidc_administrators oidc_support oidc_readers",
    "maybe": "require_api_key admin portal expiry_mails getting_started smtp_tls v2_validate mail_language "
    "require_second_factor ip_addresses log_calls log_level log_format signature_alg",
    "few": "bad_credentials_limit trial_limit address_change_limit",
    "1.5": "bad_request_limit",
    "-1": "read_lag_limit connections_per_address keep_deleted_days unknown_key_limit license_change_limit",
    "0": "workers queue_limit connections_limit answer_within_seconds kept_records keep_shop_events_days "
    "keep_usage_days keep_notices_days keep_mails_days backup_keep",
    "1": "max_file_bytes",
    "4": "oidc_check_minutes",
    "12": "body_limit",
    "61": "drain_seconds",
    "169": "session_hours",
    "10001": "listed_records",
    "10081": "session_idle_minutes",
    "36501": "keep_events_days keep_addresses_days",
    "99999": "port",
    "nowhere": "database_url read_database_url files_accel_path",
    "https://shop.example/path": "public_url allowed_origins",
    "https://shop.example/customers": "customer_link",
    "http://shop.example": "oidc_issuer smtp_url relay_url",
    "a//b": "api_root",
    "../up": "namespace v3_root",
    "127.0.0.1": "admin_address metrics_address",
    "10.0.0.1/8": "trusted_proxies webhook_networks",
    "security@example.com": "security_contact",
    "somebody": "mail_from",
    "email": "oidc_scopes",
    "7, soon": "expiry_notice_days",
    "24:00": "backup_daily_at",
    "Mars/Olympus": "time_zone",
}
BAD_VALUES = {name: value for value, names in _WRONG.items() for name in names.split()}


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in an empty directory, with no settings."""
    for variable in [name for name in os.environ if name.startswith("KEYWRIGHT_")]:
        monkeypatch.delenv(variable)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def complaint(**options: object) -> str:
    with pytest.raises(ConfigurationError) as refused:
        read_settings(options)
    return str(refused.value)


def test_nothing_needs_to_be_set() -> None:
    settings = read_settings()
    assert settings == Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert not settings.require_api_key
    assert settings.trusted_proxies == settings.allowed_origins == ()


def test_options_win_over_the_environment_and_that_over_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("keywright.toml").write_text('port = 1\nhost = "::1"\nnamespace = "shop"\n')
    monkeypatch.setenv("KEYWRIGHT_PORT", "2")
    monkeypatch.setenv("KEYWRIGHT_HOST", "0.0.0.0")  # noqa: S104
    settings = read_settings({"port": 3, "host": None})
    assert (settings.port, settings.host, settings.namespace) == (3, "0.0.0.0", "shop")  # noqa: S104
    source_of = {one.name: one.source for one in list_settings(settings)}
    assert source_of["port"] == "--port"
    assert source_of["host"] == "KEYWRIGHT_HOST"
    assert source_of["namespace"] == "keywright.toml"
    assert source_of["api_root"] == "default"
    assert set(source_of) == set(Settings.model_fields)


def test_made_directly_settings_read_nothing_and_none_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYWRIGHT_PORT", "2")
    assert Settings().port == 8000
    with pytest.raises(ValidationError):
        read_settings().port = 1


def test_every_setting_says_what_it_is_and_what_is_allowed() -> None:
    for name, field in Settings.model_fields.items():
        assert (field.description or "").endswith("."), name
        assert describe_values(name), name


@each_row("name", Settings.model_fields)
def test_a_bad_value_is_refused_in_one_sentence_with_its_source(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"KEYWRIGHT_{name.upper()}"
    with monkeypatch.context() as patch:
        patch.setenv(variable, BAD_VALUES[name])
        said = complaint()
    assert said.startswith(name)
    assert f"(from {variable}) cannot be used: it must be " in said
    assert "\n" not in said


@each_row("name", Settings.model_fields)
def test_an_empty_variable_is_a_value_like_any_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = "trusted_proxies allowed_origins webhook_networks expiry_notice_days".split()
    with monkeypatch.context() as patch:
        patch.setenv(f"KEYWRIGHT_{name.upper()}", "")
        if name in (*names, "oidc_administrators", "oidc_support", "oidc_readers"):
            assert getattr(read_settings(), name) == ()
        else:
            assert complaint().startswith(name)


@each_row(
    ("name", "value"),
    [
        *(
            ("allowed_origins", one)
            for one in ("*", "https://a.example/", "shop.example", "https://a b", "null")
        ),
        *(("api_root", one) for one in ("/", "a b", ".", "a/../b", "ä", "a?b", "a%20b")),
        *(("admin_address", one) for one in ("", "8001", ":8001", "::1:8001", "host:", "host:65536")),
        ("admin_address", "http://host:1"),
        # Paths of other applications.
        *(
            ("v3_root", one)
            for one in ("wp-json", "wp-json/lmfwc", "wp-json/lmfwc/v2/x", "admin/v3", "problems")
        ),
    ],
)
def test_what_is_no_origin_path_or_address_is_refused(name: str, value: str) -> None:
    assert complaint(**{name: value}).startswith(name)


@each_row(
    ("name", "value", "path"),
    [
        ("api_root", "/wp-json/", "wp-json"),
        *(("api_root", one, one) for one in ("a/b", "x.y~z-1_2")),
        *(("v3_root", one, one) for one in ("v3", "wp-json/ours", "administration")),
    ],
)
def test_a_path_is_free_and_of_plain_characters_and_slashes_around_it_do_not_matter(
    name: str, value: str, path: str
) -> None:
    assert getattr(read_settings({name: value}), name) == path


@pytest.mark.parametrize("value", ["true", "80.5", '"http"', "[80]"])
def test_a_value_of_another_type_is_refused_with_the_file_s_name(value: str) -> None:
    Path("keywright.toml").write_text(f"port = {value}\n")
    assert "(from keywright.toml) cannot be used" in complaint()


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYWRIGHT_SECRET", "hunter2")
    assert "hunter2" not in complaint()
    monkeypatch.setenv("KEYWRIGHT_SECRET", LONG)
    monkeypatch.setenv("KEYWRIGHT_DATABASE_URL", "ada:hunter2@host/db")
    assert "hunter2" not in complaint()
    monkeypatch.setenv("KEYWRIGHT_DATABASE_URL", "postgresql://ada:hunter2@host/db")
    settings = read_settings()
    shown = {one.name: one.value for one in list_settings(settings)}
    assert shown["secret"] == "********"
    assert shown["database_url"] == "postgresql://…@host/db"
    assert LONG not in repr(settings)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:p@ss/word@host:5432/db", "postgresql://…@host:5432/db"),
        ("postgresql://host/db?user=ada&password=x&y=z", "postgresql://host/db?user=ada&password=…&y=z"),
        ("sqlite:////home/ada@work/k.db", "sqlite:////home/ada@work/k.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_an_unknown_name_is_refused_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("keywright.toml").write_text("prot = 80\n")
    said = complaint()
    assert "'prot' in keywright.toml is not a setting" in said
    assert "Did you mean port?" in said
    Path("keywright.toml").unlink()
    monkeypatch.setenv("KEYWRIGHT_DATADIR", "x")
    said = complaint()
    assert "KEYWRIGHT_DATADIR is not a setting" in said
    assert "Did you mean KEYWRIGHT_DATA_DIR?" in said


def test_what_kubernetes_says_about_a_service_of_our_name_is_no_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEYWRIGHT_SERVICE_HOST", "10.0.0.7")
    monkeypatch.setenv("KEYWRIGHT_PORT_8000_TCP_ADDR", "10.0.0.7")
    monkeypatch.setenv("KEYWRIGHT_PORT", "tcp://10.0.0.7:8000")
    assert read_settings().port == 8000


def test_the_system_s_file_is_read_where_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = tmp_path / "system.toml"
    monkeypatch.setattr(sources, "DEFAULT_FILES", (*sources.DEFAULT_FILES[:1], system))
    assert read_settings().port == 8000
    system.write_text("port = 1\n")
    assert (read_settings().port, read_settings().source_of("port")) == (1, str(system))
    Path("keywright.toml").write_text("port = 2\n")
    assert read_settings().port == 2


def test_links_begin_with_an_address_that_this_machine_reaches() -> None:
    assert web_address("0.0.0.0", 8001) == "http://127.0.0.1:8001"  # noqa: S104
    assert web_address("::", 8001) == "http://[::1]:8001"
    assert web_address("10.0.0.1", 80) == "http://10.0.0.1:80"
    assert Settings(public_url="https://licenses.example.com/").public_url == "https://licenses.example.com"


def test_another_file_can_be_named_and_then_has_to_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("keywright.toml").write_text("port = 1\n")
    Path("one.toml").write_text("port = 2\n")
    Path("two.toml").write_text("port = 3\n")
    monkeypatch.setenv("KEYWRIGHT_CONFIG", "one.toml")
    assert read_settings().port == 2
    settings = read_settings(config_file=Path("two.toml"))
    assert (settings.port, settings.source_of("port")) == (3, "two.toml")
    monkeypatch.setenv("KEYWRIGHT_CONFIG", "none.toml")
    assert complaint().startswith("there is no settings file none.toml (from KEYWRIGHT_CONFIG)")
    with pytest.raises(ConfigurationError, match=r"other\.toml \(from --config\)"):
        read_settings(config_file=Path("other.toml"))


def test_a_file_that_is_not_toml_or_cannot_be_read_is_refused_by_name() -> None:
    file = Path("keywright.toml")
    for content in (b"port = \n", b"port", b"\xff\xfe"):
        file.write_bytes(content)
        assert complaint().startswith("keywright.toml is not valid TOML: "), content
    file.unlink()
    file.mkdir()
    assert complaint().startswith("the settings file keywright.toml cannot be read: ")


def test_lists_are_comma_separated_or_toml_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("keywright.toml").write_text('trusted_proxies = ["10.0.0.0/8", "::1"]\n')
    monkeypatch.setenv("KEYWRIGHT_ALLOWED_ORIGINS", "https://Shop.example, http://localhost:5173")
    settings = read_settings()
    assert list(map(str, settings.trusted_proxies)) == ["10.0.0.0/8", "::1/128"]
    assert settings.allowed_origins == ("https://shop.example", "http://localhost:5173")
    shown = {one.name: one.value for one in list_settings(settings)}
    assert shown["trusted_proxies"] == ["10.0.0.0/8", "::1/128"]


def test_the_home_directory_may_be_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    Path("keywright.toml").write_text('data_dir = "~/keys"\n')
    assert read_settings().data_dir == Path("/home/ada/keys")


@pytest.mark.parametrize("name", ["plain", "with space", "100% #1?", "größe"])
def test_the_database_is_in_the_data_directory_whatever_that_is_called(
    name: str, empty_directory: Path
) -> None:
    settings = Settings(data_dir=Path(name))
    assert database_path(settings.database_url_in_force) == empty_directory / name / "keywright.db"


@pytest.mark.parametrize("url", ["sqlite:///a?mode=ro", "sqlite:///a#b", "sqlite://host/a", "sqlite:///"])
def test_a_url_that_says_more_than_a_path_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is invalid"):
        database_path(url)


def test_auto_logs_for_people_on_a_terminal_only_and_details_when_a_variable_wants_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not logs.uses_json(Settings(), is_terminal=True)
    assert logs.uses_json(Settings(), is_terminal=False)
    assert logs.uses_json(Settings(log_format="json"), is_terminal=True)
    assert not logs.uses_json(Settings(log_format="console"), is_terminal=False)
    for value, is_wanted in (("1", True), ("", False), ("0", False)):
        monkeypatch.setenv("KEYWRIGHT_DEBUG", value)
        assert is_debugging() is is_wanted


def test_the_secret_in_force_is_shown_as_there_and_where_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = read_settings({"data_dir": str(tmp_path)})
    load_secret(settings)
    (shown,) = [one for one in list_settings(settings) if one.name == "secret"]
    assert shown.source == str(tmp_path / "secret")
    assert shown.value is not None
    assert (tmp_path / "secret").read_text().strip() not in str(shown.value)


def test_a_child_works_on_the_same_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regardless of the parent's options."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEYWRIGHT_DATA_DIR", "elsewhere")
    monkeypatch.setenv("OTHER", "kept")
    options = {"data_dir": "data", "database_url": "sqlite:////srv/x.db", "secret": "s" * 32}
    environment = child_environment(read_settings(options))
    assert environment["OTHER"] == "kept"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = read_settings({})
    assert settings.data_dir == tmp_path / "data"
    assert settings.database_url == "sqlite:////srv/x.db"
    assert settings.secret is not None
    assert settings.secret.get_secret_value() == "s" * 32


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8001", ("127.0.0.1", 8001)),
        ("[::1]:8001", ("::1", 8001)),
        (" admin.internal:0 ", ("admin.internal", 0)),
    ],
)
def test_an_address_for_the_pages_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert read_settings({"admin_address": text}).admin_host_and_port == address
    assert read_settings({"admin_address": text, "admin": False}).admin_host_and_port is None


@pytest.mark.parametrize(
    ("host", "proxies", "is_told"),
    [
        ("127.0.0.1", "", False),
        ("::1", "", False),
        ("localhost", "", False),
        ("0.0.0.0", "", True),  # noqa: S104
        ("::", "", True),
        ("keywright.example", "", True),
        ("0.0.0.0", "10.0.0.1", False),  # noqa: S104
    ],
)
def test_an_open_address_without_a_trusted_proxy_is_a_risk(host: str, proxies: str, *, is_told: bool) -> None:
    found = risks(read_settings({"host": host, "trusted_proxies": proxies}))
    assert [("trusted_proxies" in one, host in one) for one in found] == [(True, True)] * is_told


def test_a_relay_needs_its_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYWRIGHT_RELAY_URL", "https://shop.example")
    monkeypatch.setenv("KEYWRIGHT_RELAY_CONSUMER_KEY", "ck_of-the-shop")
    with pytest.raises(ConfigurationError, match="relay_consumer_secret is not"):
        read_settings()
    monkeypatch.setenv("KEYWRIGHT_RELAY_CONSUMER_SECRET", "cs_of-the-shop")
    shown = str(list_settings(read_settings()))
    assert "of-the-shop" not in shown
    assert shown.count("********") == 2
