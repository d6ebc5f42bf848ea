"""The long forms of Keywright's promises, and the page with their results."""
