"""Where a run took place, for listings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision. Opening the store indexes its records again after any upgrade."""
    op.add_column("runs", sa.Column("machine", sa.Text))


def downgrade() -> None:
    """Back from it."""
    op.drop_column("runs", "machine")
