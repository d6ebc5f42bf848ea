"""The history of the schema, a file per revision."""
