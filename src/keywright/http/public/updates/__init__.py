"""What update frameworks ask for, in their own formats."""
