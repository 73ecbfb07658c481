"""Right and wrong answers of chapter 12."""

import time

import numpy as np
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from coursekit.given.ch12_env_runners import flatten
from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}


def ppo(batch, runners, environments, hidden=(32, 32), epochs=30, lake="FrozenLake-v1", **options):
    return (
        PPOConfig()
        .environment(lake, env_config=options)
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=environments, env_to_module_connector=flatten)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=list(hidden)))
        .training(train_batch_size_per_learner=batch, num_epochs=epochs)
    )


# many_config: two EnvRunners with two environments each


@accepts("many_config")
def sets_attributes(batch):
    config = PPOConfig().environment(env="FrozenLake-v1").framework("torch")
    config.num_env_runners = config.num_envs_per_env_runner = 2
    config.env_runners(env_to_module_connector=lambda env, spaces=None, device=None: flatten())
    config.rl_module(model_config={"fcnet_hiddens": [32, 32]})
    return config.training(train_batch_size_per_learner=batch, lr=0.001)


@rejects("many_config")
def swapped_with_single(batch):
    return ppo(batch, 1, 1)


@rejects("many_config")
def only_the_local_runner(batch):
    return ppo(batch, 0, 2)


@rejects("many_config")
def one_environment_in_each(batch):
    return ppo(batch, 2, 1)


@rejects("many_config")
def four_environments_in_one_runner(batch):
    return ppo(batch, 1, 4)


@rejects("many_config")
def hidden_layers_left_at_the_default(batch):
    return ppo(batch, 2, 2, hidden=(256, 256))


@rejects("many_config")
def hidden_layers_in_the_old_place(batch):
    return (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=2, env_to_module_connector=flatten)
        .training(model={"fcnet_hiddens": [32, 32]}, train_batch_size_per_learner=batch)
    )


@rejects("many_config")
def the_larger_lake(batch):
    return ppo(batch, 2, 2, lake="FrozenLake8x8-v1")


@rejects("many_config")
def another_map(batch):
    return ppo(batch, 2, 2, map_name="8x8")


@rejects("many_config")
def a_batch_of_its_own(batch):
    return ppo(4000, 2, 2)


@rejects("many_config")
def less_work_for_the_learner(batch):
    return ppo(batch, 2, 2, epochs=5)


@rejects("many_config")
def another_algorithm(batch):
    return (
        DQNConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=2, env_to_module_connector=flatten)
        .training(train_batch_size_per_learner=batch)
    )


@rejects("many_config")
def forgets_to_return(batch):
    ppo(batch, 2, 2)


@rejects("many_config")
def network_cannot_read_a_number(batch):
    return (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=2, sample_timeout_s=5)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=batch)
    )


# single_config: one EnvRunner with one environment


@accepts("single_config")
def changes_a_copy(batch):
    config = ppo(batch, 2, 2).copy(copy_frozen=False)
    return config.env_runners(num_env_runners=1, num_envs_per_env_runner=1)


@rejects("single_config")
def swapped_with_many(batch):
    return ppo(batch, 2, 2)


@rejects("single_config")
def leaves_the_default_of_two_runners(batch):
    return (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_envs_per_env_runner=1, env_to_module_connector=flatten)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=batch)
    )


@rejects("single_config")
def no_runner_of_its_own(batch):
    return ppo(batch, 0, 1)


@rejects("single_config")
def a_smaller_network_is_unfair(batch):
    return ppo(batch, 1, 1, hidden=(8,))


@rejects("single_config")
def a_quarter_of_the_batch(batch):
    return ppo(batch // 4, 1, 1)


@rejects("single_config")
def builds_it(batch):
    return ppo(batch, 0, 1).build_algo()


# time_training: in turn, after one warm-up each


def seconds_of(algo):
    start = time.perf_counter()
    algo.train()
    return time.perf_counter() - start


@accepts("time_training")
def other_order_every_other_time_by_rllibs_own_clock(many, single, iterations):
    times = {"many": np.zeros(iterations), "single": np.zeros(iterations)}
    many.train(), single.train()
    for number in range(iterations):
        for name, algo in [("many", many), ("single", single)][:: (-1) ** number]:
            times[name][number] = algo.train()["time_this_iter_s"]
    return times


def in_turn(many, single, iterations):
    many.train(), single.train()
    pairs = [(seconds_of(many), seconds_of(single)) for _ in range(iterations)]
    return {"many": [m for m, _ in pairs], "single": [s for _, s in pairs]}


@rejects("time_training")
def one_after_the_other(many, single, iterations):
    times = {}
    for name, algo in [("many", many), ("single", single)]:
        algo.train()
        times[name] = [seconds_of(algo) for _ in range(iterations)]
    return times


@rejects("time_training")
def counts_the_warm_up(many, single, iterations):
    pairs = [(seconds_of(many), seconds_of(single)) for _ in range(iterations + 1)]
    return {"many": [m for m, _ in pairs], "single": [s for _, s in pairs]}


@rejects("time_training")
def keeps_the_warm_up_and_drops_the_last(many, single, iterations):
    times = counts_the_warm_up(many, single, iterations)
    return {name: seconds[:-1] for name, seconds in times.items()}


@rejects("time_training")
def no_warm_up(many, single, iterations):
    pairs = [(seconds_of(many), seconds_of(single)) for _ in range(iterations)]
    return {"many": [m for m, _ in pairs], "single": [s for _, s in pairs]}


@rejects("time_training")
def one_iteration_too_few(many, single, iterations):
    return in_turn(many, single, iterations - 1)


@rejects("time_training")
def always_the_same_number(many, single, iterations):
    return in_turn(many, single, 2)


@rejects("time_training")
def invents_the_times(many, single, iterations):
    for _ in range(iterations + 1):
        many.train(), single.train()
    return {"many": [0.04] * iterations, "single": [0.06] * iterations}


@rejects("time_training")
def invents_everything(many, single, iterations):
    return {"many": [2.26] * iterations, "single": [3.6] * iterations}


@rejects("time_training")
def the_same_algorithm_twice(many, single, iterations):
    return in_turn(many, many, iterations)


@rejects("time_training")
def swaps_the_names(many, single, iterations):
    times = in_turn(many, single, iterations)
    return {"many": times["single"], "single": times["many"]}


@rejects("time_training")
def one_clock_for_each_pair(many, single, iterations):
    many.train(), single.train()
    times = {"many": [], "single": []}
    for _ in range(iterations):
        start = time.perf_counter()
        many.train()
        times["many"].append(time.perf_counter() - start)
        single.train()
        times["single"].append(time.perf_counter() - start)
    return times


@rejects("time_training")
def shares_the_total_evenly(many, single, iterations):
    times = in_turn(many, single, iterations)
    return {name: [sum(seconds) / iterations] * iterations for name, seconds in times.items()}


@rejects("time_training")
def returns_totals(many, single, iterations):
    times = in_turn(many, single, iterations)
    return {name: sum(seconds) for name, seconds in times.items()}


@rejects("time_training")
def stops_what_it_did_not_build(many, single, iterations):
    times = in_turn(many, single, iterations)
    many.stop(), single.stop()
    return times


# speedup: the ratio of the totals, and an interval from pairs


def ratio_of(times):
    return sum(times["single"]) / sum(times["many"])


def from_pairs(times, low=0.025, high=0.975, draws=2000):
    pairs, rng = np.array([times["many"], times["single"]]), np.random.default_rng(7)
    sums = [pairs[:, rng.integers(pairs.shape[1], size=pairs.shape[1])].sum(axis=1) for _ in range(draws)]
    ratios = [single / many for many, single in sums]
    return ratio_of(times), np.quantile(ratios, low), np.quantile(ratios, high)


@accepts("speedup")
def all_at_once(times):
    return np.array(from_pairs(times, draws=5000))


@accepts("speedup")
def sorts_and_counts(times):
    rng, pairs = np.random.default_rng(3), list(zip(times["many"], times["single"], strict=True))
    ratios = []
    for _ in range(2000):
        drawn = [pairs[i] for i in rng.integers(len(pairs), size=len(pairs))]
        ratios.append(sum(s for _, s in drawn) / sum(m for m, _ in drawn))
    ratios.sort()
    return ratio_of(times), ratios[50], ratios[-51]


@rejects("speedup")
def upside_down(times):
    ratio, low, high = from_pairs(times)
    return 1 / ratio, 1 / high, 1 / low


@rejects("speedup")
def draws_each_alone(times):
    rng, drawn = np.random.default_rng(0), {}
    for name, seconds in times.items():
        drawn[name] = [rng.choice(seconds, size=len(seconds)).sum() for _ in range(2000)]
    ratios = np.array(drawn["single"]) / np.array(drawn["many"])
    return ratio_of(times), *np.quantile(ratios, [0.025, 0.975])


@rejects("speedup")
def draws_without_replacement(times):
    return (ratio_of(times),) * 3


@rejects("speedup")
def smallest_and_largest_pair(times):
    ratios = np.array(times["single"]) / np.array(times["many"])
    return ratio_of(times), ratios.min(), ratios.max()


@rejects("speedup")
def mean_of_the_ratios(times):
    ratios = np.array(times["single"]) / np.array(times["many"])
    return ratios.mean(), *from_pairs(times)[1:]


@rejects("speedup")
def cuts_five_percent_at_each_end(times):
    return from_pairs(times, low=0.06, high=0.94, draws=20_000)


@rejects("speedup")
def draws_one_pair_each_time(times):
    ratios = np.array(times["single"]) / np.array(times["many"])
    return ratio_of(times), *np.quantile(ratios, [0.025, 0.975])


@rejects("speedup")
def the_earlier_courses_figures(times):
    return 18.0 / 11.3, 1.5, 1.7


@rejects("speedup")
def only_the_ratio(times):
    return ratio_of(times)


# choose_runners: stop where one more saves too little


@accepts("choose_runners")
def walks_up(sampling, learning, most, worth=0.05):
    runners = 1
    while runners < most:
        now, then = sampling / runners + learning, sampling / (runners + 1) + learning
        if now - then < worth * now:
            break
        runners += 1
    return runners


@rejects("choose_runners")
def forgets_the_learner(sampling, learning, most, worth=0.05):
    return walks_up(sampling, 0.0, most, worth)


@rejects("choose_runners")
def forgets_that_cores_end(sampling, learning, most, worth=0.05):
    return walks_up(sampling, learning, 1000, worth)


@rejects("choose_runners")
def one_too_many(sampling, learning, most, worth=0.05):
    return min(walks_up(sampling, learning, most, worth) + 1, most)


@rejects("choose_runners")
def always_takes_all(sampling, learning, most, worth=0.05):
    return most


@rejects("choose_runners")
def until_sampling_is_as_short_as_learning(sampling, learning, most, worth=0.05):
    return int(min(most, max(1, np.ceil(sampling / max(learning, 1e-9)))))


@rejects("choose_runners")
def share_of_the_first_iteration(sampling, learning, most, worth=0.05):
    runners, first = 1, sampling + learning
    while runners < most and sampling / runners - sampling / (runners + 1) >= worth * first:
        runners += 1
    return runners


@rejects("choose_runners")
def divides_the_learning_too(sampling, learning, most, worth=0.05):
    return walks_up(sampling + learning, 0.0, most, worth)


@rejects("choose_runners")
def knows_only_five_percent(sampling, learning, most, worth=0.05):
    return walks_up(sampling, learning, most)
