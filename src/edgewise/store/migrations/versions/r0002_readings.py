"""Times of the reference kernels, by machine; and records are indexed again, with `latency` as schema 2 has it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision. Opening the store indexes its records again after any upgrade."""
    op.create_table(
        "readings",
        sa.Column("run", sa.String(64), sa.ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("machine", sa.String(16), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("at", "compute", "copy")),
    )
    op.create_index("ix_readings_machine", "readings", ["machine", "at"])


def downgrade() -> None:
    """Back from it."""
    op.drop_table("readings")
