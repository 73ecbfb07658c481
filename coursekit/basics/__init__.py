"""Small things that all parts may use; nothing here knows of an exercise or of Ray."""
