"""What answers to programs show of a license beside its own fields."""
