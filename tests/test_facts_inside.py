"""What chapter 22 says of RLlib's inside, each fact held by a test named as the sentence that it holds."""

import inspect
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import ray
import torch
from gymnasium.spaces import Box
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.utils.postprocessing.zero_padding import split_and_zero_pad
from ray.rllib.utils.spaces.space_utils import unsquash_action

from coursekit.basics.paths import ROOT
from coursekit.given.ch22_inside_rllib import Blind, Courier, Greenhouse, perfect_critic


class Own(ConnectorV2):
    """A connector that does nothing."""

    def __call__(self, *, batch, **kwargs):
        return batch


class Gardener:
    """A module whose policy has this mean and this logarithm of the deviation for every observation."""

    def __init__(self, mean, log_deviation):
        self.said = [mean, log_deviation]

    def forward_inference(self, batch):
        return {"action_dist_inputs": torch.tensor([self.said] * len(batch["obs"]))}


def names(pipeline):
    return [type(connector).__name__ for connector in pipeline.connectors]


def test_your_connectors_stand_first_before_the_rescaling_and_after_the_added_row():
    env = gymnasium.make_vec("CartPole-v1", num_envs=1)
    config = PPOConfig().environment("CartPole-v1").learners(learner_connector=lambda *_: Own())
    config.env_runners(env_to_module_connector=lambda *_: Own(), module_to_env_connector=lambda *_: Own())
    assert names(config.build_env_to_module_connector(env=env))[0] == "Own"
    before, after = names(config.build_module_to_env_connector(env=env)).index("Own"), "NormalizeAndClipActions"
    assert names(config.build_module_to_env_connector(env=env))[before + 1] == after
    learner = config.build_learner(env=gymnasium.make("CartPole-v1"))
    assert names(learner._learner_connector)[:2] == ["AddOneTsToEpisodesAndTruncate", "Own"]
    assert not ray.is_initialized()


def test_float16_cannot_hold_minus_a_billion():
    logits, everything = torch.zeros(2, dtype=torch.float16), torch.ones(2, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="overflow"):
        logits.masked_fill(everything, -1e9)
    assert torch.isinf(logits - 1e9).all()
    assert torch.isfinite(logits.masked_fill(everything, torch.finfo(logits.dtype).min)).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_the_gain_minus_the_penalty_is_largest_where_ppos_clip_begins(sign):
    ratio, epsilon = np.linspace(0, 2, 2001), 0.3
    objective = ratio * sign - abs(sign) / (2 * epsilon) * (ratio - 1) ** 2
    assert ratio[objective.argmax()] == pytest.approx(1 + sign * epsilon)


def test_a_perfect_critic_explains_little_while_the_policy_is_random_and_nearly_all_once_it_is_certain():
    assert perfect_critic(Gardener(0.0, 0.0))[1] < 0.1
    assert perfect_critic(Gardener(0.0, -6.0))[1] > 0.99


def test_most_steps_of_the_first_iteration_are_above_the_default_limit():
    errors = np.array([*rewards_of_an_untrained_policy()]) ** 2
    assert PPOConfig().vf_clip_param == 10
    assert (errors > 10).mean() > 0.6


def rewards_of_an_untrained_policy():
    env, rng = Greenhouse(), np.random.default_rng(0)
    for _ in range(50):
        env.reset(seed=int(rng.integers(1000)))
        for _ in range(10):
            yield env.step(np.clip([20 * (rng.normal() + 1)], 0, 40))[1]


def test_rllibs_explained_variance_includes_the_rows_that_never_happened():
    source = "".join(inspect.getsource(PPOTorchLearner.compute_loss_for_module).split())
    assert "explained_variance(batch[Postprocessing.VALUE_TARGETS],value_fn_out)" in source


def test_each_batch_of_the_greenhouse_holds_whole_days():
    assert (500 / 10) % 10 == 0  # steps per iteration, environments, steps per day


def test_the_best_day_of_the_courier_is_one_round_of_seven_houses():
    env, total = Courier(), 0.0
    env.reset(seed=1)
    start = env.at
    for step in range(1, 8):
        _, reward, done, _, _ = env.step((start + step) % 8)
        total += reward
    assert (total, done) == (-7 / 8, True)


def test_if_any_bound_is_infinite_the_whole_action_stays_unchanged():
    space = Box(np.array([0, 0], np.float32), np.array([10, np.inf], np.float32))
    assert unsquash_action(np.float32([0.5, 3]), space).tolist() == [0.5, 3]


def test_frame_stacking_by_rllib_wants_a_last_dimension_of_one():
    stacking = FrameStackingEnvToModule(num_frames=2)
    stacking.input_action_space = Box(0, 1, (1,))
    stacking.input_observation_space = Box(0, 1, (8, 8, 1))
    assert stacking.observation_space.shape == (8, 8, 2)
    with pytest.raises(AssertionError):
        stacking.input_observation_space = Box(0, 1, (2,))


def test_a_reset_fills_both_places_with_the_first_observation():
    first, _ = gymnasium.wrappers.FrameStackObservation(Blind(), 2).reset(seed=1)
    assert np.array_equal(first[0], first[1])


def test_the_last_sequence_of_an_episode_is_padded_with_zeros():
    assert [part.tolist() for part in split_and_zero_pad([1, 2, 3, 4, 5], 3)] == [[1, 2, 3], [4, 5, 0]]


def test_an_env_runner_requests_one_cpu_and_nothing_else():
    config = PPOConfig()
    asked = config.num_cpus_per_env_runner, config.num_gpus_per_env_runner, config.custom_resources_per_env_runner
    assert asked == (1, 0, {})


def test_learners_and_the_main_process_can_request_custom_resources_too():
    assert "custom_resources_per_learner" in inspect.signature(AlgorithmConfig.learners).parameters
    assert "custom_resources_for_main_process" in inspect.signature(AlgorithmConfig.resources).parameters


def test_the_default_network_shares_layers_unless_told_otherwise():
    assert DefaultModelConfig(fcnet_hiddens=[32]).vf_share_layers


def test_the_files_to_read_on_exist():
    text = (ROOT / "chapters/ch22_inside_rllib.py").read_text("utf-8")
    line = next(line for line in text.splitlines() if "`site-packages`" in line)
    files = [part for part in line.split("`")[1::2] if part.endswith(".py")]
    assert len(files) >= 4
    assert all((Path(ray.__file__).parent / "rllib" / file).is_file() for file in files)
