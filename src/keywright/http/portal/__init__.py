"""The customer's portal: `/portal`."""
