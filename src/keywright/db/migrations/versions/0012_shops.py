"""Tables for shops: connections of shops, and the events they sent."""

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    pass
