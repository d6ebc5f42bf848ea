"""What the pages need for support: refusals, notes and tags, deleted licenses, saved views."""

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    pass
