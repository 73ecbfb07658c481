"""An entry for the capstone: a linear policy, found by the cross-entropy method (Rubinstein 1999) with Ray tasks."""

import numpy as np
import ray

from coursekit.given.warehouse import EPISODE_STEPS

POPULATION, KEPT, EPISODES = 32, 6, 4


@ray.remote
def returns_of(weights, make_envs, seed):
    """Return the mean return of each of P policies, weights [P, K + 1, A], all in the same episodes."""
    return [play(each, make_envs(EPISODES), seed) for each in weights]


def play(weights, envs, seed):
    """Return the mean return of one policy."""
    obs, _ = envs.reset(seed=seed)
    total = 0.0
    for _ in range(EPISODE_STEPS):
        obs, rewards, _, _, _ = envs.step(act(weights, obs))
        total += rewards.mean()
    return total


def act(weights, obs):
    """Return the action with the highest score for each observation: [N, K] -> [N]."""
    return (obs @ weights[:-1] + weights[-1]).argmax(axis=1)


def train(make_envs, budget):
    """Return a policy that was trained within the budget."""
    ray.init(num_cpus=2, include_dashboard=False)
    rng = np.random.default_rng()
    envs = make_envs(1)
    shape = envs.single_observation_space.shape[0] + 1, envs.single_action_space.n
    mean, spread = np.zeros(shape), 1.0
    cost = 0.0
    while budget.left() > 2 * cost:  # as long as another iteration fits, even a slow one
        before = budget.spent()
        weights = rng.normal(mean, spread, size=(POPULATION, *shape))
        seed = int(rng.integers(2**31))
        halves = [returns_of.remote(half, make_envs, seed) for half in np.array_split(weights, 2)]
        returns = np.concatenate(ray.get(halves))
        best = weights[returns.argsort()[-KEPT:]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.02
        budget.report(returns.mean())
        cost = max(cost, budget.spent() - before)
    ray.shutdown()
    return lambda obs: act(mean, obs)
