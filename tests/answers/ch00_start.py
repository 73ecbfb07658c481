"""Right and wrong answers of chapter 0."""

import math

from tests.answers import accepts, rejects


@accepts("best_seconds")
def with_ceil(tasks, seconds_each, workers):
    return math.ceil(tasks / workers) * seconds_each


@rejects("best_seconds")
def divides_without_rounding(tasks, seconds_each, workers):
    return tasks / workers * seconds_each


@rejects("best_seconds")
def rounds_down(tasks, seconds_each, workers):
    return tasks // workers * seconds_each


@rejects("best_seconds")
def one_after_the_other(tasks, seconds_each, workers):
    return tasks * seconds_each


@rejects("best_seconds")
def always_one_round_more(tasks, seconds_each, workers):
    return (tasks // workers + 1) * seconds_each
