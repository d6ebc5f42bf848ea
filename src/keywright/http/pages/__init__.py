"""What every page needs: requests, sessions, forms, templates and the threads in which pages are made."""
