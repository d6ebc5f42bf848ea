"""Routes without API keys: public keys, license files for offline machines, downloads and update checks."""
