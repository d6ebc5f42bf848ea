"""The pages about shops and webhooks are right: their commands run, one after the other."""

import subprocess
from pathlib import Path

import pytest

from keywright.provisioning.shops.model import MAKE_SECRETS, Shop
from tests import forking
from tests.docs.test_documents import ROOT, blocks
from tests.server import environment

HOW_TO = ROOT / "docs" / "how-to"
PAGES = {
    Shop.STRIPE: "connect-stripe.md",
    Shop.PADDLE: "connect-paddle.md",
    Shop.WOOCOMMERCE: "connect-woocommerce.md",
    Shop.LEMONSQUEEZY: "connect-lemon-squeezy.md",
}
#: The files that the pages read from.
FILES = ("signing-secret.txt", "secret-key.txt", "restricted-key.txt", "api-key.txt")


def run(folder: Path, block: str) -> tuple[int, str]:
    """Run a block of commands in a folder; returns the status, and what they print."""
    script = block.replace(".venv/bin/keywright", forking.command())
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        check=False,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("shop", PAGES)
def test_a_shop_is_connected_as_its_page_says(shop: Shop, tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_text("of-the-shop\n")
    *commands, reconcile = blocks(HOW_TO / PAGES[shop], "sh")
    printed = [run(tmp_path, one) for one in commands]
    assert [status for status, _ in printed] == [0] * len(commands), printed
    assert f"/in/{shop}/1" in printed[0][1]
    assert ("--secret -" in printed[0][1]) is (shop in MAKE_SECRETS)
    # There is no shop to be asked; without a key, that is said before.
    run(tmp_path, ".venv/bin/keywright connection edit 1 --api-key ''")
    status, said = run(tmp_path, reconcile)
    assert (status, "api_key is missing" in said) == (1, True)


def test_a_webhook_is_made_and_sent_again_as_its_page_says(tmp_path: Path) -> None:
    assert run(tmp_path, ".venv/bin/keywright init")[0] == 0
    printed = [run(tmp_path, one) for one in blocks(HOW_TO / "receive-webhooks.md", "sh")]
    assert [status for status, _ in printed] == [0] * len(printed), printed
    assert "whsec_" in printed[0][1]
