"""Tables for portal: sign-ins of customers."""

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    pass
