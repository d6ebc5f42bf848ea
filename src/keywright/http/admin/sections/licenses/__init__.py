"""Licenses: the list and its filter, the page of one license, and what can be changed in one or in many."""
