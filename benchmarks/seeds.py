"""How often the check of a learning exercise passes for our own solution, and how many of the seeds it tried reached their target.

    python benchmarks/seeds.py ch10_actor_learner solve_cartpole --trials 30

A check of a learning exercise tries up to three seeds, and passes at the first that is good enough. Each trial judges the solved
notebook's function with a seed of its own, as grading does: other problems, other exams, other first weights.
"""

import argparse
import sys
from importlib import import_module

import ray
import torch

from coursekit.author.definitions import definitions
from coursekit.basics.paths import ROOT
from coursekit.judging.exercise import find, judge
from coursekit.learner.checks import local
from coursekit.ray_bridge.quiet import quiet

# calls of a check that passes, besides one for each seed
BESIDES = {"beats_random": 1, "learns_corridor": 4, "clone": 1}


def trial(chapter: str, exercise: str, seed: int) -> tuple[bool, int, str]:
    """Return whether the check passed, how many seeds it tried, and what it said."""
    solution, calls = definitions(chapter)[exercise], []

    def counted(*args: object, **kwargs: object) -> object:
        calls.append(args)
        return solution(*args, **kwargs)

    result = judge(find(chapter, exercise, "exercise"), local(exercise, counted), seed)
    passed = result.status == "passed"
    return passed, len(calls) - passed * BESIDES.get(exercise, 0), result.message


def main() -> dict[str, str]:
    """Judge the solution with one seed after the other, and return the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapter")
    parser.add_argument("exercise")
    parser.add_argument("--trials", type=int, default=30)
    options = parser.parse_args()
    quiet()
    torch.set_num_threads(1)  # as the notebooks do
    settings = import_module(
        f"tests.answers.{options.chapter}"
    ).RAY  # as in tests/test_answers.py: a dict, or what makes it
    ray.init(include_dashboard=False, log_to_driver=False, **(settings() if callable(settings) else settings))
    passes = seeds = 0
    for number in range(1, options.trials + 1):
        passed, tried, message = trial(options.chapter, options.exercise, seed=number)
        passes, seeds = passes + passed, seeds + tried
        print(f"trial {number}: {'passed' if passed else 'FAILED'}, seeds tried: {tried}  {message}", flush=True)
    claim = f"pass the check of `{options.exercise}` with our solution (Chapter {int(options.chapter[2:4])})"
    return {claim: f"{passes} of {options.trials} trials, {passes} of {seeds} seeds"}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # where `tests` is
    for claim, figure in main().items():
        print(f"| {claim} | {figure} |")
