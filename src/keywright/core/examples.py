"""Sample values for documents; none of them is issued."""

EXAMPLE_KEY = "KW7Q-2MXD-94TB-VH3C"
EXAMPLE_TOKEN = "8d0f3b6e52c94a17a1c05de98b7f24630c5e1d9a"  # noqa: S105 (no secret)
