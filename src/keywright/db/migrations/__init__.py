"""The history of the schema: a file for each revision."""
