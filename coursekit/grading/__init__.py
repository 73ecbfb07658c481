"""Grading: a whole class, each submission in a sandbox, into nbgrader's own gradebook."""
