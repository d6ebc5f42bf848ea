"""The long forms of Keywright's promises, and the page that says what they have found."""
