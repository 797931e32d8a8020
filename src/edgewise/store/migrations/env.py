"""Run by Alembic: migrates the connection that `edgewise.store.connection` hands over, inside its transaction."""

from alembic import context

from edgewise.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite can't alter a column in place
)
with context.begin_transaction():
    context.run_migrations()
