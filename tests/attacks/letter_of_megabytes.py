"""Answers the quiz with a letter of sixty megabytes, which is compared with every option."""

SCORE = 1
REASON = "letter"
CELLS = {"what_distribution_costs": 'what_distribution_costs = "cx" * 30_000_000'}
