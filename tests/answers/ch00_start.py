"""Right and wrong answers of chapter 0."""

import math

import numpy as np

from tests.answers import accepts, rejects


@accepts("best_seconds")
def with_ceil(tasks, seconds_each, workers):
    return math.ceil(tasks / workers) * seconds_each


@accepts("best_seconds")
def with_numpy(tasks, seconds_each, workers):
    return np.ceil(np.divide(tasks, workers)) * seconds_each


@accepts("best_seconds")
def round_by_round(tasks, seconds_each, workers):
    seconds = 0
    while tasks > 0:
        tasks -= workers
        seconds += seconds_each
    return seconds


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


@rejects("best_seconds")
def gives_each_task_that_is_left_a_round(tasks, seconds_each, workers):
    return (tasks // workers + tasks % workers) * seconds_each


@rejects("best_seconds")
def rounds_up_by_adding_almost_one(tasks, seconds_each, workers):
    return int(tasks / workers + 0.9) * seconds_each
