"""What chapters 14, 15 and 16 say of Ray, each fact held by a test named as the sentence that it holds."""

import inspect

import gymnasium
import numpy as np
import pytest
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.learner import Learner
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from coursekit.given.ch14_custom import Balloon, Cave, ProgressBonus
from tests.rays import a_ray

# Chapter 14


def reported_by_two_runners(**how):
    """Return what is reported of nine episodes that failed on one EnvRunner and one that arrived on another."""
    busy, idle, both = MetricsLogger(), MetricsLogger(), MetricsLogger(root=True)
    for logger, arrivals in (busy, [0.0] * 9), (idle, [1.0]):
        for arrived in arrivals:
            logger.log_value("arrived", arrived, **how)
    both.aggregate([busy.reduce(), idle.reduce()])
    return both.peek("arrived")


def test_the_mean_of_several_env_runners_is_a_mean_of_means():
    assert reported_by_two_runners(reduce="mean") == 0.5


def test_sums_of_several_env_runners_add_up_exactly():
    assert reported_by_two_runners(reduce="sum") == 1.0


def test_without_reduce_each_new_value_counts_for_one_per_cent():
    logger = MetricsLogger()
    for arrived in [0.0] * 20 + [1.0] * 20:
        logger.log_value("arrived", arrived)
    assert logger.peek("arrived") == pytest.approx(1 - 0.99**20)


def test_beside_the_five_places_are_the_loss_more_connectors_and_the_training_step():
    assert callable(Learner.compute_loss_for_module)
    assert callable(Algorithm.training_step)
    assert "learner_connector" in inspect.signature(AlgorithmConfig.training).parameters
    assert "module_to_env_connector" in inspect.signature(AlgorithmConfig.env_runners).parameters


def test_the_chapters_learning_rate_is_a_hundred_times_ppos_default():
    assert pytest.approx(100 * PPOConfig().lr) == 0.005


def test_the_default_network_has_tanh():
    assert DefaultModelConfig().fcnet_activation == "tanh"


def test_ppos_critic_gets_no_gradient_where_the_squared_error_is_above_10_and_stepping_to_and_fro_for_the_bonus_is():
    from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

    assert PPOConfig().vf_clip_param == 10
    assert "torch.clamp(vf_loss, 0, config.vf_clip_param)" in inspect.getsource(PPOTorchLearner)
    env, collected = ProgressBonus(Cave()), 0.0
    env.reset()
    for step in range(80):
        collected += 0.99**step * env.step([1, 0][step % 2])[1]
    assert collected**2 > 10


def test_a_random_walk_collects_about_20_of_the_bonus_and_the_shortest_path_14():
    rng, returns = np.random.default_rng(0), []
    for actions in [[1] * 14 + [3] * 12, *rng.integers(4, size=(200, 80))]:
        env, over, collected = ProgressBonus(Cave()), False, 0.0
        env.reset()
        for action in actions:
            if not over:
                _, reward, over, _, _ = env.step(action)
                collected += reward
        returns.append(collected)
    assert returns[0] == 14
    assert 19 < np.mean(returns[1:]) < 21


def test_a_balloon_that_waits_earns_about_4_and_one_from_the_ground_needs_four_steps_without_a_reward():
    env, waiting = Balloon(), []
    for seed in range(300):
        env.reset(seed=seed)
        waiting.append(sum(env.step(1)[1] for _ in range(20)))
    env.reset()
    env.height = 0.0
    assert 3.5 < np.mean(waiting) < 4.5
    assert [env.step(2)[1] for _ in range(5)] == [0, 0, 0, 0, 1]


def test_on_episode_end_sees_lists_in_the_last_chunk_arrays_in_the_earlier_ones_and_only_the_last_knows_the_end():
    from ray.rllib.callbacks.callbacks import RLlibCallback
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    seen = []

    class Look(RLlibCallback):
        def on_episode_end(self, *, episode, prev_episode_chunks, **kwargs):
            chunks = [*prev_episode_chunks, episode]
            seen.append([(isinstance(chunk.get_actions(), np.ndarray), chunk.is_done) for chunk in chunks])

    config = PPOConfig().environment(Cave).env_runners(num_env_runners=0).callbacks(Look)
    runner = SingleAgentEnvRunner(config=config)
    for _ in range(2):
        runner.sample(num_timesteps=50, random_actions=True)
    assert seen == [[(True, False), (False, True)]]


def test_what_a_preprocessor_returns_goes_into_the_episode_with_its_space():
    from ray.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor

    source = inspect.getsource(SingleAgentObservationPreprocessor.__call__)
    assert "set_observations(at_indices=-1, new_data=new_observation)" in source
    assert "sa_episode.observation_space = self.observation_space" in source


def test_cartpoles_speeds_have_infinite_bounds():
    space = gymnasium.make("CartPole-v1").observation_space
    assert np.isinf(space.high[[1, 3]]).all()


# Chapter 15


def test_ray_data_cuts_a_list_into_up_to_200_blocks():
    from ray.data import DataContext

    assert DataContext().read_op_min_num_blocks == 200


@pytest.mark.slow
def test_a_column_of_text_makes_iter_torch_batches_fail():
    from ray.data import from_items

    with a_ray(num_cpus=1):
        rows = from_items([{"eps_id": "monday", "actions": 1}], override_num_blocks=1)
        with pytest.raises(Exception, match=r"(?i)convert|torch|type"):
            list(rows.iter_torch_batches())
        assert len(list(rows.select_columns(["actions"]).iter_torch_batches())) == 1


def test_rllib_makes_episodes_of_one_step_of_single_rows():
    from ray.rllib.algorithms.marwil import MARWILConfig
    from ray.rllib.offline.offline_prelearner import OfflinePreLearner

    reader = object.__new__(OfflinePreLearner)
    reader.config = MARWILConfig()
    obs = np.zeros((3, 4), np.float32)
    rows = {"eps_id": np.zeros(3, int), "obs": obs, "new_obs": obs + 1, "actions": np.zeros(3, int)}
    rows |= {"rewards": np.ones(3), "terminateds": np.array([False, False, True]), "truncateds": np.zeros(3, bool)}
    episodes = reader._map_to_episodes(rows)["episodes"]
    assert [len(episode) for episode in episodes] == [1, 1, 1]
    assert np.array_equal(episodes[0].get_observations(-1), obs[0] + 1)


def test_whole_episodes_need_a_package_that_ray_does_not_install():
    from importlib.metadata import requires

    from ray.rllib.offline import offline_env_runner, offline_prelearner

    assert "import msgpack_numpy" in inspect.getsource(offline_env_runner)
    assert "import msgpack_numpy" in inspect.getsource(offline_prelearner)
    assert not [need for need in requires("ray") if need.replace("_", "-").startswith("msgpack-numpy")]


def test_an_env_runner_writes_whole_episodes_by_default_and_compresses_observations_of_rows():
    config = AlgorithmConfig()
    assert config.output_write_episodes
    assert config.output_compress_columns == ["obs", "new_obs"]


def test_rllib_evaluates_on_a_log_by_the_loss_or_by_importance_sampling_which_reads_how_probable_actions_were():
    from ray.rllib.offline import offline_policy_evaluation_runner as runner

    assert AlgorithmConfig().offline_evaluation_type == "eval_loss"
    assert {kind.value for kind in runner.OfflinePolicyEvaluationTypes} == {"eval_loss", "is", "pdis"}
    assert "Columns.ACTION_LOGP" in inspect.getsource(runner)


def pre_evaluated(**more):
    """Return what RLlib's importance sampling makes of the columns of three steps."""
    from ray.rllib.algorithms.marwil import MARWILConfig
    from ray.rllib.offline.offline_policy_evaluation_runner import OfflinePolicyPreEvaluator

    reader = object.__new__(OfflinePolicyPreEvaluator)
    reader.config = MARWILConfig()
    obs = np.zeros((3, 4), np.float32)
    rows = {"eps_id": np.zeros(3, int), "obs": obs, "new_obs": obs + 1, "actions": np.zeros(3, int)}
    rows |= {"rewards": np.ones(3), "terminateds": np.array([False, False, True]), "truncateds": np.zeros(3, bool)}
    return reader(rows | more)["episodes"]


def test_importance_sampling_without_action_logp_raises_a_key_error():
    with pytest.raises(KeyError, match="action_logp"):
        pre_evaluated()
    assert [step["action_logp"] for step in pre_evaluated(action_logp=np.full(3, -0.7))] == [[-0.7]] * 3


def test_importance_sampling_weights_the_actions_that_the_new_policy_samples():
    from ray.rllib.offline.offline_policy_evaluation_runner import OfflinePolicyEvaluationRunner

    source = inspect.getsource(OfflinePolicyEvaluationRunner._evaluate)
    assert "actions = action_dist.sample()" in source
    assert "action_logp = action_dist.logp(actions)" in source


def test_cql_and_iql_train_with_continuous_actions_only():
    from ray.rllib.algorithms.cql import CQLConfig
    from ray.rllib.algorithms.cql.torch.default_cql_torch_rl_module import DefaultCQLTorchRLModule
    from ray.rllib.algorithms.iql import IQLConfig
    from ray.rllib.algorithms.iql.torch.default_iql_torch_rl_module import DefaultIQLTorchRLModule

    assert CQLConfig().get_default_rl_module_spec().module_class is DefaultCQLTorchRLModule
    assert "self.action_space.low" in inspect.getsource(DefaultCQLTorchRLModule._forward_train)
    assert not hasattr(gymnasium.spaces.Discrete(2), "low")
    assert IQLConfig().get_default_rl_module_spec().module_class is DefaultIQLTorchRLModule
    module = object.__new__(DefaultIQLTorchRLModule)
    module.__dict__["action_space"] = gymnasium.spaces.Discrete(2)
    with pytest.raises(ValueError, match="Only continuous action spaces"):
        module._forward_train({})


def test_bc_keeps_all_prepared_batches_and_marwil_does_not():
    from ray.rllib.algorithms.bc import BCConfig
    from ray.rllib.algorithms.marwil import MARWILConfig

    assert BCConfig().materialize_mapped_data
    assert not MARWILConfig().materialize_mapped_data


def test_ray_data_guarantees_no_order_by_default_and_a_split_does_not_shuffle():
    from ray.data import Dataset, ExecutionOptions

    assert ExecutionOptions().preserve_order is False
    assert inspect.signature(Dataset.train_test_split).parameters["shuffle"].default is False


def test_without_an_env_runner_there_is_no_module_to_get():
    from types import SimpleNamespace

    with pytest.raises(AttributeError):
        Algorithm.get_module(SimpleNamespace(env_runner=None, env_runner_group=None))


# Chapter 16


def test_asha_lets_the_best_third_of_those_before_continue_stopped_ones_included():
    from types import SimpleNamespace

    from ray.tune.schedulers.async_hyperband import _Bracket

    from coursekit.exercises.ch16_tune import _replayed

    curves = np.sort(np.random.default_rng(0).uniform(size=(20, 26)), axis=1).tolist()
    bracket, trained = _Bracket(min_t=1, max_t=26, reduction_factor=3, s=0), 0
    for number, curve in enumerate(curves):
        trial = SimpleNamespace(trial_id=str(number))
        for epoch, accuracy in enumerate(curve, 1):
            trained += 1
            if bracket.on_result(trial, epoch, accuracy) == "STOP":
                break
    assert [rung for rung, _ in bracket._rungs] == [9, 3, 1]
    assert trained == _replayed(curves, list(range(20)), [1, 3, 9])[0]


def test_rays_asha_stops_a_trial_for_good_and_lets_one_at_the_bar_continue():
    from types import SimpleNamespace

    from ray.tune.schedulers.async_hyperband import _Bracket

    bracket = _Bracket(min_t=1, max_t=9, reduction_factor=3, s=0)
    decisions = [
        bracket.on_result(SimpleNamespace(trial_id=str(number)), 1, accuracy)
        for number, accuracy in enumerate([0.5, 0.5, 0.4])
    ]
    assert decisions == ["CONTINUE", "CONTINUE", "STOP"]


def test_by_default_asha_ends_every_trial_after_100_reports():
    from ray.tune.schedulers import ASHAScheduler

    settings = inspect.signature(ASHAScheduler.__init__).parameters
    assert (settings["max_t"].default, settings["time_attr"].default) == (100, "training_iteration")
    assert settings["stop_last_trials"].default is True


def test_with_two_trials_at_a_time_optunas_fifth_is_random_like_the_first_four_and_the_sixth_is_not():
    import optuna

    def rates(sampler):
        """Return the rates of six trials, of which the older of two always ends before the next one starts."""
        study, tried = optuna.create_study(direction="maximize", sampler=sampler), []
        for number in range(6):
            if number > 1:
                study.tell(number - 2, -tried[number - 2])
            tried.append(study.ask().suggest_float("lr", 0.001, 1, log=True))
        return tried

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tpe = rates(optuna.samplers.TPESampler(n_startup_trials=4, seed=2))
    chance = rates(optuna.samplers.RandomSampler(seed=2))
    assert tpe[:5] == chance[:5]
    assert tpe[5] != chance[5]


def test_pbt_says_at_level_info_that_there_is_no_checkpoint_to_copy_and_a_restored_trial_at_level_debug():
    from ray.tune.execution.tune_controller import TuneController
    from ray.tune.schedulers import PopulationBasedTraining

    copies = " ".join(inspect.getsource(PopulationBasedTraining._checkpoint_or_exploit).split())
    restores = inspect.getsource(TuneController._schedule_trial_restore)
    assert 'logger.info( f"[pbt]: no checkpoint for trial' in copies
    assert 'logger.debug(f"Not restoring trial {trial}: No checkpoint found.")' in restores


def test_tune_takes_a_snapshot_about_every_ten_seconds():
    from ray.tune.execution.experiment_state import _ExperimentCheckpointManager as Manager

    assert Manager(storage=None, checkpoint_period="auto")._checkpoint_period == 10.0


def test_a_trial_that_cannot_take_over_a_process_is_not_reported_to_the_search_so_a_limit_on_trials_stays_used():
    from ray.tune.execution.tune_controller import TuneController

    assert "on_trial_complete" not in inspect.getsource(TuneController._on_trial_reset)
    assert "on_trial_complete" in inspect.getsource(TuneController._process_trial_failure)


@pytest.mark.slow
def test_a_trial_that_cannot_take_over_a_process_ends_as_error_and_fit_returns(tmp_path):
    from ray import tune

    class OneStep(tune.Trainable):
        def step(self):
            return {"done": True}

        def save_checkpoint(self, folder):
            """Save nothing: Tune asks for a checkpoint when a trial ends."""

    with a_ray(num_cpus=1):
        results = tune.Tuner(
            OneStep,
            param_space={"number": tune.grid_search([1, 2])},
            tune_config=tune.TuneConfig(reuse_actors=True),
            run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
        ).fit()
    assert len(results.errors) == 1


def test_a_list_of_rates_without_grid_search_raises_a_type_error():
    from ray.rllib.utils.schedules.scheduler import Scheduler

    with pytest.raises(TypeError):
        Scheduler.validate(fixed_value_or_schedule=[0.001, 0.01], setting_name="lr", description="learning rate")


def test_an_algorithm_cannot_take_over_another_ones_process():
    from ray.tune import Trainable

    assert Algorithm.reset_config is Trainable.reset_config
    assert Trainable.reset_config(None, {}) is False


def cpus(config):
    return PPO.default_resource_request(config).required_resources["CPU"]


def test_a_trial_of_ppo_asks_for_three_cpus_unless_you_say_otherwise():
    shared = PPOConfig().env_runners(num_cpus_per_env_runner=0.25).learners(num_cpus_per_learner=0.5)
    assert cpus(PPOConfig()) == 3
    assert cpus(PPOConfig().env_runners(num_env_runners=0)) == 1
    assert cpus(shared.resources(num_cpus_for_main_process=0.5)) == 1


def test_tune_warns_after_a_minute_that_a_trial_asks_for_too_much():
    from ray.tune.execution import insufficient_resources_manager as manager

    assert '"TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S", "60"' in inspect.getsource(manager)
    assert manager.MSG_TUNE_INSUFFICIENT.startswith("You asked for {asked_cpus} CPUs")


def test_results_must_go_to_an_absolute_path():
    from ray.train._internal.storage import get_fs_and_path

    with pytest.raises(ValueError, match="absolute|URI"):
        get_fs_and_path("results")


def test_a_quarter_of_a_population_copies_and_by_default_no_trial_waits():
    from ray.tune.schedulers import PopulationBasedTraining

    settings = inspect.signature(PopulationBasedTraining.__init__).parameters
    assert settings["quantile_fraction"].default == 0.25
    assert settings["synch"].default is False


def test_a_trial_that_dies_stays_dead_unless_you_say_otherwise():
    from ray import tune

    assert tune.FailureConfig().max_failures == 0


@pytest.mark.slow
def test_a_plan_waits_for_the_copies_that_tune_makes_in_the_background(monkeypatch):
    import threading
    import time

    from ray import tune
    from ray.train._internal import storage

    from coursekit.given.ch16_tune import plan_of

    def slowly(*args, **kwargs):
        begun.append(threading.current_thread())
        time.sleep(1)
        copy(*args, **kwargs)

    def tuner(trainable, space, cpus, folder, scheduler=None, callbacks=None):
        how = tune.TuneConfig(metric="accuracy", mode="max")
        return tune.Tuner(
            trainable, tune_config=how, run_config=tune.RunConfig(storage_path=folder, callbacks=callbacks, verbose=0)
        )

    begun, copy = [], storage._upload_to_fs_path
    monkeypatch.setattr(storage, "_upload_to_fs_path", slowly)
    with a_ray(num_cpus=2):
        plan = plan_of(tuner, {}, 1)
        still = [thread for thread in begun if thread.is_alive()]
    assert (len(plan["trials"]), len(begun) > 0, still) == (1, True, [])
