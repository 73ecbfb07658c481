"""An instructor's desk: what comes in from a class, and what goes back."""
