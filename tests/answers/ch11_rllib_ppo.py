"""Right and wrong answers of chapter 11."""

from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import torch
from gymnasium.spaces import flatten
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from coursekit.given.ch11_rllib_ppo import built
from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}


# learns_corridor: until the mean return reaches the target


def mean_of(result):
    return result["env_runners"].get("episode_return_mean", float("nan"))


@accepts("learns_corridor", long=True)
def while_not_there(config, target, most):
    algo, means = config.build_algo(), []
    try:
        while len(means) < most and not (means and means[-1] >= target):
            means.append(mean_of(algo.train()))
    finally:
        algo.stop()
    return np.array(means)


@accepts("learns_corridor")
def with_the_chapters_helper(config, target, most):
    means = []
    with built(config) as algo:
        for _ in range(most):
            played = algo.train()["env_runners"]
            means.append(played.get("episode_return_mean", np.nan))
            if means[-1] >= target:
                return means
    return means


def until(reached, config, most):
    """A loop that is right except for what `reached` says of a result."""
    algo, means = config.build_algo(), []
    try:
        for _ in range(most):
            result = algo.train()
            means.append(mean_of(result))
            if reached(result):
                break
    finally:
        algo.stop()
    return means


@accepts("learns_corridor")
def asks_whether_episodes_have_ended(config, target, most):
    algo, means = config.build_algo(), []
    try:
        while algo.iteration < most:
            played = algo.train()["env_runners"]
            means.append(played["episode_return_mean"] if played["num_episodes_lifetime"] else np.nan)
            if means[-1] >= target:
                break
    finally:
        algo.stop()
    return means


@accepts("learns_corridor")
def says_how_far_it_is(config, target, most):
    algo, means = config.build_algo(), []
    try:
        for _ in range(most):
            result = algo.train()
            means.append(result["env_runners"].get("episode_return_mean", float("nan")))
            print(result["num_env_steps_sampled_lifetime"], f"{result['time_total_s']:.0f} s", means[-1])
            if means[-1] >= target:
                break
    finally:
        algo.stop()
    return means


@accepts("learns_corridor")
def with_an_exit_stack(config, target, most):
    means = []
    with ExitStack() as stack:
        algo = config.build_algo()
        stack.callback(algo.stop)
        while len(means) < most and not any(mean >= target for mean in means):
            means.append(mean_of(algo.train()))
    return means


@rejects("learns_corridor", says="Training ended after")
def nan_ends_the_loop(config, target, most):
    return until(lambda result: not mean_of(result) < target, config, most)


@rejects("learns_corridor")
def takes_the_missing_key_for_granted(config, target, most):
    return until(lambda result: result["env_runners"]["episode_return_mean"] >= target, config, most)


@rejects("learns_corridor")
def reads_the_best_episode(config, target, most):
    return until(lambda result: result["env_runners"].get("episode_return_max", -99) >= target, config, most)


@rejects("learns_corridor")
def more_than_the_target(config, target, most):
    return until(lambda result: mean_of(result) > target, config, most)


@rejects("learns_corridor")
def ignores_the_limit(config, target, most):
    return until(lambda result: mean_of(result) >= target, config, 1000)


@rejects("learns_corridor", says="Training ended after")
def counts_only_iterations_with_a_mean(config, target, most):
    algo, means = config.build_algo(), []
    try:
        while np.count_nonzero(~np.isnan(means)) < most and not (means and means[-1] >= target):
            means.append(mean_of(algo.train()))
    finally:
        algo.stop()
    return means


@rejects("learns_corridor", says="one number per iteration")
def the_last_mean_alone(config, target, most):
    return while_not_there(config, target, most)[-1]


@rejects("learns_corridor", says="one number per iteration")
def zero_where_nothing_is_known(config, target, most):
    return [0.0 if np.isnan(mean) else mean for mean in while_not_there(config, target, most)]


@rejects("learns_corridor")
def swallows_the_error(config, target, most):
    try:
        return while_not_there(config, target, most)
    except Exception:
        return []


@rejects("learns_corridor")
def leaves_out_what_is_nan(config, target, most):
    return [mean for mean in while_not_there(config, target, most) if not np.isnan(mean)]


@rejects("learns_corridor")
def never_stops_it(config, target, most):
    algo, means = config.build_algo(), []
    while len(means) < most and not (means and means[-1] >= target):
        means.append(mean_of(algo.train()))
    return means


@rejects("learns_corridor")
def stops_it_only_when_all_went_well(config, target, most):
    algo, means = config.build_algo(), []
    while len(means) < most and not (means and means[-1] >= target):
        means.append(mean_of(algo.train()))
    algo.stop()
    return means


@rejects("learns_corridor")
def builds_again_in_every_iteration(config, target, most):
    means = []
    while len(means) < most and not (means and means[-1] >= target):
        algo = config.build_algo()
        means.append(mean_of(algo.train()))
        algo.stop()
    return means


# resume_newest: the newest by number, and whole


def by_number(folder):
    return sorted(Path(folder).iterdir(), key=lambda path: int(path.name))


def files_in(path):
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


@accepts("resume_newest")
def has_the_files_of_the_oldest(folder):
    paths = by_number(folder)
    whole = [path for path in paths if files_in(path) == files_in(paths[0])]
    return Algorithm.from_checkpoint(whole[-1])


@accepts("resume_newest")
def builds_from_the_config_and_loads(folder):
    most = max(len(files_in(path)) for path in by_number(folder))
    path = next(path for path in reversed(by_number(folder)) if len(files_in(path)) == most)
    algo = PPO.from_checkpoint(str(path))
    config = algo.config.copy(copy_frozen=False)
    algo.stop()
    other = config.build_algo()
    other.restore_from_path(path)
    return other


@rejects("resume_newest")
def the_newest_whole_or_not(folder):
    return Algorithm.from_checkpoint(by_number(folder)[-1])


@rejects("resume_newest")
def the_first_that_loads(folder):
    for path in reversed(by_number(folder)):
        with suppress(Exception):
            return Algorithm.from_checkpoint(path)
    return None


@rejects("resume_newest")
def asks_for_the_file_that_is_written_last(folder):
    whole = [path for path in by_number(folder) if (path / "algorithm_state.pkl").exists()]
    return Algorithm.from_checkpoint(whole[-1])


@rejects("resume_newest")
def asks_for_the_network_alone(folder):
    weights = "learner_group/learner/rl_module/default_policy/module_state.pkl"
    return Algorithm.from_checkpoint([path for path in by_number(folder) if (path / weights).exists()][-1])


def whole_ones(folder):
    paths = by_number(folder)
    return [path for path in paths if files_in(path) == files_in(paths[0])]


@rejects("resume_newest", says="learner_group/learner/state.pkl")
def asks_for_the_counters_and_the_network(folder):
    parts = ["algorithm_state.pkl", "learner_group/learner/rl_module/default_policy/module_state.pkl"]
    return Algorithm.from_checkpoint(
        [path for path in by_number(folder) if all((path / p).exists() for p in parts)][-1]
    )


@rejects("resume_newest", says="Your algorithm counts 9 iterations")
def sorts_the_names_as_text(folder):
    return Algorithm.from_checkpoint(max(whole_ones(folder), key=lambda path: path.name))


@rejects("resume_newest", says="Your algorithm counts 8 iterations")
def takes_the_folder_that_changed_last(folder):
    return Algorithm.from_checkpoint(max(whole_ones(folder), key=lambda path: path.stat().st_mtime))


def fresh(algo):
    """Stop an algorithm, and return a new one with its config."""
    config = algo.config.copy(copy_frozen=False)
    algo.stop()
    return config.build_algo()


@rejects("resume_newest", says="Your algorithm counts 0 iterations")
def takes_the_weights_alone(folder):
    algo = Algorithm.from_checkpoint(whole_ones(folder)[-1])
    weights = algo.learner_group.get_weights()
    other = fresh(algo)
    other.learner_group.set_weights(weights)  # `other.set_weights` raises: it calls what Ray 2.60 has deprecated
    other.env_runner_group.sync_weights(from_worker_or_learner_group=other.learner_group)
    return other


@rejects("resume_newest", says="the optimizer's averages")
def leaves_the_optimizer_behind(folder):
    algo = Algorithm.from_checkpoint(whole_ones(folder)[-1])
    state = algo.get_state(not_components="learner_group/learner/optimizer")
    other = fresh(algo)
    other.set_state(state)
    return other


@rejects("resume_newest", says="has no `train` method")
def returns_the_folder(folder):
    return str(by_number(folder)[-4])


# act: flatten, a batch of one, the largest score


def scores_of(network, space, obs):
    x = torch.from_numpy(np.asarray(flatten(space, obs), np.float32))
    return network.forward_inference({"obs": x[None]})["action_dist_inputs"][0]


@accepts("act")
def with_numpy_in_the_end(network, space, obs):
    return np.argmax(scores_of(network, space, obs).numpy())


@accepts("act")
def by_the_forward_pass_for_exploring(network, space, obs):
    x = torch.from_numpy(flatten(space, obs)).float().unsqueeze(0)
    with torch.no_grad():
        return network.forward_exploration({"obs": x})["action_dist_inputs"].squeeze(0).argmax().item()


@accepts("act")
def by_the_distribution(network, space, obs):
    kind = network.get_inference_action_dist_cls()
    return int(kind.from_logits(scores_of(network, space, obs)).to_deterministic().sample())


@accepts("act")
def encodes_each_kind_itself(network, space, obs):
    x = np.zeros(space.n) if hasattr(space, "n") else np.ravel(obs)
    if hasattr(space, "n"):
        x[obs] = 1
    output = network.forward_inference({"obs": torch.tensor(x, dtype=torch.float32)[None]})
    return output["action_dist_inputs"].argmax(dim=-1).item()


@rejects("act")
def draws_an_action(network, space, obs):
    return int(network.get_exploration_action_dist_cls().from_logits(scores_of(network, space, obs)).sample())


@rejects("act")
def forgets_to_flatten(network, space, obs):
    x = torch.as_tensor(np.array(obs, np.float32)).reshape(1, -1)
    return int(network.forward_inference({"obs": x})["action_dist_inputs"].argmax())


@rejects("act")
def has_sixteen_squares_on_every_lake(network, space, obs):
    if hasattr(space, "n"):
        obs = np.eye(16)[obs % 16]
    x = torch.as_tensor(np.asarray(obs), dtype=torch.float32).reshape(1, -1)
    return int(network.forward_inference({"obs": x})["action_dist_inputs"].argmax())


@rejects("act")
def hands_over_numpy(network, space, obs):
    return int(network.forward_inference({"obs": flatten(space, obs)[None]})["action_dist_inputs"].argmax())


@rejects("act")
def keeps_the_type_of_the_vector(network, space, obs):
    x = torch.from_numpy(flatten(space, obs))  # integers, if it is one-hot
    return int(network.forward_inference({"obs": x[None]})["action_dist_inputs"].argmax())


@rejects("act")
def returns_a_tensor(network, space, obs):
    return scores_of(network, space, obs).argmax()


@rejects("act")
def returns_the_scores(network, space, obs):
    return scores_of(network, space, obs)


@rejects("act")
def best_along_the_wrong_axis(network, space, obs):
    return int(scores_of(network, space, obs)[None].argmax(0)[0])


@rejects("act")
def calls_it_as_older_tutorials_do(network, space, obs):
    return network.compute_single_action(obs, explore=False)


# evaluate: whole episodes, the best actions, a seed for each


def best(network, space, obs):
    return int(scores_of(network, space, obs).argmax())


def played(network, env, seed, choose=best):
    obs, _ = env.reset(seed=seed)
    rewards, over = [], False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(choose(network, env.observation_space, obs))
        rewards.append(float(reward))
        over = terminated or truncated
    return rewards


@accepts("evaluate")
def a_tuple(network, env, seeds):
    return tuple(np.float32(sum(played(network, env, seed))) for seed in seeds)


@accepts("evaluate")
def sums_lists(network, env, seeds):
    return np.array([sum(played(network, env, seed)) for seed in seeds])


@rejects("evaluate")
def draws_actions(network, env, seeds):
    return [sum(played(network, env, seed, draws_an_action)) for seed in seeds]


@rejects("evaluate")
def no_seeds(network, env, seeds):
    return [sum(played(network, env, None)) for _ in seeds]


@rejects("evaluate", says="the best actions earn")
def seeds_the_first_episode_only(network, env, seeds):
    return [sum(played(network, env, seed if number == 0 else None)) for number, seed in enumerate(seeds)]


@rejects("evaluate", says="the best actions earn")
def the_last_reward_is_the_return(network, env, seeds):
    return [played(network, env, seed)[-1] for seed in seeds]


@rejects("evaluate")
def the_mean_alone(network, env, seeds):
    return float(np.mean([sum(played(network, env, seed)) for seed in seeds]))


@rejects("evaluate", says="numbers for 25 seeds")
def one_episode(network, env, seeds):
    return [sum(played(network, env, seeds[0]))]


@rejects("evaluate")
def plays_on_when_the_time_is_up(network, env, seeds):
    returns = []
    for seed in seeds:
        (obs, _), total, terminated = env.reset(seed=seed), 0.0, False
        while not terminated:
            obs, reward, terminated, _, _ = env.step(best(network, env.observation_space, obs))
            total += float(reward)
        returns.append(total)
    return returns


# lake_config: a connector, exploration, a future that counts, steps that move the weights


def lake(batch, lr=0.01, gamma=0.99, explore=True, slippery=False, hidden=32, connector=True):
    config = (
        PPOConfig()
        .environment("FrozenLake-v1", env_config={"is_slippery": slippery})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=16, explore=explore)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[hidden]))
        .training(train_batch_size_per_learner=batch, minibatch_size=250, num_epochs=8, gamma=gamma, lr=lr)
    )
    return config.env_runners(env_to_module_connector=lambda *_, **__: FlattenObservations()) if connector else config


@accepts("lake_config", long=True)
def smaller_steps_more_often(batch):
    return lake(batch, lr=0.005, gamma=0.95).training(num_epochs=20, minibatch_size=125)


@accepts("lake_config")
def changes_the_broken_config(batch):
    config = lake(batch, lr=1e-5, gamma=0.0, explore=False)
    config.lr, config.gamma, config.explore = 0.01, 0.98, True
    return config


@rejects("lake_config", says="never explores")
def leaves_exploration_off(batch):
    return lake(batch, explore=False)


@rejects("lake_config", says="six steps away")
def lives_for_the_moment(batch):
    return lake(batch, gamma=0.0)


@rejects("lake_config", says="learning rate")
def the_default_learning_rate(batch):
    return lake(batch, lr=5e-5)


@rejects("lake_config", says="didn't reach 0.5", long=True)
def a_rate_on_the_limit_is_too_small(batch):
    return lake(batch, lr=1e-4)


@rejects("lake_config", says="must return the config")
def returns_the_algorithm(batch):
    return lake(batch).build_algo()


@rejects("lake_config", says="can't build an algorithm")
def forgets_the_connector(batch):
    return lake(batch, connector=False)


@rejects("lake_config", says="total_train_batch_size")
def ten_times_the_steps(batch):
    return lake(10 * batch)


@rejects("lake_config", says="env_config")
def on_slippery_ice(batch):
    return lake(batch, slippery=True)
