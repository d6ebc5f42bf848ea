"""The customer portal at `/portal`, imported at the first request for one of its pages."""
