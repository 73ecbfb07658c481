"""What chapters 11 to 13 say of RLlib, held against the pinned Ray: each test's name is the sentence."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.appo.appo_learner import APPOLearner
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.algorithms.appo.utils import CircularBuffer
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.dqn import calculate_rr_weights
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.impala.impala_learner import IMPALALearner
from ray.rllib.algorithms.impala.torch.impala_torch_learner import IMPALATorchLearner
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from coursekit.given.ch13_algorithms import CORRIDOR
from tests.rays import a_ray


def test_ppo_takes_two_runners_thirty_epochs_minibatches_of_128_and_a_rate_of_5e_5():
    config = PPOConfig()
    assert (config.num_env_runners, config.num_epochs, config.minibatch_size, config.lr) == (2, 30, 128, 5e-5)


def test_ppo_clips_ratios_at_three_tenths_and_squared_errors_at_ten_with_a_kl_loss_and_no_entropy_bonus_or_gradient_clip():
    config = PPOConfig()
    assert (config.clip_param, config.vf_clip_param, config.vf_loss_coeff) == (0.3, 10, 1)
    assert (config.entropy_coeff, config.grad_clip) == (0, None)
    assert (config.use_kl_loss, config.kl_coeff, config.kl_target) == (True, 0.2, 0.01)


def test_above_vf_clip_param_the_critics_loss_is_constant_and_what_is_reported_without_the_limit_is_the_error():
    import torch

    source = inspect.getsource(PPOTorchLearner.compute_loss_for_module)
    assert "vf_loss_clipped = torch.clamp(vf_loss, 0, config.vf_clip_param)" in source
    assert "VF_LOSS_KEY: mean_vf_loss," in source
    assert "LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY: mean_vf_unclipped_loss," in source
    value = torch.zeros(3, requires_grad=True)
    torch.clamp((value - torch.tensor([3.0, 4.0, 100.0])) ** 2, 0, 10).sum().backward()
    assert value.grad.tolist() == [-6, 0, 0]


def test_ppo_reports_the_kl_divergence_and_the_explained_variance_of_the_last_minibatch_and_no_clip_fraction():
    source = inspect.getsource(PPOTorchLearner.compute_loss_for_module)
    assert "action_kl = prev_action_dist.kl(curr_action_dist)" in source
    assert "clip_frac" not in source
    assert "window=1" in source
    logger = MetricsLogger(root=False)
    for minibatch in (0.25, 0.5):
        logger.log_dict({"mean_kl_loss": minibatch}, key="default_policy", window=1)
    assert logger.reduce(compile=True)["default_policy"]["mean_kl_loss"] == 0.5


def test_explained_variance_is_1_for_a_perfect_critic_0_for_a_constant_and_never_below_minus_1():
    import torch
    from ray.rllib.utils.torch_utils import explained_variance

    returns = torch.tensor([1.0, 2.0, 3.0])
    assert explained_variance(returns, returns).item() == pytest.approx(1)
    assert explained_variance(returns, torch.full((3,), 7.0)).item() == pytest.approx(0, abs=1e-5)
    assert explained_variance(returns, -9 * returns).item() == -1


def test_ppo_does_not_share_layers_by_default_but_default_model_config_does():
    assert PPOConfig().model_config["vf_share_layers"] is False
    assert DefaultModelConfig().vf_share_layers is True


def test_dqn_replays_by_priority_with_double_q_and_dueling_by_default_and_without_noise_or_a_distribution():
    config = DQNConfig()
    assert config.replay_buffer_config["type"] == "PrioritizedEpisodeReplayBuffer"
    assert (config.double_q, config.dueling) == (True, True)
    assert (config.noisy, config.num_atoms, config.n_step) == (False, 1, 1)


def test_dqn_explores_for_ten_thousand_steps_by_default():
    assert DQNConfig().epsilon == [(0, 1.0), (10000, 0.05)]


def rounds(intensity, runners, envs=4):
    """Return how often DQN plays and learns in one round."""
    config = DQNConfig().env_runners(num_env_runners=runners, num_envs_per_env_runner=envs)
    return calculate_rr_weights(config.training(training_intensity=intensity))


def test_training_intensity_counts_the_local_runner_as_one_that_plays_also_where_it_does_not():
    assert rounds(16, runners=0) == [1, 2]  # 2 draws of 32 for 4 steps: 16 for each, as asked
    assert rounds(16, runners=1) == [1, 4]  # 4 draws for 4 steps: 32 for each, twice what was asked
    assert rounds(16, runners=2) == [1, 6]  # 6 draws for 8 steps: 24 for each, half as much again


def test_training_intensity_is_rounded_to_whole_draws():
    assert rounds(12, runners=0) == rounds(16, runners=0)


def test_an_iteration_is_a_thousand_steps_of_dqn_ten_seconds_of_appo_and_impala_a_second_and_a_hundred_steps_of_sac():
    assert DQNConfig().min_sample_timesteps_per_iteration == 1000
    assert APPOConfig().min_time_s_per_iteration == IMPALAConfig().min_time_s_per_iteration == 10
    assert (SACConfig().min_time_s_per_iteration, SACConfig().min_sample_timesteps_per_iteration) == (1, 100)


@pytest.mark.parametrize("kind", [APPOConfig, IMPALAConfig])
def test_an_asynchronous_algorithm_has_a_learner_process_a_weight_server_and_asks_without_a_pause(kind):
    config = kind()
    assert (config.num_learners, config.use_env_runner_state_server, config.timeout_s_sampler_manager) == (1, True, 0.0)


def test_appo_keeps_the_last_eight_batches_and_learns_from_each_at_most_twice():
    config = APPOConfig()
    assert config.use_circular_buffer
    assert (config.circular_buffer_num_batches, config.circular_buffer_iterations_per_batch) == (8, 2)
    buffer, batches = CircularBuffer(8, 2), [SimpleNamespace(env_steps=int, place=place) for place in range(9)]
    for batch in batches:
        buffer.put(batch)  # the ninth evicts the first, which nobody has used
    used = [buffer.get() for _ in range(len(buffer))]
    assert [used.count(batch) for batch in batches] == [0] + 8 * [2]


def test_appo_updates_its_target_network_after_32_batches():
    config, source = APPOConfig(), inspect.getsource(APPOLearner.after_gradient_based_update)
    batches = config.circular_buffer_num_batches * config.circular_buffer_iterations_per_batch
    assert config.target_network_update_freq * batches == 32
    assert (
        "config.circular_buffer_iterations_per_batch\n                    * config.train_batch_size_per_learner"
        in source
    )


def test_impala_keeps_a_queue_of_three_batches():
    assert IMPALAConfig().learner_queue_size == 3
    assert "maxsize=self.config.learner_queue_size" in inspect.getsource(IMPALALearner.build)


@pytest.mark.parametrize("learner", [APPOTorchLearner, IMPALATorchLearner])
def test_appo_and_impala_do_not_cap_the_errors_of_the_critic(learner):
    assert "vf_clip" not in inspect.getsource(learner.compute_loss_for_module)
    assert not hasattr(APPOConfig(), "vf_clip_param")
    assert PPOConfig().vf_clip_param == 10


def test_an_untrained_critic_of_the_corridor_is_wrong_by_more_than_the_cap():
    wandering = -0.1 * np.sum(PPOConfig().gamma ** np.arange(100))  # the discounted return of a hundred steps
    assert wandering**2 > PPOConfig().vf_clip_param


def test_two_learners_double_the_batch():
    config = PPOConfig().training(train_batch_size_per_learner=500).learners(num_learners=2)
    assert config.total_train_batch_size == 1000


def test_environments_of_a_runner_take_turns_unless_told_otherwise():
    assert PPOConfig().gym_env_vectorize_mode == "sync"


def test_a_failed_runner_is_restarted_after_a_minute_by_default_and_never_ignored():
    config = PPOConfig()
    assert (config.restart_failed_env_runners, config.ignore_env_runner_failures) == (True, False)
    assert config.delay_between_env_runner_restarts_s == 60


def test_a_mean_forgets_what_earlier_iterations_reported_however_large_its_window():
    logger = MetricsLogger(root=True)
    for value in (10.0, 20.0):
        logger.log_value("mean", value, window=100)
    assert logger.reduce(compile=True)["mean"] == 15
    logger.log_value("mean", 100.0, window=100)
    assert logger.reduce(compile=True)["mean"] == 100
    assert np.isnan(logger.reduce(compile=True)["mean"])


def test_two_reports_of_one_runner_are_averaged_without_their_counts():
    runner, reports = MetricsLogger(root=False), []
    for returns in ([20.0] * 60, [490.0]):
        for value in returns:
            runner.log_value("mean", value, window=100)
        reports.append(runner.reduce(compile=False))
    whole = MetricsLogger(root=True)
    whole.aggregate(reports)
    assert whole.reduce(compile=True)["mean"] == 255


@pytest.mark.parametrize("kind", [APPOConfig, IMPALAConfig])
def test_an_asynchronous_runner_has_one_request_at_a_time_and_a_local_learner_ends_each_update_before_the_next(kind):
    config = kind()
    assert (config.max_requests_in_flight_per_env_runner, config.broadcast_interval) == (1, 1)


def test_appo_asks_its_target_network_where_impala_asks_the_newest_policy():
    assert "target_action_log_probs=old_actions_logp" in inspect.getsource(APPOTorchLearner.compute_loss_for_module)
    assert "target_action_log_probs=target_actions_logp" in inspect.getsource(
        IMPALATorchLearner.compute_loss_for_module
    )


def test_a_timer_is_smoothed_each_new_value_counting_for_one_per_cent():
    logger = MetricsLogger(root=True)
    for seconds in (1.0, 2.0):
        logger.log_value("timer", seconds, reduce="ema")
    assert logger.peek("timer") == pytest.approx(1.01)


@pytest.fixture(scope="module")
def local_ray():
    with a_ray(num_cpus=3):
        yield


def ppo(env, **runners):
    return (
        PPOConfig()
        .environment(env)
        .env_runners(**{"num_env_runners": 0} | runners)
        .training(train_batch_size_per_learner=400, minibatch_size=200, num_epochs=1)
        .debugging(seed=0, log_sys_usage=False)
    )


def uneven(options):
    """Return an environment whose episodes are short in the first runner and long in the second; a step earns 1."""
    import gymnasium

    class Uneven(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.steps = 0
            return np.zeros(2, np.float32), {}

        def step(self, action):
            self.steps += 1
            return np.zeros(2, np.float32), 1.0, self.steps >= length, False, {}

    length = 5 if options.worker_index == 1 else 100
    return Uneven()


TAKEN: list[float] = []  # the actions that reached Pendulum


def noted_pendulum(options):
    """Return Pendulum, which writes down every action that reaches it."""
    import gymnasium

    class Noted(gymnasium.ActionWrapper):
        def action(self, action):
            TAKEN.append(float(action[0]))
            return action

    return Noted(gymnasium.make("Pendulum-v1"))


def note_return(episode, prev_episode_chunks, metrics_logger, **more):
    pieces = [*prev_episode_chunks, episode]
    metrics_logger.log_value("returns", sum(piece.get_return() for piece in pieces), reduce="item_series")


@pytest.mark.slow
def test_episode_return_mean_is_a_mean_of_the_runners_means_and_an_item_series_has_every_episode(local_ray):
    from ray import tune

    from coursekit.given.rllib_configs import built

    tune.register_env("uneven", uneven)
    with built(ppo("uneven", num_env_runners=2).callbacks(on_episode_end=note_return)) as [algo]:
        played = algo.train()["env_runners"]
    assert sorted(set(played["returns"])) == [5, 100]
    assert played["episode_return_mean"] == 52.5
    assert len(played["returns"]) == played["num_episodes"] == 42
    assert np.mean(played["returns"]) < 10


@pytest.mark.slow
def test_an_episode_spans_iterations_its_earlier_pieces_are_chunks_and_a_list_of_one_is_a_number(local_ray):
    from ray import tune

    from coursekit.given.rllib_configs import built

    tune.register_env("uneven", uneven)  # 100 steps an episode in this process
    config = ppo("uneven").training(train_batch_size_per_learner=60, minibatch_size=60)
    with built(config.callbacks(on_episode_end=note_return)) as [algo]:
        played = [algo.train()["env_runners"].get("returns", []) for _ in range(4)]
    assert [np.atleast_1d(returns).tolist() for returns in played] == [[], [100], [], [100]]
    assert np.isscalar(played[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "own"),
    [({}, False), ({"evaluation_interval": 1}, True), ({"evaluation_num_env_runners": 1}, True)],
)
def test_rllib_has_runners_for_a_test_only_with_an_interval_or_a_number_of_them(settings, own, local_ray):
    from coursekit.given.rllib_configs import built

    config = ppo(CORRIDOR).evaluation(evaluation_config={"explore": False}, **settings)
    with built(config) as [algo]:
        assert (algo.eval_env_runner_group is not None) == own


@pytest.mark.slow
def test_a_test_by_hand_without_runners_of_its_own_ignores_its_config_if_local_and_raises_if_they_are_remote(local_ray):
    from coursekit.given.rllib_configs import built

    asked = []
    with built(ppo(CORRIDOR).evaluation(evaluation_config={"explore": False})) as [algo]:
        algo.env_runner._sample = watched(algo.env_runner._sample, asked)
        algo.evaluate()
    assert {call["explore"] for call in asked} == {True}
    with (
        built(ppo(CORRIDOR, num_env_runners=1)) as [algo],
        pytest.raises(ValueError, match="doesn't have an env"),
    ):
        algo.evaluate()


def watched(function, calls):
    """Return a function that writes down the keywords of each call."""

    def call(*args, **keywords):
        calls.append(keywords)
        return function(*args, **keywords)

    return call


@pytest.mark.slow
def test_build_algo_freezes_a_copy_and_leaves_the_config_as_it_was(local_ray):
    from coursekit.given.rllib_configs import built

    config = ppo(CORRIDOR)
    with built(config) as [algo]:
        with pytest.raises(AttributeError):
            algo.config.lr = 1.0
        config.lr = 1.0
        assert algo.config.copy(copy_frozen=False).training(lr=0.5).lr == 0.5


@pytest.mark.slow
def test_algorithm_set_weights_raises_and_the_learner_groups_does_not(local_ray):
    from coursekit.given.rllib_configs import built

    with built(ppo(CORRIDOR)) as [algo]:
        weights = algo.get_weights()
        algo.learner_group.set_weights(weights)
        with pytest.raises(ValueError, match="set_state"):
            algo.set_weights(weights)


@pytest.mark.slow
def test_rllib_stretches_a_continuous_action_to_the_range_of_the_environment_and_unsquash_action_does_the_same(
    local_ray,
):
    import gymnasium
    import torch
    from ray import tune
    from ray.rllib.utils.spaces.space_utils import unsquash_action

    from coursekit.given.rllib_configs import built

    TAKEN.clear()
    tune.register_env("noted", noted_pendulum)
    with built(ppo("noted")) as [algo]:
        network = algo.get_module()
        with torch.no_grad():
            network.pi.net.mlp[-1].weight.zero_()
            network.pi.net.mlp[-1].bias.copy_(torch.tensor([0.25, 0.0]))  # the mean, and the logarithm of the spread
        algo.env_runner.sample(num_timesteps=3, explore=False)
        scores = network.forward_inference({"obs": torch.zeros(1, 3)})["action_dist_inputs"]
    best = network.get_inference_action_dist_cls().from_logits(scores).to_deterministic().sample()[0].numpy()
    assert best == pytest.approx([0.25])
    assert TAKEN[:3] == pytest.approx([0.5] * 3)  # Pendulum's torques go from -2 to 2
    assert unsquash_action(best, gymnasium.spaces.Box(-2, 2, (1,))) == pytest.approx([0.5])


@pytest.mark.slow
def test_the_best_action_of_several_choices_at_once_is_a_vector(local_ray):
    import gymnasium
    import torch
    from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    network = RLModuleSpec(
        module_class=DefaultPPOTorchRLModule,
        observation_space=gymnasium.spaces.Box(-1, 1, (2,), np.float32),
        action_space=gymnasium.spaces.MultiDiscrete([2, 3]),
        model_config={"fcnet_hiddens": [4]},
    ).build()
    scores = network.forward_inference({"obs": torch.zeros(1, 2)})["action_dist_inputs"][0]
    kind = network.get_inference_action_dist_cls()
    assert kind.from_logits(scores[None]).to_deterministic().sample()[0].shape == (2,)  # it needs a batch
