"""The sections of the administration pages: one module each, which imports no other section."""
