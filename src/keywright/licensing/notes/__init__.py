"""What people have written about a license: a note and tags."""
