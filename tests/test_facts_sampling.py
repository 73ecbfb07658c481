"""What chapters 6 to 10 say of Ray, RLlib and Gymnasium holds in the versions that are pinned: each fact one test."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from coursekit.given.ch07_environments import shows_its_clock
from coursekit.given.environments import SlowSimulator
from coursekit.given.object_store import made
from tests.rays import a_ray


def test_make_vec_takes_the_cartpole_that_is_written_for_arrays():
    envs = gymnasium.make_vec("CartPole-v1", num_envs=2)
    assert type(envs).__name__ == "CartPoleVectorEnv"
    assert not isinstance(envs, SyncVectorEnv)


def test_make_vec_steps_ordinary_environments_one_after_the_other_when_asked_to():
    assert isinstance(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"), SyncVectorEnv)


@pytest.mark.parametrize("mode", ["sync", "vector_entry_point"])
def test_vector_environments_reset_in_the_next_step_by_default(mode):
    envs = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode=mode)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def counters(lengths: list[int], mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([lambda length=length: shows_its_clock(length) for length in lengths], autoreset_mode=mode)


def test_a_mask_of_resets_without_any_is_an_error_in_disabled_mode():
    envs = counters([2, 3], AutoresetMode.DISABLED)
    envs.reset(seed=0)
    with pytest.raises(AssertionError):
        envs.reset(options={"reset_mask": np.zeros(2, bool)})
    envs.reset(options={"reset_mask": np.array([True, False])})


def test_an_environment_that_has_ended_cannot_be_stepped_in_disabled_mode():
    envs = counters([1, 3], AutoresetMode.DISABLED)
    envs.reset(seed=0)
    envs.step(np.zeros(2, int))
    with pytest.raises(AssertionError):
        envs.step(np.zeros(2, int))


def test_same_step_mode_keeps_the_last_observation_in_the_infos():
    envs = counters([1, 3], AutoresetMode.SAME_STEP)
    envs.reset(seed=0)
    obs, _, _, _, infos = envs.step(np.zeros(2, int))
    assert obs[0].tolist() == [0, 1, 0]
    assert infos["final_obs"][0].tolist() == [0, 0, 1]


def cartpole_steps(policy: Callable, seed: int) -> int:
    """Return for how many steps a policy keeps CartPole going, up to its limit."""
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=seed)
    steps, terminated, truncated = 0, False, False
    while not (terminated or truncated):
        obs, _, terminated, truncated, _ = env.step(policy(obs))
        steps += 1
    return steps


def test_the_angle_alone_holds_the_pole_for_about_40_steps_and_its_velocity_loses_half_the_carts_before_200():
    angle, velocity = (
        [cartpole_steps(lambda obs, at=at: int(obs[at] > 0), seed) for seed in range(50)] for at in (2, 3)
    )
    assert 35 < np.mean(angle) < 48
    assert 0.3 < np.mean([steps < 200 for steps in velocity]) < 0.65


def test_a_loop_that_ignores_truncated_runs_past_the_limit():
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=0)
    for _ in range(510):
        obs, _, terminated, truncated, _ = env.step(int(obs[2] + 0.5 * obs[3] > 0))
        assert not terminated
    assert truncated


def test_make_puts_three_wrappers_around_cartpole():
    assert (
        str(gymnasium.make("CartPole-v1")) == "<TimeLimit<OrderEnforcing<PassiveEnvChecker<CartPoleEnv<CartPole-v1>>>>>"
    )


def test_a_busy_simulator_uses_the_cpu_time_of_its_steps():
    env = SlowSimulator(gymnasium.make("CartPole-v1"), seconds=0.01, busy=True)
    env.reset(seed=0)
    start = time.thread_time()
    for _ in range(3):
        env.step(0)
    assert time.thread_time() - start >= 0.03


@pytest.mark.slow
def test_rllibs_corridor_has_the_rules_that_chapter_7_tells():
    from ray.rllib.examples.envs.custom_gym_env import SimpleCorridor

    env = SimpleCorridor({"corridor_length": 3})
    assert env.reset(seed=1)[0].tolist() == [0]
    assert [env.step(1)[0].item() for _ in range(2)] == [1, 2]
    obs, reward, terminated, truncated, _ = env.step(1)
    assert (obs.item(), terminated, truncated) == (3, True, False)
    assert 0.5 <= reward <= 1.5
    assert env.reset(seed=1)[0].tolist() == [0]
    assert env.step(0)[1] == -0.01


def test_cartpole_takes_an_integer_in_any_form_but_no_truth_value_of_numpy():
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    for action in (1, np.int64(1), np.array(1), True):
        env.step(action)
    with pytest.raises(AssertionError):
        env.step(np.bool_(True))


class TwoSteps(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.clock = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.clock += 1
        return np.zeros(1, np.float32), 0.0, self.clock == 2, False, {}


def test_an_episode_that_terminates_at_its_time_limit_has_both_flags():
    envs = SyncVectorEnv([lambda: gymnasium.wrappers.TimeLimit(TwoSteps(), 2)])
    envs.reset(seed=0)
    assert [[bool(flag[0]) for flag in envs.step([0])[2:4]] for _ in range(2)] == [[False, False], [True, True]]


def test_a_vector_environment_returns_copies_of_its_observations():
    envs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])
    first, _ = envs.reset(seed=0)
    kept = first.copy()
    envs.step([0])
    assert np.array_equal(first, kept)


def test_a_tilde_inverts_booleans_and_no_other_flags():
    flags = np.array([False, True])
    assert (~flags).tolist() == [True, False]
    assert (~flags.astype(np.uint8)).tolist() == [255, 254]
    assert (1.0 - flags).tolist() == (1.0 - flags.astype(np.uint8)).tolist() == [1, 0]


def test_rllib_derives_the_length_of_a_fragment_from_the_batch_and_the_environments():
    from ray.rllib.algorithms.ppo import PPOConfig

    config = PPOConfig().env_runners(num_env_runners=2, num_envs_per_env_runner=5)
    config.training(train_batch_size_per_learner=1000)
    assert config.rollout_fragment_length == "auto"
    assert config.get_rollout_fragment_length() == 100


@pytest.fixture(scope="module")
def ray():
    with a_ray(num_cpus=4) as started:
        yield started


class Sampler:
    """Stands in for a sampler: says with which weights it played, and hands in as many kilobytes as it is asked for."""

    weights = "none"

    def set_weights(self, weights):
        self.weights = weights

    def sample(self):
        return self.weights

    def fragment(self, kilobytes):
        return np.zeros(1000 * kilobytes, np.uint8)

    def fill(self, array):
        array[:] = 1

    def process(self):
        return os.getpid()


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [1, 200])
def test_an_array_that_comes_from_ray_is_read_only_whatever_its_size(ray, kilobytes):
    sampler = ray.remote(Sampler).remote()
    assert not ray.get(sampler.fragment.remote(kilobytes)).flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        ray.get(sampler.fill.remote(sampler.fragment.remote(kilobytes)))
    with pytest.raises(ValueError, match="read-only"):
        ray.get(sampler.fill.remote(np.zeros(1000 * kilobytes, np.uint8)))


@pytest.mark.slow
def test_put_stores_small_weights_too(ray):
    with made() as copies:
        ray.put(np.zeros(4610, np.float32))
    assert copies.megabytes == pytest.approx(0.018, rel=0.4)


def late(weights):
    time.sleep(1)
    return weights


def played_with(ray, **options):
    """Return with which weights an actor plays when those that it is sent first are still being made."""
    sampler = ray.remote(Sampler).options(**options).remote()
    ray.get(sampler.__ray_ready__.remote())
    sampler.set_weights.remote(ray.remote(late).remote("new"))
    return ray.get(sampler.sample.remote())


@pytest.mark.slow
def test_the_calls_of_one_caller_to_an_ordinary_actor_keep_their_order(ray):
    assert played_with(ray) == "new"


@pytest.mark.slow
@pytest.mark.parametrize("option", [{"allow_out_of_order_execution": True}, {"max_concurrency": 2}])
def test_an_actor_that_may_run_calls_out_of_order_plays_with_old_weights(ray, option):
    assert played_with(ray, **option) == "none"


@pytest.mark.slow
def test_async_and_threaded_actors_cannot_be_made_to_keep_the_order(ray):
    class Async:
        async def sample(self):
            pass

    for actor, options in ((Async, {}), (Sampler, {"max_concurrency": 2})):
        with pytest.raises(ValueError, match="can't execute actor tasks"):
            ray.remote(actor).options(allow_out_of_order_execution=False, **options).remote()


@pytest.mark.slow
def test_a_sampler_that_ray_restarts_has_lost_its_weights(ray):
    import psutil

    sampler = ray.remote(Sampler).options(max_restarts=-1, max_task_retries=-1).remote()
    ray.get(sampler.set_weights.remote("new"))
    assert ray.get(sampler.sample.remote()) == "new"
    first = ray.get(sampler.process.remote())
    psutil.Process(first).kill()
    assert ray.get(sampler.process.remote()) != first
    assert ray.get(sampler.sample.remote()) == "none"


@pytest.mark.slow
def test_wait_for_nothing_returns_two_empty_lists(ray):
    assert ray.wait([]) == ([], [])


@pytest.mark.slow
def test_rllib_adds_a_kl_penalty_unless_told_otherwise():
    from ray.rllib.algorithms.ppo import PPOConfig

    config = PPOConfig()
    assert config.use_kl_loss
    assert config.kl_coeff > 0


def defined_in_chapter_10():
    from coursekit.author.definitions import definitions

    return definitions("ch10_actor_learner")


def test_chapter_10_normalizes_a_single_row_without_nan():
    import torch

    assert defined_in_chapter_10()["normalized"](torch.ones(1)).tolist() == [0.0]


def test_chapter_10s_gae_takes_integer_rewards_and_flags_of_uint8():
    gae = defined_in_chapter_10()["gae"]
    rewards, values = np.array([[1], [1], [0]]), np.linspace(0, 1, 4, dtype=np.float32)[:, None]
    ends = np.array([[0], [1], [0]], np.uint8)
    want = gae(rewards.astype(np.float32), values, ends.astype(bool), np.zeros((3, 1), bool))
    assert gae(rewards, values, ends, np.zeros((3, 1), np.uint8)) == pytest.approx(want)
    assert np.abs(want % 1).max() > 0.1  # integers would have cut something off


def test_a_process_that_receives_chapter_10s_sampler_imports_no_pytorch():
    from ray import cloudpickle

    sampler = cloudpickle.dumps(defined_in_chapter_10()["Sampler"])
    program = "import pickle, sys; pickle.load(sys.stdin.buffer); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], input=sampler, capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_cartpole_counts_as_solved_at_475():
    assert gymnasium.spec("CartPole-v1").reward_threshold == 475


def test_the_frame_after_an_end_is_a_reset_that_earns_nothing_and_shows_the_last_observation_to_the_policy():
    envs = gymnasium.make_vec("CartPole-v1", num_envs=1, vectorization_mode="vector_entry_point")
    envs.reset(seed=0)
    over = False
    while not over:
        obs, _, [over], _, _ = envs.step(np.array([1]))
    assert abs(obs[0, 2]) > 0.2  # the policy chooses the next action, which has no effect, for the fallen pole
    fresh, [reward], [terminated], [truncated], _ = envs.step(np.array([1]))
    assert (reward, terminated, truncated) == (0, False, False)
    assert np.abs(fresh).max() <= 0.05


def test_rllib_normalizes_advantages_once_for_the_whole_batch():
    source = source_of_ray("rllib/connectors/learner/general_advantage_estimation.py")
    assert "module_advantages - module_advantages.mean()" in source


def test_rllib_replaces_env_runners_that_die_by_default():
    from ray.rllib.algorithms.ppo import PPOConfig

    assert PPOConfig().restart_failed_env_runners


def source_of_ray(path):
    import ray

    return (Path(ray.__file__).parent / path).read_text()


@pytest.mark.parametrize(("cloud", "stops"), [("aws", True), ("_azure", True), ("gcp", False)])
def test_ray_down_only_stops_machines_on_aws_and_azure_unless_the_file_says_otherwise(cloud, stops):
    provider = source_of_ray(f"autoscaler/_private/{cloud}/node_provider.py")
    assert f'provider_config.get("cache_stopped_nodes", {stops})' in provider


def test_ray_start_block_does_not_miss_a_process_that_was_ended_with_sigterm():
    assert "exit with SIGTERM will be treated as graceful, thus NOT reported." in source_of_ray("scripts/scripts.py")


@pytest.mark.slow
def test_an_actor_starts_where_no_cpu_is_free_by_default_but_not_if_it_requests_one(ray):
    whole = ray.remote(Sampler).options(num_cpus=4).remote()
    ray.get(whole.__ray_ready__.remote(), timeout=60)
    waits, starts = ray.remote(Sampler).options(num_cpus=0.5).remote(), ray.remote(Sampler).remote()
    ray.get(starts.__ray_ready__.remote(), timeout=60)
    ready, _ = ray.wait([waits.__ray_ready__.remote()], timeout=1)
    assert ready == []
    for actor in (whole, waits, starts):
        ray.kill(actor)
