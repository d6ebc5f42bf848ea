"""The entry point of Alembic: run the revisions on the connection in the configuration."""

from alembic import context

from keywright.db.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=False,
)
context.run_migrations()
