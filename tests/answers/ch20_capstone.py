"""Right and wrong answers of chapter 20."""

import functools
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import ray
import torch

from coursekit.author.definitions import definitions
from coursekit.given import warehouse
from coursekit.given.warehouse import baseline, evaluate, paying, random_actions
from tests.answers import accepts, rejects

RAY = {"num_cpus": 2}


@functools.cache
def chapter() -> SimpleNamespace:
    """Return what the solved notebook defines."""
    torch.set_num_threads(1)  # as the notebook does
    return SimpleNamespace(**definitions("ch20_capstone"))


def own_rule(observations):
    """Return what the baseline does, but to the station sooner."""
    return np.where(observations[:, 0] < 0.3, warehouse.STATION, baseline(observations))


@accepts("valid_entry")
def even_chance_is_valid(make_envs, budget):
    for seed in range(3):
        budget.report(evaluate(random_actions, 30, seed, make_envs).mean())
    return lambda observations: random_actions(observations).tolist()


@accepts("valid_entry")
def twice_as_many_episodes_in_two_tests(make_envs, budget):
    for seed in range(2):
        budget.report(evaluate(own_rule, 50, seed, make_envs).mean())
    return own_rule


@accepts("valid_entry")
def measures_in_a_loop_of_its_own(make_envs, budget):
    envs = make_envs(60)
    obs, _ = envs.reset(seed=11)
    total = np.zeros(60)
    for _ in range(warehouse.EPISODE_STEPS):
        obs, rewards, *_ = envs.step(own_rule(obs))
        total += rewards
    budget.report(total.mean())
    return own_rule


class Hurried:
    """A policy that is an object."""

    def __call__(self, observations):
        return own_rule(observations).astype(np.int32)


@accepts("valid_entry")
def a_policy_that_is_an_object(make_envs, budget):
    budget.report(float(np.median([evaluate(Hurried(), 50, seed, make_envs).mean() for seed in range(3)])))
    return Hurried()


@rejects("valid_entry", says="The last number that it reported was")
def measures_the_baseline_and_returns_hurry(make_envs, budget):
    budget.report(evaluate(baseline, 50, 1, make_envs).mean())
    return chapter().hurry


@rejects("valid_entry", says="it is the baseline")
def measures_and_returns_the_baseline(make_envs, budget):
    budget.report(evaluate(baseline, 50, 1, make_envs).mean())
    return baseline


@rejects("valid_entry", says="the third is the seed, a number")
def forgets_the_seed(make_envs, budget):
    budget.report(evaluate(own_rule, 50, make_envs).mean())
    return own_rule


@rejects("valid_entry", says="report their mean")
def reports_every_return(make_envs, budget):
    budget.report(evaluate(own_rule, 50, 1, make_envs))
    return own_rule


@rejects("valid_entry")
def measures_in_the_usual_warehouse(make_envs, budget):
    budget.report(evaluate(own_rule, 50).mean())
    return own_rule


@rejects("valid_entry", says="It ran 5 whole episodes")
def five_episodes(make_envs, budget):
    budget.report(evaluate(own_rule, 5, 1, make_envs).mean())
    return own_rule


@rejects("valid_entry")
def reports_nothing(make_envs, budget):
    return own_rule


@rejects("valid_entry")
def reports_all_episodes_together(make_envs, budget):
    budget.report(evaluate(own_rule, 50, 1, make_envs).sum())
    return own_rule


@rejects("valid_entry")
def returns_actions_for_a_policy(make_envs, budget):
    obs, _ = make_envs(10).reset(seed=0)
    budget.report(evaluate(own_rule, 20, 1, make_envs).mean())
    return own_rule(obs)


@rejects("valid_entry")
def returns_nothing(make_envs, budget):
    budget.report(evaluate(own_rule, 20, 1, make_envs).mean())


@rejects("valid_entry")
def returns_scores_for_actions(make_envs, budget):
    return lambda observations: np.eye(10)[own_rule(observations)]


@rejects("valid_entry")
def always_answers_for_fifty(make_envs, budget):
    budget.report(evaluate(own_rule, 50, 1, make_envs).mean())
    return lambda observations: np.resize(own_rule(observations), 50)


@rejects("valid_entry")
def probabilities_for_actions(make_envs, budget):
    return lambda observations: own_rule(observations) / 10


@rejects("valid_entry")
def never_looks_at_the_budget(make_envs, budget):
    end = time.process_time() + 3.6
    while time.process_time() < end:
        budget.report(evaluate(own_rule, 50, 1, make_envs).mean())
    return own_rule


def alone(make_envs, budget, rounds, envs=64, goal=1.1):
    """Return a policy after at most this many iterations of collecting and learning in this process."""
    ch = chapter()
    policy = ch.Policy()
    sampler = ch.Sampler(make_envs, envs, seed=3)
    optimizer = torch.optim.Adam(policy.parameters(), 8e-3)
    enough, test = goal * evaluate(baseline, 40, 0, make_envs).mean(), 0.0
    for i in range(rounds):
        optimizer.param_groups[0]["lr"] = 8e-3 * max(1 - i / rounds, 0.05)
        sampler.set_weights(policy.weights())
        ch.learn(policy, optimizer, ch.joined([sampler.sample()]))
        if goal < np.inf and (i % 6 == 5 or rounds < 6):
            test = evaluate(ch.greedy(policy.weights()), 40, 0, make_envs).mean()
            budget.report(test)
        if test > enough or budget.left() < 2:
            break
    return policy


@accepts("beats_random", long=True)
def with_half_of_the_warehouses(make_envs, budget):
    return chapter().greedy(alone(make_envs, budget, 500, envs=32).weights())


@accepts("beats_random", long=True)
def clones_the_baseline(make_envs, budget):
    ch = chapter()
    policy = ch.Policy()
    optimizer = torch.optim.Adam(policy.parameters(), 8e-3)
    envs = make_envs(64)
    obs, _ = envs.reset(seed=5)
    seen, done = [], []
    for _ in range(300):
        actions = baseline(obs)
        seen.append(obs)
        done.append(actions)
        obs, *_ = envs.step(np.where(np.random.rand(64) < 0.1, random_actions(obs), actions))
    x, y = torch.tensor(np.concatenate(seen)), torch.tensor(np.concatenate(done))
    for _ in range(4):
        for _ in range(5):
            for rows in torch.randperm(len(x)).split(1024):
                loss = torch.nn.functional.cross_entropy(policy(x[rows])[0], y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        budget.report(evaluate(ch.greedy(policy.weights()), 50, 900, make_envs).mean())
    return ch.greedy(policy.weights())


def least_squares(make_envs):
    """Return the prices that a look at many deliveries gives."""
    envs = make_envs(32)
    before, _ = envs.reset(seed=1)
    loads, pay = [], []
    for _ in range(150):
        obs, rewards, *_ = envs.step(baseline(before))
        loads += [before[rewards != 0, 3:7]]
        pay += [rewards[rewards != 0]]
        before = obs
    return np.linalg.lstsq(np.concatenate(loads), np.concatenate(pay), rcond=None)[0]


@accepts("beats_random")
def keeps_the_best_of_sixteen_rules(make_envs, budget):
    sets = [[kind for kind in range(4) if number >> kind & 1] for number in range(1, 16)]
    earned = []
    for kinds in sets:
        earned.append(evaluate(partial(baseline, kinds=kinds), 20, 1, make_envs).mean())
        budget.report(max(earned))
    return partial(baseline, kinds=sets[np.argmax(earned)])


@rejects("beats_random", says="Three quarters of the baseline's")
def learns_the_prices_by_least_squares(make_envs, budget):
    policy = paying(least_squares(make_envs))
    for seed in range(3):
        budget.report(evaluate(policy, 50, seed, make_envs).mean())
    return policy


def best_of_sixteen(make_envs):
    sets = [[kind for kind in range(4) if number >> kind & 1] for number in range(1, 16)]
    return max(
        (partial(baseline, kinds=kinds) for kinds in sets), key=lambda rule: evaluate(rule, 20, 1, make_envs).mean()
    )


@rejects("beats_random", says="The last number that it reported was")
def reports_fractions_of_the_baseline(make_envs, budget):
    policy = best_of_sixteen(make_envs)
    for seed in range(3):
        budget.report(evaluate(policy, 50, seed, make_envs).mean() / evaluate(baseline, 50, seed, make_envs).mean())
    return policy


@rejects("beats_random", says="Three quarters of the baseline's")
def returns_the_policy_from_before_the_training(make_envs, budget):
    ch = chapter()
    policy = ch.greedy(ch.Policy().weights())
    alone(make_envs, budget, 20)
    return policy


@rejects("beats_random", says="It had 4 CPU seconds", long=True)
def counts_on_thirty_seconds(make_envs, budget):
    own = SimpleNamespace(report=budget.report, left=lambda: 30 - budget.spent())
    return chapter().greedy(alone(make_envs, own, 500).weights())


@rejects("beats_random")
def stops_after_three_rounds(make_envs, budget):
    return chapter().greedy(alone(make_envs, budget, 3).weights())


@rejects("beats_random", says="Tests reported: 1, the last one as")
def one_point_is_no_curve(make_envs, budget):
    budget.report(evaluate(baseline, 20, 1, make_envs).mean())
    return baseline


@rejects("beats_random")
def a_rule_that_learns_nothing(make_envs, budget):
    for seed in range(3):
        budget.report(evaluate(baseline, 20, seed, make_envs).mean())
    return baseline


@rejects("beats_random")
def returns_the_network(make_envs, budget):
    return alone(make_envs, budget, 3)


@rejects("beats_random")
def returns_the_weights(make_envs, budget):
    return alone(make_envs, budget, 3).weights()


def all_at_once(actors):
    return ray.get([actor.sample.remote() for actor in actors])


def one_by_one(actors):
    return [ray.get(actor.sample.remote()) for actor in actors]


def together(make_envs, budget, iterations, goal, collect=all_at_once, count=2, sends=True, reports=True):
    """Return a policy after at most this many iterations of collecting with actors and learning."""
    ch = chapter()
    policy = ch.Policy()
    optimizer = torch.optim.Adam(policy.parameters(), 8e-3)
    enough, test = goal * evaluate(baseline, 60, 7, make_envs).mean(), 0.0
    with ch.started(make_envs, count) as actors:
        for i in range(iterations):
            if sends or i == 0:
                ray.get([actor.set_weights.remote(policy.weights()) for actor in actors])
            ch.learn(policy, optimizer, ch.joined(collect(actors)))
            if i % 4 == 3 and reports:
                test = evaluate(ch.greedy(policy.weights()), 60, 7, make_envs).mean()
                budget.report(test)
            if test > enough or budget.left() < 2:
                break
    return ch.greedy(policy.weights())


@accepts("beats_baseline", long=True)
def weights_to_each_and_a_constant_learning_rate(make_envs, budget, goal=1.2):
    return together(make_envs, budget, 10_000, goal)


@rejects("beats_baseline", says="Called with `goal=0.1`", long=True)
def types_the_goal_in(make_envs, budget, goal=1.2):
    return together(make_envs, budget, 10_000, 1.2)


@rejects("beats_baseline", says="Every test must be reported", long=True)
def reports_its_last_test_only(make_envs, budget, goal=1.2):
    tests = [0.0]
    policy = together(make_envs, SimpleNamespace(report=tests.append, left=budget.left), 10_000, goal)
    budget.report(tests[-1])
    return policy


@rejects("beats_baseline", says="It reported no test")
def reports_no_test(make_envs, budget, goal=1.2):
    return together(make_envs, budget, 4, goal, reports=False)


@rejects("beats_baseline")
def stops_after_four_rounds(make_envs, budget, goal=1.2):
    return together(make_envs, budget, 4, goal)


@rejects("beats_baseline")
def one_sampler_after_the_other(make_envs, budget, goal=1.2):
    return together(make_envs, budget, 4, goal, collect=one_by_one)


@rejects("beats_baseline")
def only_one_of_them_plays(make_envs, budget, goal=1.2):
    return together(make_envs, budget, 4, goal, collect=lambda actors: all_at_once(actors[:1]))


@rejects("beats_baseline")
def samplers_keep_the_first_weights(make_envs, budget, goal=1.2):
    return together(make_envs, budget, 8, goal, sends=False)


@rejects("beats_baseline")
def the_baseline_itself(make_envs, budget, goal=1.2):
    together(make_envs, budget, 4, goal)
    return baseline


@rejects("beats_baseline", says="Both leads must be clear")
def reads_the_price_list(make_envs, budget, goal=1.2):
    together(make_envs, budget, 4, goal)
    return paying(make_envs(1).prices)
