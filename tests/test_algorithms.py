"""Chapter 13's algorithms that quick mode leaves out of its comparison: their settings still train on the pinned Ray."""

import nbformat
import pytest

from coursekit.author.definitions import definitions
from coursekit.basics.paths import SOLUTIONS
from coursekit.given.ch13_algorithms import CORRIDOR
from coursekit.given.rllib_configs import built
from tests.rays import a_ray

pytestmark = pytest.mark.slow
CHAPTER = "ch13_algorithms"
CELLS = ["def common(", "here = {", "configs = {}"]  # they make objects too, so `definitions` leaves them out


@pytest.fixture(scope="module")
def configs():
    """Return the solved chapter's configs, for its corridor."""
    with a_ray(num_cpus=2):
        names = definitions(CHAPTER)
        names["passed"] = lambda exercise: True
        cells = nbformat.read(SOLUTIONS / f"{CHAPTER}.ipynb", as_version=4).cells
        for mark in CELLS:
            exec(next(cell.source for cell in cells if cell.cell_type == "code" and mark in cell.source), names)
        yield names["on"](CORRIDOR, names["configs"])


@pytest.mark.parametrize("name", ["IMPALA", "SAC"])
def test_an_algorithm_that_only_full_mode_compares_plays_and_learns(name, configs):
    learned = 0.0
    with built(configs[name]) as [algo]:
        for _ in range(100):  # an iteration of some hundred steps may end before the learner has had a batch
            learner = algo.train().get("learners", {}).get("default_policy", {})
            learned = max(learned, learner.get("num_module_steps_trained_lifetime", 0.0))
            if learned > 0:
                break
    assert type(algo).__name__ == name
    assert learned > 0
