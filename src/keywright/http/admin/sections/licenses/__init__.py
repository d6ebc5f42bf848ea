"""Licenses: the list and its filter, the page of one license, and changes of one or many."""
