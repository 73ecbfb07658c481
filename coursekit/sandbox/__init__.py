"""Sandboxes: processes that can do no harm, for submissions and for the capstone's entries."""
