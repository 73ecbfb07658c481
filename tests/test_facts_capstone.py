"""What chapter 20 says of its warehouse, its rules and its parts, each fact held by a test named as the sentence that it holds."""

import functools
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import ray.cloudpickle
import torch
from ray.rllib.algorithms.ppo import PPOConfig

from coursekit.given.warehouse import (
    EPISODE_STEPS,
    KINDS,
    STATION,
    TABLE,
    VIEWS,
    WAIT,
    WORLD,
    Warehouse,
    baseline,
    draw_world,
    evaluate,
    make_envs,
    paying,
    random_actions,
)
from tests.answers.ch20_capstone import chapter


def parcels(policy, kinds=range(KINDS)) -> float:
    """Return how many parcels of these kinds a policy delivers per episode."""
    world = WORLD._replace(prices=tuple(float(kind in kinds) for kind in range(KINDS)))
    return evaluate(policy, make_envs=functools.partial(make_envs, world=world)).mean()


@pytest.mark.parametrize("seed", range(20))
def test_two_kinds_pay_and_two_cost_money(seed):
    prices = draw_world(seed).prices
    assert sorted(price > 0 for price in prices) == [False, False, True, True]


def test_neither_a_kinds_number_nor_the_rank_of_its_price_says_which_kinds_are_worth_fetching():
    worlds = [draw_world(seed) for seed in range(40)]
    assert {world.prices.index(max(world.prices)) for world in worlds} == set(range(KINDS))
    trials = [next(kind for kind, price in enumerate(w.prices) if price < 0 <= w.follows[kind]) for w in worlds]
    ranks = {sorted(world.prices).index(world.prices[trial]) for world, trial in zip(worlds, trials, strict=True)}
    assert ranks == {0, 1}  # what costs most may bring the best customer, or what costs less


def test_in_the_notebooks_world_the_customers_of_what_costs_2_order_what_pays_13():
    costs_2 = WORLD.prices.index(-2)
    assert WORLD.prices[WORLD.follows[costs_2]] == 13
    assert WORLD.follows[WORLD.prices.index(-4)] == -1
    assert (parcels(paying(WORLD.prices), [costs_2]), parcels(baseline, [costs_2]) > 5) == (0, True)


def test_the_rule_with_the_price_list_earns_less_than_half_of_what_the_baseline_earns():
    assert evaluate(paying(WORLD.prices)).mean() < evaluate(baseline).mean() / 2


def test_a_tour_for_three_parcels_takes_about_fifteen_steps():
    assert EPISODE_STEPS / (parcels(baseline) / 3) == pytest.approx(15, abs=2)


def test_random_actions_rarely_take_the_robot_anywhere():
    assert parcels(random_actions) < parcels(baseline) / 5


@functools.cache
def untrained() -> list[float]:
    """Return what the chapter's twenty untrained networks earn."""
    torch.manual_seed(0)
    return [evaluate(chapter().greedy(chapter().Policy().weights()), 50).mean() for _ in range(20)]


@pytest.mark.slow
def test_a_lucky_untrained_network_beats_random_actions_and_most_earn_next_to_nothing():
    assert max(untrained()[:8]) > evaluate(random_actions).mean()
    assert max(untrained()) < 0.75 * evaluate(baseline).mean()
    assert abs(np.median(untrained())) < 2


def test_the_network_that_scores_shelves_has_a_few_hundred_weights():
    assert sum(part.numel() for part in chapter().Policy().shelf.parameters()) == 241
    assert VIEWS.shape == (8, 13)


def test_a_sampler_process_does_not_import_pytorch():
    pickled = ray.cloudpickle.dumps(chapter().Sampler)
    code = "import pickle, sys; pickle.loads(sys.stdin.buffer.read()); print('torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True, check=True)
    assert said.stdout.strip() == b"False"


def fragment(over: np.ndarray) -> dict[str, np.ndarray]:
    """Return a fragment of four steps in two warehouses, in the first of which an episode ends after the second step."""
    obs = np.random.default_rng(0).random((4, 2, 55), np.float32)
    rewards = np.array([[3, 0], [0, 1], [2, 0], [0, 4]])
    return {
        "obs": obs,
        "actions": np.zeros((4, 2), int),
        "rewards": rewards,
        "over": over,
        "real": np.ones((4, 2), bool),
    }


def test_advantages_do_not_depend_on_the_types_of_rewards_and_flags():
    over, weights = np.zeros((4, 2), bool), chapter().Policy().weights()
    over[1, 0] = True
    last = np.zeros((2, 55), np.float32)
    usual = chapter().rows_of(fragment(over), last, weights)
    other = chapter().rows_of(fragment(over.astype(np.uint8)), last, weights)
    assert np.array_equal(usual["advantages"], other["advantages"])
    assert np.abs(usual["advantages"]).max() < 10


def test_a_minibatch_of_one_row_has_a_loss():
    rows = {"obs": torch.rand(1, 55), "actions": torch.zeros(1, dtype=torch.int64)}
    rows |= {name: torch.ones(1) for name in ("logp", "advantages", "targets")}
    assert torch.isfinite(chapter().ppo_loss(chapter().Policy(), rows))


def test_an_episode_is_truncated_and_its_last_observation_is_that_of_the_reset_frame():
    envs = make_envs(1)
    envs.reset(seed=0)
    for _ in range(EPISODE_STEPS):
        obs, _, terminated, truncated, _ = envs.step([TABLE])
    assert (terminated[0], truncated[0]) == (False, True)
    after, reward, _, truncated, _ = envs.step([STATION])  # only a reset
    assert (reward[0], truncated[0], np.array_equal(obs, after)) == (0, False, False)


@pytest.mark.parametrize("mode", ["sync", "vector_entry_point"])
def test_rllib_finds_the_warehouse_by_the_name_that_the_chapter_gives(mode):
    envs = gymnasium.make_vec("coursekit.given.warehouse:Warehouse-v0", num_envs=2, vectorization_mode=mode)
    obs, _ = envs.reset(seed=0)
    assert np.array_equal(obs[0], Warehouse().reset(seed=0)[0])


def test_returns_here_are_far_too_large_for_rllibs_default_limit_of_the_value_loss():
    assert evaluate(baseline).mean() ** 2 > 100 * PPOConfig().vf_clip_param


def test_the_slow_simulator_waits_thirteen_milliseconds_for_64_warehouses():
    assert 12.5 < 1000 * 64 * WAIT < 13.5
