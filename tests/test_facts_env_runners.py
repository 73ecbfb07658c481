"""What chapter 12 says of EnvRunners, held against the pinned Ray: each test's name is the sentence."""

import gymnasium
import numpy as np
import pytest
from ray.exceptions import RayActorError
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from coursekit.given.ch12_env_runners import flatten, kill_runner
from coursekit.given.rllib_configs import built
from tests.rays import a_ray


def parameters(inference_only):
    """Return the number of parameters of PPO's network for CartPole, with two layers of 64."""
    network = RLModuleSpec(
        module_class=DefaultPPOTorchRLModule,
        observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32),
        action_space=gymnasium.spaces.Discrete(2),
        model_config={"fcnet_hiddens": [64, 64], "vf_share_layers": False},
        inference_only=inference_only,
    ).build()
    return sum(each.numel() for each in network.parameters())


def test_an_env_runner_has_the_policys_network_and_the_learner_has_the_critic_as_well():
    assert (parameters(inference_only=True), parameters(inference_only=False)) == (4610, 9155)


def test_a_config_has_more_than_250_settings_and_some_of_their_names_have_an_underscore():
    said = PPOConfig().training(train_batch_size_per_learner=1234).to_dict()
    assert len(said) > 250
    assert said["_train_batch_size_per_learner"] == 1234


def test_sixteen_runners_of_four_environments_share_a_thousand_steps_as_fragments_of_sixteen_and_fifteen():
    config = PPOConfig().env_runners(num_env_runners=16, num_envs_per_env_runner=4)
    config.training(train_batch_size_per_learner=1000)
    lengths = [config.get_rollout_fragment_length(worker_index=number) for number in range(1, 17)]
    assert lengths == [16] * 10 + [15] * 6
    assert 4 * sum(lengths) == 1000


@pytest.fixture(scope="module")
def local_ray():
    with a_ray(num_cpus=3):
        yield


def lake(**failures):
    return (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_env_runners=2, env_to_module_connector=flatten)
        .training(train_batch_size_per_learner=100, minibatch_size=100, num_epochs=1)
        .fault_tolerance(**failures)
        .debugging(seed=0, log_sys_usage=False)
    )


@pytest.mark.slow
def test_without_restarts_training_raises_in_the_iteration_after_a_runner_was_killed(local_ray):
    with built(lake(restart_failed_env_runners=False)) as [algo]:
        algo.train()
        kill_runner(algo, 2)
        with pytest.raises(RayActorError):
            algo.train()


@pytest.mark.slow
def test_if_failures_are_ignored_and_nothing_restarts_training_continues_with_the_remaining_runner(local_ray):
    with built(lake(restart_failed_env_runners=False, ignore_env_runner_failures=True)) as [algo]:
        algo.train()
        kill_runner(algo, 2)
        sampled = [algo.train()["env_runners"]["num_env_steps_sampled"] for _ in range(3)]
        assert sampled == [100, 100, 100]
        assert algo.env_runner_group.num_healthy_remote_workers() == 1


@pytest.mark.slow
def test_without_a_connector_for_the_squares_remote_runners_hide_the_cause(local_ray):
    with (
        pytest.raises(IndexError, match="list index out of range"),
        built(PPOConfig().environment("FrozenLake-v1").env_runners(num_env_runners=1)),
    ):
        pass
