"""Right and wrong answers of chapter 13."""

import math
import time

import numpy as np
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig

from coursekit.given.ch13_algorithms import CORRIDOR
from coursekit.given.rllib_configs import built
from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}


def dqn(runners=0, envs=4, name=CORRIDOR, **training):
    config = DQNConfig().environment(name).env_runners(num_env_runners=runners, num_envs_per_env_runner=envs)
    return config.training(**training)


def asked(capacity, first, every, replays):
    return {
        "replay_buffer_config": {"capacity": capacity},
        "num_steps_sampled_before_learning_starts": first,
        "target_network_update_freq": every,
        "training_intensity": replays,
    }


def without(key, *numbers):
    return {name: value for name, value in asked(*numbers).items() if name != key}


# dqn_config: a buffer, a beginning, a target network, replays


@accepts("dqn_config")
def larger_draws_instead_of_more_of_them(capacity, first, every, replays):
    return dqn(
        replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": capacity},
        num_steps_sampled_before_learning_starts=first,
        target_network_update_freq=every,
        train_batch_size_per_learner=4 * replays,  # drawn once for every four steps
    )


@rejects("dqn_config")
def nothing_but_the_defaults(capacity, first, every, replays):
    return dqn()


@rejects("dqn_config")
def capacity_left_at_fifty_thousand(*numbers):
    return dqn(**without("replay_buffer_config", *numbers))


@rejects("dqn_config")
def capacity_shared_out_among_the_environments(capacity, *numbers):
    return dqn(**asked(capacity // 4, *numbers))


@rejects("dqn_config")
def begins_at_once(capacity, first, every, replays):
    return dqn(**asked(capacity, 0, every, replays))


@rejects("dqn_config")
def beginning_and_target_swapped(capacity, first, every, replays):
    return dqn(**asked(capacity, every, first, replays))


@rejects("dqn_config")
def target_never_moves_again(*numbers):
    return dqn(**without("target_network_update_freq", *numbers))


@rejects("dqn_config")
def target_counted_in_updates(capacity, first, every, replays):
    return dqn(**asked(capacity, first, every // 4, replays))


@rejects("dqn_config")
def replays_left_at_eight(*numbers):
    return dqn(**without("training_intensity", *numbers))


@rejects("dqn_config")
def replays_taken_for_the_size_of_a_draw(*numbers):
    return dqn(**without("training_intensity", *numbers), train_batch_size_per_learner=numbers[-1])


@rejects("dqn_config")
def two_runner_processes(*numbers):
    return dqn(runners=2, **asked(*numbers))


@rejects("dqn_config")
def one_environment(*numbers):
    return dqn(envs=1, **asked(*numbers))


@rejects("dqn_config")
def another_problem(*numbers):
    return dqn(name="CartPole-v1", **asked(*numbers))


@rejects("dqn_config")
def ppo_with_a_batch_of_that_size(capacity, first, every, replays):
    return PPOConfig().environment(CORRIDOR).training(train_batch_size_per_learner=capacity)


@rejects("dqn_config")
def forgets_to_return(*numbers):
    dqn(**asked(*numbers))


# appo_config: runners, fragments, batches, a learner in this process


def appo(runners, fragment, batch, envs=2, learners=0, kind=APPOConfig):
    config = kind().environment(CORRIDOR).learners(num_learners=learners)
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=envs, rollout_fragment_length=fragment)
    return config.training(train_batch_size_per_learner=batch)


@accepts("appo_config")
def sets_attributes(runners, fragment, batch):
    config = APPOConfig().environment(CORRIDOR)
    config.num_env_runners, config.num_envs_per_env_runner, config.num_learners = runners, 2, 0
    config.rollout_fragment_length = fragment
    config.use_env_runner_state_server = False
    return config.training(train_batch_size_per_learner=batch, lr=0.001)


@rejects("appo_config")
def runners_left_at_two(runners, fragment, batch):
    return appo(2, fragment, batch)


@rejects("appo_config")
def a_learner_process_of_its_own(runners, fragment, batch):
    return appo(runners, fragment, batch, learners=1)


@rejects("appo_config")
def ppo_waits_for_its_runners(runners, fragment, batch):
    return appo(runners, fragment, batch, kind=PPOConfig)


@rejects("appo_config")
def impala_does_not_clip(runners, fragment, batch):
    return appo(runners, fragment, batch, kind=IMPALAConfig)


@rejects("appo_config")
def fragment_and_batch_swapped(runners, fragment, batch):
    return appo(runners, batch, fragment)


@rejects("appo_config")
def fragment_shared_by_the_environments(runners, fragment, batch):
    return appo(runners, fragment // 2, batch)


@rejects("appo_config")
def batch_left_at_the_default(runners, fragment, batch):
    return appo(runners, fragment, 500)


@rejects("appo_config")
def one_environment_in_each(runners, fragment, batch):
    return appo(runners, fragment, batch, envs=1)


@rejects("appo_config")
def returns_the_algorithm(runners, fragment, batch):
    return appo(0, fragment, batch).build_algo()


# compare: one at a time, the same budget, both clocks


def row_of(result, seconds):
    return result["num_env_steps_sampled_lifetime"], seconds, result["env_runners"].get("episode_return_mean", math.nan)


def curve_of(algo, steps, seconds):
    rows, start = [], time.perf_counter()
    while not rows or rows[-1][0] < steps or rows[-1][1] < seconds:
        result = algo.train()
        rows.append(row_of(result, time.perf_counter() - start))
    return rows


def known(rows):
    return [row for row in rows if not math.isnan(row[2])]


@accepts("compare")
def filters_afterwards(configs, steps, seconds):
    curves = {}
    for name in reversed(configs):
        algo = configs[name].build_algo()
        curves[name] = [list(row) for row in known(curve_of(algo, steps, seconds))]
        algo.stop()
    return curves


@accepts("compare")
def by_rllibs_own_clock(configs, steps, seconds):
    curves = {}
    for name, config in configs.items():
        algo, rows, result = config.build_algo(), [], None
        while not result or result["num_env_steps_sampled_lifetime"] < steps or result["time_total_s"] < seconds:
            result = algo.train()
            rows.append(row_of(result, result["time_total_s"]))
        curves[name] = known(rows)
        algo.stop()
    return curves


@accepts("compare")
def with_the_chapters_helper_and_arrays(configs, steps, seconds):
    curves = {}
    for name, config in configs.items():
        with built(config) as [algo]:
            curves[name] = np.array(known(curve_of(algo, steps, seconds)))
    return curves


@accepts("compare")
def asks_whether_episodes_ended_and_says_which_iteration(configs, steps, seconds):
    def curve(algo, steps, seconds):
        rows, played, spent, start = [], 0, 0.0, time.perf_counter()
        while played < steps or spent < seconds:
            result = algo.train()
            seen, spent = result["env_runners"], time.perf_counter() - start
            played = result["num_env_steps_sampled_lifetime"]
            print(algo.iteration == result["training_iteration"], played)
            if seen["num_episodes_lifetime"] and seen["num_episodes"]:
                rows.append((played, spent, seen["episode_return_mean"]))
        return rows

    return compared(configs, steps, seconds, curve)


def compared(configs, steps, seconds, curve=curve_of):
    curves = {}
    for name, config in configs.items():
        algo = config.build_algo()
        try:
            curves[name] = known(curve(algo, steps, seconds))
        finally:
            algo.stop()
    return curves


@rejects("compare")
def builds_all_of_them_first(configs, steps, seconds):
    algos = {name: config.build_algo() for name, config in configs.items()}
    curves = {name: known(curve_of(algo, steps, seconds)) for name, algo in algos.items()}
    for algo in algos.values():
        algo.stop()
    return curves


@rejects("compare")
def never_stops_them(configs, steps, seconds):
    return {name: known(curve_of(config.build_algo(), steps, seconds)) for name, config in configs.items()}


@rejects("compare")
def only_the_budget_of_steps(configs, steps, seconds):
    return compared(configs, steps, 0)


@rejects("compare")
def only_the_budget_of_seconds(configs, steps, seconds):
    return compared(configs, 0, seconds)


@rejects("compare")
def an_iteration_without_a_mean_costs_nothing(configs, steps, seconds):
    def curve(algo, steps, seconds):
        rows, played, spent, start = [], 0, 0.0, time.perf_counter()
        while played < steps or spent < seconds:
            row = row_of(algo.train(), time.perf_counter() - start)
            if not math.isnan(row[2]):
                played, spent = row[0], row[1]
                rows.append(row)
        return rows

    return compared(configs, steps, seconds, curve)


@rejects("compare")
def stops_at_the_first_of_the_two(configs, steps, seconds):
    def curve(algo, steps, seconds):
        rows, start = [], time.perf_counter()
        while not rows or (rows[-1][0] < steps and rows[-1][1] < seconds):
            result = algo.train()
            rows.append(row_of(result, time.perf_counter() - start))
        return rows

    return compared(configs, steps, seconds, curve)


@rejects("compare")
def the_same_number_of_iterations_for_all(configs, steps, seconds):
    def curve(algo, steps, seconds):
        start = time.perf_counter()
        return [row_of(algo.train(), time.perf_counter() - start) for _ in range(10)]

    return compared(configs, steps, seconds, curve)


@rejects("compare")
def the_build_counts(configs, steps, seconds):
    curves = {}
    for name, config in configs.items():
        start = time.perf_counter()
        algo = config.build_algo()
        rows = []
        while not rows or rows[-1][0] < steps or rows[-1][1] < seconds:
            result = algo.train()
            rows.append(row_of(result, time.perf_counter() - start))
        curves[name] = known(rows)
        algo.stop()
    return curves


@rejects("compare")
def one_clock_for_all(configs, steps, seconds):
    start, curves = time.perf_counter(), {}
    for name, config in configs.items():
        algo, rows = config.build_algo(), []
        while not rows or rows[-1][0] < steps or rows[-1][1] < seconds:
            result = algo.train()
            rows.append(row_of(result, time.perf_counter() - start))
        curves[name] = known(rows)
        algo.stop()
    return curves


@rejects("compare")
def steps_of_the_iteration_not_of_the_lifetime(configs, steps, seconds):
    def curve(algo, steps, seconds):
        rows, start, total = [], time.perf_counter(), 0
        while total < steps or time.perf_counter() - start < seconds:
            runners = algo.train()["env_runners"]
            total = runners["num_env_steps_sampled_lifetime"]
            mean = runners.get("episode_return_mean", math.nan)
            rows.append((runners["num_env_steps_sampled"], time.perf_counter() - start, mean))
        return rows

    return compared(configs, steps, seconds, curve)


@rejects("compare")
def the_best_episode_instead_of_the_mean(configs, steps, seconds):
    def curve(algo, steps, seconds):
        rows, start = [], time.perf_counter()
        while not rows or rows[-1][0] < steps or rows[-1][1] < seconds:
            result = algo.train()
            best = result["env_runners"].get("episode_return_max", math.nan)
            rows.append((result["num_env_steps_sampled_lifetime"], time.perf_counter() - start, best))
        return rows

    return compared(configs, steps, seconds, curve)


@rejects("compare")
def keeps_rows_without_a_return(configs, steps, seconds):
    curves = {}
    for name, config in configs.items():
        algo = config.build_algo()
        curves[name] = curve_of(algo, steps, seconds)
        algo.stop()
    return curves


@rejects("compare")
def steps_before_the_first_episode_do_not_count(configs, steps, seconds):
    def curve(algo, steps, seconds):
        rows, start = [], time.perf_counter()
        while not rows or rows[-1][0] < steps or rows[-1][1] < seconds:
            result = algo.train()
            if "episode_return_mean" not in result["env_runners"]:
                start = time.perf_counter()
                continue
            rows.append(row_of(result, time.perf_counter() - start))
        return rows

    return compared(configs, steps, seconds, curve)


@rejects("compare")
def only_the_last_row(configs, steps, seconds):
    return {name: rows[-1] for name, rows in compared(configs, steps, seconds).items()}


# pick_algorithm: steps needed times seconds a step


def cost(one, step_seconds, runners):
    play, own = step_seconds / runners, one["own"] / 1000
    return one["steps"] * (play + own if one["waits"] else max(play, own))


def least(candidates, actions, seconds_of):
    able = [name for name, one in candidates.items() if actions in one["actions"]]
    return min(able, key=lambda name: seconds_of(candidates[name])) if able else None


@accepts("pick_algorithm")
def sorts_the_costs(candidates, actions, step_seconds, runners):
    costs = sorted(
        (cost(one, step_seconds, runners), name) for name, one in candidates.items() if actions in one["actions"]
    )
    return costs[0][1] if costs else None


@rejects("pick_algorithm")
def fewest_steps(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: one["steps"])


@rejects("pick_algorithm")
def cheapest_step(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: cost(one, step_seconds, runners) / one["steps"])


@rejects("pick_algorithm")
def forgets_the_learning(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: one["steps"] * step_seconds / runners)


@rejects("pick_algorithm")
def forgets_the_simulator(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: one["steps"] * one["own"])


@rejects("pick_algorithm")
def forgets_the_runners(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: cost(one, step_seconds, 1))


@rejects("pick_algorithm")
def own_time_taken_for_one_step(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: cost(one | {"own": 1000 * one["own"]}, step_seconds, runners))


@rejects("pick_algorithm")
def all_of_them_wait(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: cost(one | {"waits": True}, step_seconds, runners))


@rejects("pick_algorithm")
def none_of_them_waits(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: cost(one | {"waits": False}, step_seconds, runners))


@rejects("pick_algorithm")
def the_learning_is_shared_out_too(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: cost(one | {"own": one["own"] / runners}, step_seconds, runners))


@rejects("pick_algorithm")
def does_not_ask_for_the_actions(candidates, actions, step_seconds, runners):
    return min(candidates, key=lambda name: cost(candidates[name], step_seconds, runners))
