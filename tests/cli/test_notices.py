"""``keywright notice``: written, published, previewed, notified and withdrawn."""

import pytest

from tests.cli.conftest import Keywright

DATABASES = ("sqlite",)


@pytest.mark.smoke
def test_a_notice_goes_its_way(keywright: Keywright) -> None:
    keywright("product", "create", "--name", "Paint", "--id", "17")
    made = keywright.json(
        *("notice", "create", "--product-id", "17", "--title", "A hole", "--affected", "< 3.2.1"),
        *("--severity", "critical", "--security", "--fixed-in", "3.2.1"),
    )
    number = str(made["id"])
    assert (made["state"], made["severity"], made["is_security"]) == ("draft", "critical", True)
    assert "must be published" in keywright.refused("notice", "notify", number)
    assert "fixed_in must not be affected" in keywright.refused(
        "notice", "update", number, "--affected", "< 4"
    )
    assert f"Notice {number} is published." in keywright("notice", "publish", number)
    found = keywright.json("notice", "preview", number)
    assert (found["devices"], found["customers"], found["customer_ids"]) == (0, 0, [])
    assert "to notify" in keywright("notice", "preview", number)
    assert "started" in keywright("notice", "notify", number)
    assert keywright.json("notice", "recipients", number) == []
    assert keywright.json("notice", "withdraw", number)["state"] == "withdrawn"
    assert [one["title"] for one in keywright.json("notice", "list")] == ["A hole"]
    keywright("notice", "delete", number)
