"""New licenses and new keys, from policies."""
