"""The history of the schema, with one file per revision."""
