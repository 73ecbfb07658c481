"""Right and wrong answers of chapter 13."""

import math
import time

import numpy as np
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig

from coursekit.given.ch13_algorithms import CORRIDOR
from coursekit.given.rllib_configs import built
from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}


def dqn(length, runners=0, envs=4, kind=DQNConfig, name=CORRIDOR, **training):
    config = kind().environment(name, env_config={"length": length} if name == CORRIDOR else {})
    return config.env_runners(num_env_runners=runners, num_envs_per_env_runner=envs).training(**training)


def quick(steps):
    return {"epsilon": [(0, 1.0), (steps // 2, 0.05)], "num_steps_sampled_before_learning_starts": 100, "lr": 1e-3}


# short_dqn: learning begins early, and exploring ends


@accepts("short_dqn")
def eight_environments_and_larger_draws(length, steps):
    return dqn(length, envs=8, **quick(steps), train_batch_size_per_learner=128, target_network_update_freq=50)


@accepts("short_dqn", long=True)
def hardly_explores_from_the_beginning(length, steps):
    few = {"epsilon": 0.1, "num_steps_sampled_before_learning_starts": 50}
    return dqn(length, **few, lr=1e-3, training_intensity=16, target_network_update_freq=20)


def schedules(steps):
    """Return the two settings that count steps."""
    return {"epsilon": [(0, 1.0), (steps // 2, 0.05)], "num_steps_sampled_before_learning_starts": steps // 10}


@accepts("short_dqn", long=True)
def three_settings_and_no_more(length, steps):
    return dqn(length, **schedules(steps), target_network_update_freq=20)


@rejects("short_dqn", says="How often did the target network", long=True)
def hardly_ever_copies_the_weights(length, steps):
    return dqn(length, **schedules(steps), training_intensity=16, target_network_update_freq=steps)


@rejects("short_dqn", long=True)
def the_colleagues_defaults(length, steps):
    return dqn(length)


@rejects("short_dqn")
def explores_to_the_end(length, steps):
    return dqn(length, lr=1e-3, num_steps_sampled_before_learning_starts=100, target_network_update_freq=20)


@rejects("short_dqn")
def learns_more_often_but_not_earlier(length, steps):
    return dqn(length, epsilon=[(0, 1.0), (500, 0.05)], training_intensity=32)


@rejects("short_dqn")
def ppo_instead(length, steps):
    return dqn(length, kind=PPOConfig, train_batch_size_per_learner=128, lr=1e-3)


@rejects("short_dqn")
def a_shorter_corridor(length, steps):
    return dqn(5, **quick(steps))


@rejects("short_dqn")
def forgets_to_return(length, steps):
    dqn(length, **quick(steps))


# paced_appo: from seconds to steps, a learner in this process


def appo(runners, fragment, batch, envs=2, learners=0, kind=APPOConfig):
    config = kind().environment(CORRIDOR).learners(num_learners=learners)
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=envs, rollout_fragment_length=round(fragment))
    return config.training(train_batch_size_per_learner=round(batch))


@accepts("paced_appo")
def sets_attributes(runners, nap, pace, messages):
    config = APPOConfig().environment(CORRIDOR)
    config.num_env_runners, config.num_envs_per_env_runner, config.num_learners = runners, 2, 0
    config.rollout_fragment_length = int(pace / messages / nap / 2 + 0.5)
    config.use_env_runner_state_server = False
    return config.training(train_batch_size_per_learner=int(pace / nap + 0.5) * (runners or 1), lr=0.001)


@accepts("paced_appo", long=True)
def batch_from_the_fragments(runners, nap, pace, messages):
    fragment = math.ceil(pace / (2 * messages * nap) - 1e-6)
    return appo(runners, fragment, 2 * fragment * messages * max(1, runners))


@accepts("paced_appo", long=True)
def cuts_off_the_decimals(runners, nap, pace, messages):
    fragment = int(pace / nap / messages / 2)
    return appo(runners, fragment, fragment * messages * 2 * runners)


@rejects("paced_appo")
def fragment_divided_by_the_runners(runners, nap, pace, messages):
    return appo(runners, pace / nap / messages / 2 / runners, runners * pace / nap)


@rejects("paced_appo")
def two_environments_play_twice_as_much(runners, nap, pace, messages):
    return appo(runners, pace / nap / messages, 2 * max(runners, 1) * pace / nap)


@rejects("paced_appo")
def fragment_not_shared_by_the_environments(runners, nap, pace, messages):
    return appo(runners, pace / nap / messages, max(runners, 1) * pace / nap)


@rejects("paced_appo")
def batch_forgets_the_runners(runners, nap, pace, messages):
    return appo(runners, pace / nap / messages / 2, pace / nap)


@rejects("paced_appo")
def runners_left_at_two(runners, nap, pace, messages):
    return appo(2, pace / nap / messages / 2, max(runners, 1) * pace / nap)


@rejects("paced_appo")
def a_learner_process_of_its_own(runners, nap, pace, messages):
    return appo(runners, pace / nap / messages / 2, max(runners, 1) * pace / nap, learners=1)


@rejects("paced_appo")
def ppo_waits_for_its_runners(runners, nap, pace, messages):
    return appo(runners, pace / nap / messages / 2, max(runners, 1) * pace / nap, kind=PPOConfig)


@rejects("paced_appo")
def one_environment_in_each(runners, nap, pace, messages):
    return appo(runners, pace / nap / messages, max(runners, 1) * pace / nap, envs=1)


@rejects("paced_appo")
def returns_the_algorithm(runners, nap, pace, messages):
    return appo(0, 32, 256).build_algo()


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
def trains_on_when_the_steps_are_just_used_up(configs, steps, seconds):
    return compared(configs, steps + 1, seconds)


@rejects("compare", says="number of rows")
def a_mean_return_of_zero_counts_as_none(configs, steps, seconds):
    return {name: [row for row in rows if row[2]] for name, rows in compared(configs, steps, seconds).items()}


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


@rejects("compare", says="must be a list of rows")
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
def forgets_the_learning(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: one["steps"] * step_seconds / runners)


@rejects("pick_algorithm")
def forgets_the_runners(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: cost(one, step_seconds, 1))


@rejects("pick_algorithm")
def own_time_taken_for_one_step(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: cost(one | {"own": 1000 * one["own"]}, step_seconds, runners))


@rejects("pick_algorithm")
def none_of_them_waits(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: cost(one | {"waits": False}, step_seconds, runners))


@rejects("pick_algorithm")
def waiting_the_other_way_round(candidates, actions, step_seconds, runners):
    return least(candidates, actions, lambda one: cost(one | {"waits": not one["waits"]}, step_seconds, runners))


@rejects("pick_algorithm")
def compares_the_action_with_the_whole_list(candidates, actions, step_seconds, runners):
    able = {name: cost(one, step_seconds, runners) for name, one in candidates.items() if one["actions"] == actions}
    return min(able, key=able.get, default=None)


@accepts("pick_algorithm")
def sorts_a_table_of_totals(candidates, actions, step_seconds, runners):
    import pandas

    table = pandas.DataFrame(candidates).T
    able = table[[actions in kinds for kinds in table["actions"]]]
    if able.empty:
        return None
    sampling, own = able["steps"] * step_seconds / runners, able["steps"] * able["own"] / 1000
    seconds = (sampling + own).where(able["waits"].astype(bool), np.maximum(sampling.astype(float), own.astype(float)))
    return str(seconds.astype(float).idxmin())


@rejects("pick_algorithm")
def does_not_ask_for_the_actions(candidates, actions, step_seconds, runners):
    return min(candidates, key=lambda name: cost(candidates[name], step_seconds, runners))
