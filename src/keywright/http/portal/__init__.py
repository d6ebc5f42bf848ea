"""The customer's portal: `/portal`. The server imports it at the first request for one of its pages."""
