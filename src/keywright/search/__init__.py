"""Find licenses and events, and count them.

Each answer has a time budget, however many licenses there are: a list that could not be filled within it is
marked as incomplete and can be continued from where it stopped.
"""
