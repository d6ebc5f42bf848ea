"""The page about webhooks names every event of licenses that there is."""

from pathlib import Path

from keywright.delivery.webhooks import rules
from keywright.events.prose import PROSE

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "receive-webhooks.md"


def test_the_page_names_every_type_or_its_beginning() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = {name for texts in PROSE.values() for name in texts}
    missing = {one for one in names if f"`{one}`" not in text and f"`{one.partition('.')[0]}.*`" not in text}
    assert {one for one in missing if one.startswith(("license.", "lease.", "usage."))} == set()


def test_the_page_says_when_deliveries_are_sent_again() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    units = (("h", 3600), ("min", 60), ("s", 1))
    words = []
    for pause in rules.SCHEDULE:
        seconds = int(pause.total_seconds())
        unit, size = next((unit, size) for unit, size in units if seconds % size == 0 and seconds >= size)
        words.append(f"{seconds // size} {unit}")
    assert ", ".join(words) in text
