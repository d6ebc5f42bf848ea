"""Keys that sign answers and license files."""

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    pass
