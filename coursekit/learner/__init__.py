"""What runs in a learner's notebook."""
