"""The learner's end of a live room."""
