"""Right and wrong answers of chapter 12."""

import math
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import stats

from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}


# unfair: the settings in which two configs differ, besides those compared


@accepts("unfair")
def collects_a_sorted_list(one, other, compared):
    said, names = other.to_dict(), []
    for name, value in one.to_dict().items():
        if name in compared or (name in said and said.pop(name) == value):
            continue
        names.append(name)
    return sorted({*names, *said} - {*compared})


@accepts("unfair")
def by_the_attributes(one, other, compared):
    names = {*vars(one), *vars(other)}
    return {name for name in names if getattr(one, name, "-") != getattr(other, name, "-")}.difference(compared)


def all_names(one, other):
    one, other = one.to_dict(), other.to_dict()
    return {name for name in one | other if name not in one or name not in other or one[name] != other[name]}


@rejects("unfair", says="doesn't contain")
def a_missing_setting_counts_as_none(one, other, compared):
    first, second = one.to_dict(), other.to_dict()
    return {name for name in first | second if first.get(name) != second.get(name)} - set(compared)


@rejects("unfair", says="doesn't contain")
def without_private_names(one, other, compared):
    return {name for name in all_names(one, other) - set(compared) if not name.startswith("_")}


@rejects("unfair", says="doesn't contain")
def only_names_that_both_have(one, other, compared):
    return (all_names(one, other) & one.to_dict().keys() & other.to_dict().keys()) - set(compared)


@rejects("unfair", says="`compared` lists these")
def forgets_what_is_compared(one, other, compared):
    return all_names(one, other)


@rejects("unfair", says="doesn't contain")
def only_the_usual_suspects(one, other, compared):
    return all_names(one, other) & {"lr", "gamma", "num_epochs", "train_batch_size_per_learner"} - set(compared)


@rejects("unfair", says="don't differ in these")
def looks_for_the_same_object(one, other, compared):
    one, other = one.to_dict(), other.to_dict()
    return {name for name in one if one[name] is not other[name] and name not in compared}


@rejects("unfair")
def yes_or_no(one, other, compared):
    return bool(all_names(one, other) - set(compared))


# fair_pair: two configs that differ in their EnvRunners and environments alone


def lake(batch, runners, envs, **more):
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    from coursekit.given.ch12_env_runners import flatten

    return (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=envs, env_to_module_connector=flatten)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=batch, **more)
        .debugging(seed=0)
    )


@accepts("fair_pair")
def a_copy_with_other_runners(batch):
    single = lake(batch, 1, 1)
    return [single.copy().env_runners(num_env_runners=2, num_envs_per_env_runner=2), single]


@accepts("fair_pair")
def by_a_loop_over_one_number(batch):
    return tuple(lake(batch, runners=number, envs=number) for number in (2, 1))


@rejects("fair_pair", says="in the other order")
def the_single_one_first(batch):
    return lake(batch, 1, 1), lake(batch, 2, 2)


@rejects("fair_pair", says="The config of `single` has [2, 1]")
def leaves_out_the_number_of_runners(batch):
    from ray.rllib.algorithms.ppo import PPOConfig

    many = lake(batch, 2, 2)
    single = many.copy().env_runners(num_env_runners=PPOConfig().num_env_runners, num_envs_per_env_runner=1)
    return many, single


@rejects("fair_pair", says="but it should have")
def the_same_number_of_steps_for_each_environment(batch):
    return lake(4 * batch, 2, 2), lake(batch, 1, 1)


@rejects("fair_pair", says="also differ in ['num_epochs']")
def keeps_the_colleagues_epochs(batch):
    return lake(batch, 2, 2, num_epochs=10), lake(batch, 1, 1)


@rejects("fair_pair", says="must return two configs")
def only_the_large_one(batch):
    return lake(batch, 2, 2)


# time_training: alternately, after one warm-up each


def seconds_of(algo):
    start = time.perf_counter()
    algo.train()
    return time.perf_counter() - start


@accepts("time_training", long=True)
def other_order_every_other_time_by_rllibs_own_clock(many, single, iterations):
    times = {"many": np.zeros(iterations), "single": np.zeros(iterations)}
    many.train(), single.train()
    for number in range(iterations):
        for name, algo in [("many", many), ("single", single)][:: (-1) ** number]:
            times[name][number] = algo.train()["time_this_iter_s"]
    return times


@accepts("time_training")
def pairs_in_tuples_the_single_one_first(many, single, iterations):
    for algo in (single, many):
        algo.train()
    pairs = [(seconds_of(single), seconds_of(many)) for _ in range(iterations)]
    singles, manys = zip(*pairs, strict=True)
    return {"single": singles, "many": manys}


def alternately(many, single, iterations):
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
def the_same_algorithm_twice(many, single, iterations):
    return alternately(many, many, iterations)


@rejects("time_training")
def swaps_the_names(many, single, iterations):
    times = alternately(many, single, iterations)
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


@rejects("time_training", says="at the same time")
def both_at_the_same_time(many, single, iterations):
    many.train(), single.train()
    times = {"many": [], "single": []}
    with ThreadPoolExecutor() as pool:
        for _ in range(iterations):
            for name, seconds in zip(times, pool.map(seconds_of, [many, single]), strict=True):
                times[name].append(seconds)
    return times


@rejects("time_training")
def returns_totals(many, single, iterations):
    times = alternately(many, single, iterations)
    return {name: sum(seconds) for name, seconds in times.items()}


@rejects("time_training")
def stops_what_it_did_not_build(many, single, iterations):
    times = alternately(many, single, iterations)
    many.stop(), single.stop()
    return times


# speedup: the geometric mean of the ratios, and a t interval from the pairs


def interval(differences, factor, spread):
    middle = np.mean(differences)
    return tuple(np.exp([middle, middle - factor * spread, middle + factor * spread]))


def differences_of(times):
    return np.log(times["single"]) - np.log(times["many"])


def t_of(times, confidence=0.95):
    return stats.t.ppf((1 + confidence) / 2, len(times["many"]) - 1)


def standard_error(times, ddof=1):
    return np.std(differences_of(times), ddof=ddof) / math.sqrt(len(times["many"]))


@accepts("speedup")
def with_scipys_paired_test(times):
    test = stats.ttest_rel(np.log(times["single"]), np.log(times["many"]))
    low, high = test.confidence_interval()
    return [stats.gmean(np.divide(times["single"], times["many"])), *np.exp([low, high])]


@accepts("speedup")
def with_the_standard_library(times):
    logs = [math.log(s / m) for s, m in zip(times["single"], times["many"], strict=True)]
    factor = {5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306}[len(logs)]
    middle, half = statistics.fmean(logs), factor * statistics.stdev(logs) / len(logs) ** 0.5
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


@accepts("speedup")
def with_scipys_interval_and_decimal_logarithms(times):
    logs = np.log10(np.array(times["single"]) / np.array(times["many"]))
    return 10 ** logs.mean(), *10 ** np.array(stats.t.interval(0.95, len(logs) - 1, logs.mean(), stats.sem(logs)))


@rejects("speedup", says="1.96 is too small")
def a_normal_interval(times):
    return interval(differences_of(times), 1.96, standard_error(times))


@rejects("speedup", says="ddof=1")
def divides_by_n(times):
    return interval(differences_of(times), t_of(times), standard_error(times, ddof=0))


@rejects("speedup", says="90%")
def five_percent_at_each_end(times):
    return interval(differences_of(times), t_of(times, 0.9), standard_error(times))


@rejects("speedup", says="degrees of freedom")
def one_degree_of_freedom_too_many(times):
    factor = stats.t.ppf(0.975, len(times["many"]))
    return interval(differences_of(times), factor, standard_error(times))


@rejects("speedup", says="root of n")
def forgets_the_root_of_n(times):
    return interval(differences_of(times), t_of(times), np.std(differences_of(times), ddof=1))


@rejects("speedup", says="the pairs' differences")
def as_if_the_times_were_not_paired(times):
    many, single = np.log(times["many"]), np.log(times["single"])
    low, high = stats.ttest_ind(single, many).confidence_interval()
    return np.exp([single.mean() - many.mean(), low, high])


@rejects("speedup", says="totals")
def ratio_of_the_totals(times):
    return sum(times["single"]) / sum(times["many"]), *interval(
        differences_of(times), t_of(times), standard_error(times)
    )[1:]


@rejects("speedup", says="mean of the ratios")
def without_logarithms(times):
    ratios = np.divide(times["single"], times["many"])
    half = t_of(times) * ratios.std(ddof=1) / math.sqrt(len(ratios))
    return ratios.mean(), ratios.mean() - half, ratios.mean() + half


@rejects("speedup", says="reciprocal")
def upside_down(times):
    return interval(-differences_of(times), t_of(times), standard_error(times))


@rejects("speedup", says="still a logarithm")
def forgets_to_come_back_from_the_logarithms(times):
    return tuple(np.log(interval(differences_of(times), t_of(times), standard_error(times))))


@rejects("speedup", says="wrong order")
def the_higher_end_first(times):
    ratio, low, high = interval(differences_of(times), t_of(times), standard_error(times))
    return ratio, high, low


@rejects("speedup", says="ends are still logarithms")
def takes_exp_of_the_ratio_alone(times):
    ratio, low, high = interval(differences_of(times), t_of(times), standard_error(times))
    return ratio, np.log(low), np.log(high)


@rejects("speedup", says="Return three numbers")
def a_dictionary(times):
    return dict(
        zip(["ratio", "low", "high"], interval(differences_of(times), t_of(times), standard_error(times)), strict=True)
    )


@rejects("speedup")
def only_the_ratio(times):
    return math.exp(np.mean(differences_of(times)))


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


@accepts("choose_runners")
def with_arrays(sampling, learning, most, worth=0.05):
    seconds = sampling / np.arange(1, most + 1) + learning
    too_little = np.flatnonzero(1 - seconds[1:] / seconds[:-1] < worth)
    return too_little[0] + 1 if len(too_little) else most


@accepts("choose_runners")
def without_a_division(sampling, learning, most, worth=0.05):
    runners = 1
    while runners < most and sampling >= worth * (runners + 1) * (sampling + learning * runners):
        runners += 1
    return runners


@rejects("choose_runners", says="isn't less than 25%")
def stops_at_exactly_what_is_worth_it(sampling, learning, most, worth=0.05):
    seconds = [sampling / n + learning for n in range(1, most + 1)]
    return next((n for n in range(1, most) if 1 - seconds[n] / seconds[n - 1] <= worth), most)


@rejects("choose_runners")
def compares_seconds_with_a_fraction(sampling, learning, most, worth=0.05):
    seconds = [sampling / n + learning for n in range(1, most + 1)]
    return next((n for n in range(1, most) if seconds[n - 1] - seconds[n] < worth), most)


@rejects("choose_runners", says="You returned None.")
def returns_nothing_when_cores_end(sampling, learning, most, worth=0.05):
    for n in range(1, most):
        if sampling / n - sampling / (n + 1) < worth * (sampling / n + learning):
            return n
    return None


@rejects("choose_runners")
def forgets_the_learner(sampling, learning, most, worth=0.05):
    return walks_up(sampling, 0.0, most, worth)


@rejects("choose_runners", says="between 1 and 3")
def forgets_that_cores_end(sampling, learning, most, worth=0.05):
    return walks_up(sampling, learning, 1000, worth)


@rejects("choose_runners")
def one_too_many(sampling, learning, most, worth=0.05):
    return min(walks_up(sampling, learning, most, worth) + 1, most)


@rejects("choose_runners")
def share_of_the_first_iteration(sampling, learning, most, worth=0.05):
    runners, first = 1, sampling + learning
    while runners < most and sampling / runners - sampling / (runners + 1) >= worth * first:
        runners += 1
    return runners


@rejects("choose_runners", says="saves less than")
def share_of_the_next_iteration(sampling, learning, most, worth=0.05):
    seconds = [sampling / n + learning for n in range(1, most + 1)]
    return next((n for n in range(1, most) if seconds[n - 1] / seconds[n] - 1 < worth), most)


@rejects("choose_runners")
def knows_only_five_percent(sampling, learning, most, worth=0.05):
    return walks_up(sampling, learning, most)
