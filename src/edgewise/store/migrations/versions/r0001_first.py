"""Documents and the tables that index them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "documents",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("schema", sa.Integer, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "runs",
        _owner("id"),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("group", sa.Text),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("format", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("runtime", sa.Text, nullable=False),
        sa.Column("version", sa.Text),
        sa.Column("provider", sa.Text),
        sa.Column("threads", sa.Integer),
        sa.Column("precision", sa.Text),
        sa.Column("batch", sa.Integer, nullable=False),
        sa.Column("scenario", sa.Text, nullable=False),
        sa.Column("device", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("cause", sa.Text),
        sa.Column("grade", sa.Text),
        sa.Column("metric", sa.Text),
        *_number(),
        sa.Column("unit", sa.Text),
        sa.Column("basis", sa.Text),
    )
    op.create_table(
        "measurements",
        _owner("run"),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("metric", sa.Text, nullable=False),
        *_number(),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("basis", sa.Text),
    )
    op.create_table("tags", _owner("run"), sa.Column("name", sa.Text, primary_key=True))
    op.create_index("ix_runs_created", "runs", ["created", "id"])
    op.create_index("ix_runs_group", "runs", ["group"])
    op.create_index("ix_measurements_metric", "measurements", ["metric"])
    op.create_index("ix_tags_name", "tags", ["name"])


def downgrade() -> None:
    """Back from it."""
    for table in ("tags", "measurements", "runs", "documents"):
        op.drop_table(table)


def _owner(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(64), sa.ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True)


def _number() -> list[sa.Column[float]]:
    return [sa.Column(name, sa.Double) for name in ("value", "low", "high")]
