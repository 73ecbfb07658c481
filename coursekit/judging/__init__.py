"""An exercise, and how one answer becomes one result: the same in a notebook and in grading."""
