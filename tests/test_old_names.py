"""The table of old names tells the truth: what it calls gone is gone on the pinned Ray, and what it offers instead works."""

import pytest

from coursekit.given.old_names import (
    BY_LINE,
    DICTIONARY,
    NEW_DICTIONARY,
    OLD_DICTIONARY,
    PARTS,
    others,
    playground,
    run,
)
from tests.rays import a_ray

pytestmark = pytest.mark.slow
ALL = [*(name for names in PARTS.values() for name in names), *BY_LINE]
NAMED_IN_COURSES = [
    "PPOTrainer",
    "config={",
    "num_workers",
    "rollouts",
    "num_sgd_iter",
    "create_env_on_driver",
    "a3c",
    "episode_reward_mean",
    "compute_single_action",
    'tune.run("PPO"',
]


@pytest.fixture(scope="module")
def names():
    with a_ray(num_cpus=1), playground() as found:
        yield found | others()


def rows(accepted: bool) -> list:
    return [pytest.param(name, id=name.old) for name in ALL if bool(name.accepted) == accepted]


@pytest.mark.parametrize("name", rows(accepted=False))
def test_what_is_called_gone_raises_the_error_that_the_table_names(name, names):
    assert ": " in name.fails  # the type of the error, and what it says
    assert run(name.old, names).startswith(name.fails)


@pytest.mark.parametrize("name", rows(accepted=True))
def test_what_is_still_accepted_does_what_the_table_says(name, names):
    assert name.why
    assert not name.fails
    assert run(name.old, names, name.accepted) == ""


@pytest.mark.parametrize("name", [pytest.param(name, id=name.new) for name in ALL])
def test_what_takes_its_place_works(name, names):
    assert run(name.new, names, name.shows) == ""


SETTINGS = [name for name in ALL if name.new.startswith(("config.", "config = PPOConfig().")) and name.shows != "True"]


@pytest.mark.parametrize("name", [pytest.param(name, id=name.old) for name in SETTINGS])
def test_what_shows_that_a_setting_was_made_is_not_true_without_it(name, names):
    assert run("pass", names, name.shows) != ""


@pytest.mark.parametrize("old", NAMED_IN_COURSES)
def test_the_names_that_older_courses_use_are_in_the_table(old):
    assert any(old in name.old for name in ALL)


def test_the_whole_dictionary_is_gone_and_todays_program_makes_every_setting(names):
    assert run(OLD_DICTIONARY, names) == "ModuleNotFoundError: No module named 'ray.rllib.agents'"
    for name in DICTIONARY:
        assert run(NEW_DICTIONARY, names, name.shows) == ""
