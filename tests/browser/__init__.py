"""A package, unlike its neighbors: so that pytest ends the browser when it leaves this folder."""
