"""The capstone's warehouse: Gymnasium's rules, the same world one by one and side by side, and what is known of its rules."""

import functools
import pickle
from collections import Counter
from itertools import combinations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from coursekit.given.warehouse import (
    BATTERY,
    CREEP,
    EACH,
    EPISODE_STEPS,
    FAR,
    KINDS,
    NUMBERS,
    OWN,
    PLACES,
    ROOM,
    SHELVES,
    STATION,
    TABLE,
    WORLD,
    Warehouse,
    baseline,
    draw_world,
    evaluate,
    make_envs,
    paying,
    random_actions,
    routes,
)


@pytest.mark.filterwarnings("error")
def test_it_passes_gymnasiums_own_checker():
    check_env(gymnasium.make("coursekit.given.warehouse:Warehouse-v0").unwrapped)


def test_many_warehouses_are_as_many_single_ones_step_by_step():
    count, world, rng = 5, draw_world(5), np.random.default_rng(0)
    singles, together = [Warehouse(world) for _ in range(count)], make_envs(count, world)
    obs, _ = together.reset(seed=40)
    assert np.array_equal(obs, [single.reset(seed=40 + i)[0] for i, single in enumerate(singles)])
    over, earned, loads = False, 0.0, set()
    for _ in range(2 * EPISODE_STEPS + 20):  # through two ends: the next episodes must be alike, too
        actions = np.where(rng.random(count) < 0.8, baseline(obs), rng.integers(PLACES, size=count))
        obs, rewards, terminated, truncated, _ = together.step(actions)
        if over:
            alone = [(single.reset()[0], 0.0, False, False) for single in singles]
        else:
            alone = [single.step(action)[:4] for single, action in zip(singles, actions, strict=True)]
        for got, want in zip((obs, rewards, terminated, truncated), zip(*alone, strict=True), strict=True):
            assert np.array_equal(got, want)
        over, earned = truncated.all(), earned + rewards.sum()
        loads |= {len(single.load) for single in singles}
    assert (loads, earned > 100) == ({0, 1, 2, 3}, True)  # a lot happened


def test_an_episode_lasts_so_many_steps_and_is_truncated():
    envs = make_envs(2)
    envs.reset(seed=0)
    ends = [envs.step([0, 1])[2:4] for _ in range(EPISODE_STEPS)]
    assert [truncated.any() for _, truncated in ends] == [False] * (EPISODE_STEPS - 1) + [True]
    assert not any(terminated.any() for terminated, _ in ends)


def driven(env: Warehouse, place: int) -> float:
    """Drive to a place; return what came in on the way."""
    pay = 0.0
    for _ in range(EPISODE_STEPS):
        pay += env.step(place)[1]
        if env.square == env.goals[place]:
            return pay
    raise AssertionError("It never arrived.")


def test_a_parcel_pays_when_it_is_delivered_and_no_sooner():
    env = Warehouse(WORLD._replace(prices=(5.0, -2.0, 1.0, 0.0)))
    env.reset(seed=0)
    env.kind[:2], env.patience[:2] = [0, 1], [150, 150]
    assert [driven(env, 0), env.load, driven(env, 1), env.load] == [0.0, [0, 1], 0.0, [0, 1]]
    assert (driven(env, TABLE), env.load) == (3.0, [])


def test_a_full_robot_takes_nothing_more_and_passing_by_takes_nothing():
    env = Warehouse()
    env.reset(seed=0)
    env.load, env.kind[0], env.patience[0] = [0] * ROOM, 2, 150
    driven(env, 0)
    assert (len(env.load), env.kind[0]) == (ROOM, 2)
    env.load = []
    driven(env, TABLE)
    env.step(4)
    assert env.load == []


def test_a_parcel_that_waited_too_long_is_gone():
    env = Warehouse()
    env.reset(seed=0)
    env.coming[:] = -1
    env.kind, env.patience = [0] + [-1] * 7, [2] + [0] * 7
    env.step(TABLE)
    assert (env.kind[0], env.patience[0]) == (0, 1)
    env.step(TABLE)
    assert env.kind[0] == -1


def test_without_a_battery_it_creeps_and_the_station_exchanges_it():
    env = Warehouse()
    env.reset(seed=0)
    env.battery, squares = 0, []
    for _ in range(2 * CREEP):
        env.step(STATION)
        squares.append(env.square)
    assert len(set(squares)) == 3  # two squares in eight steps, and where it stood
    driven(env, STATION)
    assert env.battery == BATTERY


def test_observations_say_what_there_is_and_not_what_it_pays():
    cheap, dear = (Warehouse(WORLD._replace(prices=(price,) * 4)) for price in (1, 9))
    (obs, _), (other, _) = cheap.reset(seed=3), dear.reset(seed=3)
    assert obs.shape == (NUMBERS,)
    assert np.array_equal(obs, other)
    shelves = obs[OWN:].reshape(SHELVES, EACH)
    waits, kinds = shelves[:, 1], shelves[:, 2:]
    assert np.array_equal(kinds.sum(axis=1), waits > 0)


def test_who_got_a_parcel_orders_again_on_the_first_empty_shelf():
    env = Warehouse(WORLD._replace(follows=(3, -1, -1, -1)))
    env.reset(seed=0)
    env.coming[:] = -1
    env.load, env.kind, env.patience = [0, 1], [2, -1] + [2] * 6, [50, 0] + [50] * 6
    env.step(TABLE)
    assert (env.kind[1], env.patience[1], env.kind.count(3)) == (3, 59, 1)


@pytest.mark.parametrize("seed", range(8))
def test_a_world_has_ways_to_all_places_and_a_customer_who_is_worth_a_loss(seed):
    world = draw_world(seed)
    assert routes(world.plan).steps[:, routes(world.plan).goals].max() <= FAR
    (trial,) = [k for k, p in enumerate(world.prices) if p < 0 <= world.follows[k]]
    assert worth(world, trial) > max(p for p in world.prices if p < 10)
    assert sum(world.shares) == pytest.approx(1)


def test_prices_customers_and_map_differ_from_world_to_world():
    worlds = [draw_world(seed) for seed in range(20)]
    assert draw_world(7) == draw_world(7)
    for part in zip(*worlds, strict=True):
        assert len(set(part)) > 5


@pytest.mark.parametrize("seed", range(4))
def test_random_is_poor_and_who_thinks_ahead_earns_far_more_than_who_knows_the_prices(seed):
    world = draw_world(seed)
    in_all = [worth(world, kind) for kind in range(KINDS)]
    policies = random_actions, baseline, paying(world.prices), paying(in_all)
    envs = functools.partial(make_envs, world=world)
    chance, rule, informed, ahead = (evaluate(policy, 100, 1, envs).mean() for policy in policies)
    assert chance < 0.2 * rule
    assert rule > 1.3 * informed
    assert ahead > 1.15 * rule


def worth(world, kind):
    """Return what a parcel of a kind pays, with all that its customer orders after it."""
    following = world.follows[kind]
    return world.prices[kind] + (worth(world, following) if following >= 0 else 0)


@pytest.mark.slow
def test_no_rank_of_prices_says_in_every_world_which_kinds_to_fetch():
    sets = [
        ranks for count in (1, 2, 3) for ranks in combinations(range(KINDS), count) if 3 in ranks
    ]  # with the dearest
    leads = Counter()
    for seed in range(20):
        world = draw_world(seed)
        envs, kinds = functools.partial(make_envs, world=world), np.argsort(world.prices)
        rule = evaluate(baseline, 20, 1, envs).mean()
        for ranks in sets:
            leads[ranks] += evaluate(functools.partial(baseline, kinds=kinds[list(ranks)]), 20, 1, envs).mean() > rule
    assert max(leads.values()) <= 13, leads


def test_it_goes_to_other_processes_as_it_is_and_the_same_seed_gives_the_same_episodes():
    assert pickle.loads(pickle.dumps(make_envs)) is make_envs
    assert np.array_equal(evaluate(baseline, 20, seed=5), evaluate(baseline, 20, seed=5))
    assert not np.array_equal(evaluate(baseline, 20, seed=5), evaluate(baseline, 20, seed=6))


def test_a_seed_that_was_forgotten_is_asked_for():
    with pytest.raises(TypeError, match="the third is the seed"):
        evaluate(baseline, 5, make_envs)


def test_a_picture_shows_what_has_changed():
    env = Warehouse(render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    env.step(0)
    assert before.shape == env.render().shape
    assert (before.ndim, before.dtype) == (3, np.uint8)
    assert not np.array_equal(before, env.render())
    assert Warehouse().render() is None
