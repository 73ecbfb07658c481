"""Grading: nbgrader's own tools, with the configuration of this course."""
