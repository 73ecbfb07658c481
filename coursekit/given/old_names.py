"""What older tutorials write, and what takes its place: each row is code, so a test and a chapter can try it.

`make build` writes the rows into docs/old_names.md.
"""

import contextlib
import inspect
import io
import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler


@dataclass(frozen=True)
class Name:
    """A line of an older tutorial, a line of today, and an expression that is true once today's line has run.

    A `new` that is a comment is not run: it says what to do instead. Where the old line fails, `fails` is how Ray's answer begins: the type of the error, and what it says. Where Ray still takes it,
    `accepted` is an expression that is true once the old line has run, and `why` says what is wrong with it all the same.
    """

    old: str
    new: str
    shows: str = "True"
    fails: str = ""
    accepted: str = ""
    why: str = ""


OLD_NAMES = [
    Name(
        "from ray.rllib.agents.ppo import PPOTrainer",
        "from ray.rllib.algorithms.ppo import PPO, PPOConfig",
        "PPOConfig().algo_class is PPO",
        fails="ModuleNotFoundError: No module named 'ray.rllib.agents'",
    ),
    Name(
        'import ray.rllib.agents.ppo as ppo\ntrainer = ppo.PPOTrainer(env="CartPole-v1", config={"num_workers": 0})',
        'algo = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).build_algo()',
        "algo.iteration == 0 and not algo.stop()",
        fails="ModuleNotFoundError: No module named 'ray.rllib.agents'",
    ),
    Name(
        "config = ppo.DEFAULT_CONFIG.copy()",
        "config = PPOConfig()",
        "config.num_epochs == 30",
        fails="AttributeError: module 'ray.rllib.algorithms.ppo' has no attribute 'DEFAULT_CONFIG'",
    ),
    Name(
        'PPO(config={"env": "CartPole-v1", "num_envs_per_worker": 2})',
        'algo = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0, num_envs_per_env_runner=2).build_algo()',
        "algo.env_runner.num_envs == 2 and not algo.stop()",
        fails="ValueError: `AlgorithmConfig.num_envs_per_worker` has been deprecated",
    ),
    Name(
        "config.rollouts(num_rollout_workers=2)",
        "config.env_runners(num_env_runners=2)",
        "config.num_env_runners == 2",
        fails="ValueError: `rollouts` has been deprecated",
    ),
    Name(
        "config.env_runners(num_workers=2)",
        "config.env_runners(num_env_runners=2)",
        "config.num_env_runners == 2",
        fails="TypeError: AlgorithmConfig.env_runners() got an unexpected keyword argument 'num_workers'",
    ),
    Name(
        "config.num_workers = 2",
        "config.num_env_runners = 2",
        "config.num_env_runners == 2",
        accepted="config.num_env_runners == 0",
        why="no error, and no remote EnvRunner",
    ),
    Name(
        "config.env_runners(num_envs_per_worker=4)",
        "config.env_runners(num_envs_per_env_runner=4)",
        "config.num_envs_per_env_runner == 4",
        fails="ValueError: `AlgorithmConfig.env_runners(num_envs_per_worker)` has been deprecated",
    ),
    Name(
        "config.env_runners(create_env_on_driver=True)",
        "config.env_runners(create_env_on_local_worker=True)",
        "config.create_env_on_local_worker",
        fails="TypeError: AlgorithmConfig.env_runners() got an unexpected keyword argument 'create_env_on_driver'",
    ),
    Name(
        "config.exploration(explore=False)",
        "config.env_runners(explore=False)",
        "config.explore is False",
        fails="ValueError: `exploration` has been deprecated",
    ),
    Name(
        "config.training(sgd_minibatch_size=64)",
        "config.training(minibatch_size=64)",
        "config.minibatch_size == 64",
        fails="TypeError: AlgorithmConfig.training() got an unexpected keyword argument 'sgd_minibatch_size'",
    ),
    Name(
        "config.training(num_sgd_iter=5)",
        "config.training(num_epochs=5)",
        "config.num_epochs == 5",
        accepted="config.num_epochs == 5",
        why="works, with a warning that it will become an error",
    ),
    Name(
        'config.update_from_dict({"num_sgd_iter": 5})',
        "config.training(num_epochs=5)",
        "config.num_epochs == 5",
        accepted="config.num_epochs == 30",
        why="no error, and 30 epochs as before",
    ),
    Name(
        "config.training(train_batch_size=500)",
        "config.training(train_batch_size_per_learner=500)",
        "config.total_train_batch_size == 500",
        accepted="config.total_train_batch_size == 32 and PPOConfig().training(train_batch_size=500).total_train_batch_size == 500",
        why="works, until you also set train_batch_size_per_learner: then Ray silently ignores it",
    ),
    Name(
        'config.training(model={"fcnet_hiddens": [32]})',
        "config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32]))",
        "config.model_config['fcnet_hiddens'] == [32]",
        accepted="config.model_config.get('fcnet_hiddens') != [32]",
        why="a warning when the algorithm is built, and the default network",
    ),
    Name(
        "config.evaluation(evaluation_num_episodes=7)",
        "config.evaluation(evaluation_duration=7)",
        "config.evaluation_duration == 7",
        fails="TypeError: AlgorithmConfig.evaluation() got an unexpected keyword argument 'evaluation_num_episodes'",
    ),
    Name(
        'result["episode_reward_mean"]',
        'result["env_runners"]["episode_return_mean"]',
        'result["env_runners"]["episode_return_mean"] > 0',
        fails="KeyError: 'episode_reward_mean'",
    ),
    Name(
        'result["timesteps_total"]',
        'result["num_env_steps_sampled_lifetime"]',
        'result["num_env_steps_sampled_lifetime"] >= 32',
        fails="KeyError: 'timesteps_total'",
    ),
    Name(
        'result["info"]["learner"]["default_policy"]',
        'result["learners"]["default_policy"]',
        '"entropy" in result["learners"]["default_policy"]',
        fails="KeyError: 'info'",
    ),
    Name(
        "algo.workers.local_worker()",
        "algo.env_runner",
        "algo.env_runner.num_envs == 1",
        fails="AttributeError: 'function' object has no attribute 'local_worker'",
    ),
    Name(
        "policy = algo.get_policy()",
        "module = algo.get_module()",
        "hasattr(module, 'forward_inference')",
        fails="AttributeError: 'SingleAgentEnvRunner' object has no attribute 'get_policy'",
    ),
    Name(
        "action = algo.compute_single_action(obs)",
        'action = int(algo.get_module().forward_inference({"obs": torch.tensor(obs)[None]})["action_dist_inputs"].argmax())',
        "action in (0, 1)",
        fails="AttributeError: 'SingleAgentEnvRunner' object has no attribute 'get_policy'",
    ),
    Name(
        'algo.export_policy_model("policy")',
        "algo.get_module().save_to_path(folder)",
        "type(RLModule.from_checkpoint(folder)) is type(algo.get_module())",
        fails="AttributeError: 'SingleAgentEnvRunner' object has no attribute 'get_policy'",
    ),
    Name(
        "algo = config.build()",
        "algo = config.build_algo()",
        "algo.iteration == 0 and not algo.stop()",
        accepted="algo.iteration == 0 and not algo.stop()",
        why="works, with a warning that it will become an error",
    ),
    Name(
        "config.resources(num_gpus=1)",
        "config.learners(num_gpus_per_learner=1)",
        "config.num_gpus_per_learner == 1",
        accepted="config.num_gpus_per_learner == 0",
        why="no error, and the learner gets no GPU",
    ),
    Name(
        'algo = config.framework("tf2").build_algo()',
        "# leave the framework at its default, PyTorch",
        fails="ImportError: TensorFlow was specified as the framework",
    ),
    Name(
        "path = algo.save(folder)",
        "path = algo.save_to_path(folder)",
        "path == folder",
        accepted="path != folder and type(path).__name__ == '_TrainingResult'",
        why="works, and returns a TrainingResult instead of a path",
    ),
    Name(
        "algo.restore(algo.save(folder))",
        "algo.restore_from_path(algo.save_to_path(folder))",
        accepted="True",
        why="works, with what `save` returned",
    ),
    Name(
        "from ray.rllib.evaluation.rollout_worker import RolloutWorker",
        "from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner",
        "type(algo.env_runner) is SingleAgentEnvRunner",
        accepted="not isinstance(algo.env_runner, RolloutWorker)",
        why="no error, but RLlib no longer samples with it",
    ),
    Name(
        "from ray.rllib.policy.sample_batch import SampleBatch",
        "from ray.rllib.env.single_agent_episode import SingleAgentEpisode",
        "type(algo.env_runner.sample(num_episodes=1)[0]) is SingleAgentEpisode",
        accepted="not isinstance(algo.env_runner.sample(num_episodes=1)[0], SampleBatch)",
        why="no error, but samplers return episodes",
    ),
    Name(
        "from ray.rllib.models import ModelCatalog\nModelCatalog.register_custom_model('mine', object)",
        "# write an RLModule, and pass it to config.rl_module (Chapter 14)",
        accepted="True",
        why="no error, and RLlib never builds it",
    ),
    Name(
        "from ray.rllib.algorithms.callbacks import DefaultCallbacks",
        "from ray.rllib.callbacks.callbacks import RLlibCallback",
        "hasattr(RLlibCallback, 'on_episode_end')",
        accepted="DefaultCallbacks.__name__",
        why="works, but to change the data, you now write a connector",
    ),
    Name(
        'config.env_runners(observation_filter="MeanStdFilter")',
        "from ray.rllib.connectors.env_to_module import MeanStdFilter\n"
        "config.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())",
        accepted="'MeanStdFilter' not in str(config.build_env_to_module_connector(algo.env_runner.env))",
        why="no error, and nothing is filtered",
    ),
    Name(
        "from ray.rllib.env.policy_server_input import PolicyServerInput",
        "import ray.rllib.env.external",
        fails="ModuleNotFoundError: No module named 'ray.rllib.env.policy_server_input'",
    ),
    Name(
        "from ray.rllib.algorithms.a3c import A3CConfig",
        "from ray.rllib.algorithms.appo import APPOConfig",
        "APPOConfig().algo_class.__name__ == 'APPO'",
        fails="ModuleNotFoundError: No module named 'ray.rllib.algorithms.a3c'",
    ),
    Name(
        "from ray.rllib.algorithms.a2c import A2CConfig",
        "from ray.rllib.algorithms.impala import IMPALAConfig",
        "IMPALAConfig().algo_class.__name__ == 'IMPALA'",
        fails="ModuleNotFoundError: No module named 'ray.rllib.algorithms.a2c'",
    ),
    Name(
        'tune.run("PPO", config={"env": "CartPole-v1"}, local_dir=folder)',
        'tuner = tune.Tuner("PPO", param_space=config, run_config=tune.RunConfig(storage_path=folder))',
        "callable(tuner.fit)",
        fails="DeprecationWarning: The `local_dir` argument is deprecated",
    ),
    Name(
        "from ray.tune import track",
        "from ray.tune import report",
        "callable(report)",
        fails="ImportError: cannot import name 'track' from 'ray.tune'",
    ),
]

# One dictionary of settings, as the old notes write it, line by line.
DICTIONARY = [
    Name(
        '"framework": "torch"',
        '.framework("torch")',
        accepted='config.framework_str == "torch"',
        why="works; it is the default",
    ),
    Name(
        '"num_workers": 2',
        ".env_runners(num_env_runners=2)",
        "config.num_env_runners == 2",
        accepted="config.num_env_runners == 2",
        why="works in a dictionary, but nowhere else",
    ),
    Name(
        '"num_envs_per_worker": 4',
        ".env_runners(num_envs_per_env_runner=4)",
        "config.num_envs_per_env_runner == 4",
        fails="ValueError: `AlgorithmConfig.num_envs_per_worker` has been deprecated",
    ),
    Name(
        '"create_env_on_driver": True',
        ".env_runners(create_env_on_local_worker=True)",
        "config.create_env_on_local_worker",
        accepted="config.create_env_on_local_worker",
        why="works in a dictionary, but nowhere else",
    ),
    Name(
        '"train_batch_size": 2000',
        ".training(train_batch_size_per_learner=2000)",
        "config.total_train_batch_size == 2000",
        accepted="config.total_train_batch_size == 2000",
        why="works, until you also set train_batch_size_per_learner",
    ),
    Name(
        '"sgd_minibatch_size": 64',
        ".training(minibatch_size=64)",
        "config.minibatch_size == 64",
        accepted="config.minibatch_size == 128",
        why="no error, and minibatches of 128",
    ),
    Name(
        '"num_sgd_iter": 10',
        ".training(num_epochs=10)",
        "config.num_epochs == 10",
        accepted="config.num_epochs == 30",
        why="no error, and 30 epochs",
    ),
    Name(
        '"lr": 0.0003, "gamma": 0.98, "lambda": 0.9',
        ".training(lr=0.0003, gamma=0.98, lambda_=0.9)",
        "(config.lr, config.gamma, config.lambda_) == (0.0003, 0.98, 0.9)",
        accepted="(config.lr, config.gamma, config.lambda_) == (0.0003, 0.98, 0.9)",
        why="works",
    ),
    Name(
        '"model": {"fcnet_hiddens": [64, 64]}',
        ".rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))",
        "config.model_config['fcnet_hiddens'] == [64, 64]",
        accepted="config.model_config.get('fcnet_hiddens') != [64, 64]",
        why="no error, and the default network",
    ),
    Name(
        '"num_gpus": 1',
        ".learners(num_gpus_per_learner=1)",
        "config.num_gpus_per_learner == 1",
        accepted="config.num_gpus_per_learner == 0",
        why="no error, and the learner gets no GPU",
    ),
]
OLD_DICTIONARY = "\n".join(
    [
        "from ray.rllib.agents.ppo import PPOTrainer",
        "",
        "trainer = PPOTrainer(",
        '    env="CartPole-v1",',
        "    config={",
        *(f"        {entry}," for name in DICTIONARY for entry in name.old.replace(', "', '\n"').splitlines()),
        "    },",
        ")",
    ]
)
NEW_DICTIONARY = "\n".join(
    [
        "from ray.rllib.algorithms.ppo import PPOConfig",
        "from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig",
        "",
        "config = (",
        "    PPOConfig()",
        '    .environment("CartPole-v1")',
        *(f"    {name.new}" for name in DICTIONARY),
        ")",
    ]
)
BY_LINE = [  # each line of the dictionary alone, as code
    replace(name, old=f"config = PPOConfig.from_dict({{{name.old}}})", new=f"config = PPOConfig(){name.new}")
    for name in DICTIONARY
]

OFFLINE = [
    Name(
        'BCConfig().offline_data(input="log/*.json")',
        'config = BCConfig().offline_data(input_=["log"])',
        'config.input_ == ["log"]',
        fails="TypeError: ",
    ),
    Name(
        'BCConfig().offline_data(input_evaluation=["is", "wis"])',
        'config = BCConfig().environment("CartPole-v1").evaluation(evaluation_interval=50)',
        "config.evaluation_interval == 50",
        fails="TypeError: ",
    ),
    Name(
        'config = BCConfig().evaluation(off_policy_estimation_methods={"is": {"type": "ImportanceSampling"}})',
        'config = BCConfig().environment("CartPole-v1").evaluation(evaluation_interval=50)',
        "config.evaluation_interval == 50",
        accepted="config.off_policy_estimation_methods",
        why="no error, and no estimate",
    ),
]
ENVIRONMENTS = [
    Name("import gym", "import gymnasium", fails="ModuleNotFoundError: No module named 'gym'"),
    Name(
        "env.seed(0)",
        "obs, info = env.reset(seed=0)",
        "obs.shape == (4,)",
        fails="AttributeError: ",
    ),
    Name(
        "obs = env.reset()",
        "obs, info = env.reset()",
        "obs.shape == (4,)",
        accepted="type(obs) is tuple",
        why="no error, and `obs` is a pair",
    ),
    Name(
        "env.reset()\nobs, reward, done, info = env.step(0)",
        "env.reset()\nobs, reward, terminated, truncated, info = env.step(0)\ndone = terminated or truncated",
        "done is False",
        fails="ValueError: too many values to unpack",
    ),
]
CORE = [
    Name(
        "ray.init(redis_max_memory=10**8)",
        "# there's no Redis to configure anymore",
        fails="RuntimeError: Unknown keyword argument(s): redis_max_memory",
    ),
    Name(
        "ray.init(lru_evict=True)",
        "# the store no longer evicts what is still referenced",
        fails="RuntimeError: Unknown keyword argument(s): lru_evict",
    ),
    Name(
        'ray.init(redis_address="10.0.0.1:6379")',
        '# `ray.init(address="10.0.0.1:6379")`',
        fails="RuntimeError: Unknown keyword argument(s): redis_address",
    ),
    Name(
        "@ray.remote(num_return_vals=2)\ndef split(x):\n    return x, -x",
        "@ray.remote(num_returns=2)\ndef split(x):\n    return x, -x",
        "len(split.remote(1)) == 2",
        fails="ValueError: Invalid option keyword num_return_vals",
    ),
    Name(
        "ready, rest = ray.wait(refs, timeout=10000)  # milliseconds",
        "ready, rest = ray.wait(refs, timeout=10)  # seconds",
        "ready == refs",
        accepted="ready == refs",
        why="no error, and it may wait almost three hours",
    ),
    Name(
        "ray.ObjectID",
        "ray.ObjectRef",
        accepted="ray.ObjectID is ray.ObjectRef",
        why="works: it's another name for ObjectRef",
    ),
    Name(
        "ray.register_custom_serializer(complex, use_pickle=True)",
        "ray.util.register_serializer(complex, serializer=str, deserializer=complex)",
        "ray.util.deregister_serializer(complex) is None",
        fails="AttributeError: module 'ray' has no attribute 'register_custom_serializer'",
    ),
    Name(
        "import pyarrow.plasma",
        "ref = ray.put(value)",
        "ray.get(ref) == value",
        fails="ModuleNotFoundError: No module named 'pyarrow.plasma'",
    ),
    Name(
        'counter = Counter._remote(args=[0], name="scores", detached=True)',
        'counter = Counter.options(name="scores", lifetime="detached").remote(0)',
        'ended("scores")["detached"]',
        accepted='not ended("scores")["detached"]',
        why="no error, and the actor ends with your program",
    ),
    Name(
        'counter = ray.experimental.get_actor("scores")',
        'counter = Counter.options(name="scores").remote(0)\nfound = ray.get_actor("scores")',
        'found == counter and not ended("scores")["detached"]',
        fails="AttributeError: module 'ray.experimental' has no attribute 'get_actor'",
    ),
    Name(
        "counter = Counter.remote(0)\ncounter.__ray_kill__()",
        "counter = Counter.remote(0)\nray.kill(counter)",
        fails="AttributeError: ",
    ),
    Name(
        'ray.experimental.set_resource("slots", 2)',
        "# a node's resources are set when it starts: `ray start --resources='{\"slots\": 2}'`",
        fails="DeprecationWarning: Dynamic custom resources are deprecated",
    ),
    Name(
        "task.options(placement_group=group)",
        "from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy\n"
        "task.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group))",
        accepted="True",
        why="works for now",
    ),
    Name(
        "@ray.remote(max_reconstructions=3)\nclass Sampler:\n    pass",
        "@ray.remote(max_restarts=3)\nclass Sampler:\n    pass",
        fails="ValueError: Invalid option keyword max_reconstructions",
    ),
    Name(
        "ray.exceptions.RayTimeoutError",
        "ray.exceptions.GetTimeoutError",
        fails="AttributeError: ",
    ),
    Name(
        "ray.exceptions.UnreconstructableError",
        "ray.exceptions.ObjectReconstructionFailedError",
        fails="AttributeError: ",
    ),
    Name(
        "import ray.workflow",
        "# Chapter 25 builds a durable pipeline without it",
        fails="RuntimeError: ",
    ),
]
TUNE = [
    Name(
        'tune.run(learn, resources_per_trial={"cpu": 1}, num_samples=0, verbose=0)',
        'tuner = tune.Tuner(tune.with_resources(learn, {"cpu": 1}))',
        "callable(tuner.fit)",
        accepted="True",
        why="works",
    ),
    Name(
        "tune.report(accuracy=0.9)",
        'def learn(config):\n    tune.report({"accuracy": 0.9})',
        "callable(learn)",
        accepted="'accuracy' not in inspect.signature(tune.report).parameters",
        why="no error outside a trial, and a TypeError inside one",
    ),
    Name(
        "with tune.checkpoint_dir(step=1) as place:\n    pass",
        "def learn(config):\n    tune.report({}, checkpoint=tune.Checkpoint.from_directory(folder))",
        "callable(learn)",
        fails="AttributeError: ",
    ),
]
TRAIN = [
    Name(
        "from ray.util.sgd import TorchTrainer",
        "from ray.train.torch import TorchTrainer, prepare_model",
        fails="DeprecationWarning: Ray SGD has been deprecated",
    ),
    Name(
        "from ray.train import Trainer",
        "from ray.train.torch import TorchTrainer",
        fails="ImportError: cannot import name 'Trainer'",
    ),
    Name(
        "from ray.air import session",
        "from ray import train",
        "callable(train.report)",
        accepted="callable(session.report)",
        why="the import works; in a worker, `session.report` only warns, and your checkpoints are lost",
    ),
    Name(
        "from ray.air import ScalingConfig\nTorchTrainer(learn, scaling_config=ScalingConfig(num_workers=1))",
        "from ray.train import ScalingConfig\nTorchTrainer(learn, scaling_config=ScalingConfig(num_workers=1))",
        fails="ValueError: ",
    ),
    Name(
        "from ray.air import RunConfig\nTorchTrainer(learn, run_config=RunConfig())",
        "from ray.train import RunConfig\nTorchTrainer(learn, run_config=RunConfig())",
        fails="ValueError: ",
    ),
    Name(
        "TorchTrainer.restore(folder)",
        'from ray.train import RunConfig\nTorchTrainer(learn, run_config=RunConfig(name="run", storage_path=folder))',
        fails="DeprecationWarning: ",
    ),
    Name(
        "TorchTrainer(learn, resume_from_checkpoint=folder)",
        'TorchTrainer(learn, train_loop_config={"checkpoint": folder})',
        fails="DeprecationWarning: ",
    ),
    Name("ds.window()", "# every dataset streams", fails="AttributeError: "),
    Name("ds.repeat()", "# iterate over it again", fails="AttributeError: "),
    Name("ds.to_torch()", "ds.iter_torch_batches()", fails="AttributeError: "),
    Name(
        "from ray.data import DatasetPipeline",
        "# every dataset streams",
        fails="ImportError: cannot import name 'DatasetPipeline'",
    ),
]
SERVE = [
    Name(
        'serve.create_backend("power", Power)',
        '# `serve.run(Power.bind(), name="power")`',
        fails="AttributeError: module 'ray.serve' has no attribute 'create_backend'",
    ),
    Name(
        'serve.get_deployment("power")',
        '# `serve.get_app_handle("power")`',
        fails="AttributeError: module 'ray.serve' has no attribute 'get_deployment'",
    ),
    Name("Power.deploy()", '# `serve.run(Power.bind(), name="power")`', fails="AttributeError: "),
    Name("Power.get_handle()", '# `serve.get_app_handle("power")`', fails="AttributeError: "),
    Name(
        'Power.options(route_prefix="/p")',
        '# `serve.run(Power.bind(), name="power", route_prefix="/p")`',
        fails="TypeError: ",
    ),
    Name(
        "Power.options(max_concurrent_queries=9)",
        "served = Power.options(max_ongoing_requests=9)",
        "served.max_ongoing_requests == 9",
        fails="TypeError: ",
    ),
    Name(
        'served = Power.options(autoscaling_config={"target_num_ongoing_requests_per_replica": 9})',
        'served = Power.options(autoscaling_config={"target_ongoing_requests": 9})',
        "served._deployment_config.autoscaling_config.target_ongoing_requests == 9",
        accepted="served._deployment_config.autoscaling_config.target_ongoing_requests == 2",
        why="no error, and the default of 2",
    ),
]
PARTS = {
    "Environments": ENVIRONMENTS,
    "Ray Core": CORE,
    "RLlib": OLD_NAMES,
    "RLlib's offline data": OFFLINE,
    "Ray Tune": TUNE,
    "Ray Train and Ray Data": TRAIN,
    "Ray Serve": SERVE,
}


@contextmanager
def playground() -> Iterator[dict]:
    """Yield the names that the rows on RLlib use: a small algorithm that has trained once, its result, and so on."""
    import numpy as np
    import torch
    from ray import tune
    from ray.rllib.algorithms import ppo
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.core.rl_module.rl_module import RLModule

    algo = _config().build_algo()
    try:
        result = algo.train()
        while "episode_return_mean" not in result["env_runners"]:  # until a first pole has fallen
            result = algo.train()
        names = {"algo": algo, "result": result, "obs": np.zeros(4, np.float32), "ppo": ppo, "PPO": ppo.PPO}
        names |= {"PPOConfig": ppo.PPOConfig, "DefaultModelConfig": DefaultModelConfig, "RLModule": RLModule}
        with tempfile.TemporaryDirectory() as folder:
            yield names | {"torch": torch, "tune": tune, "folder": folder}
    finally:
        algo.stop()


def others() -> dict:
    """Return the names that the rows of the other parts use; a Ray runs."""
    import gymnasium
    import ray
    from ray import serve
    from ray.rllib.algorithms.bc import BCConfig
    from ray.train.torch import TorchTrainer

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self, start: int):
            self.value = start

    def ended(name: str) -> dict:
        """End a named actor, and return what Ray's records say of it once its name is free again."""
        from coursekit.ray_bridge import records

        [actor] = [row for row in records.actors() if row["name"] == name and row["state"] != "DEAD"]
        ray.kill(ray.get_actor(name))
        for _ in range(100):
            if name not in ray.util.list_named_actors():
                break
            time.sleep(0.1)
        return actor

    @serve.deployment
    class Power:
        def __call__(self, x: int) -> int:
            return x * x

    names = {
        "ray": ray,
        "serve": serve,
        "BCConfig": BCConfig,
        "TorchTrainer": TorchTrainer,
        "Counter": Counter,
        "Power": Power,
        "ended": ended,
        "inspect": inspect,
    }
    names |= {"env": gymnasium.make("CartPole-v1"), "value": 1, "refs": [ray.put(1)], "task": ray.remote(lambda x: x)}
    names |= {"group": ray.util.placement_group([{"CPU": 0.01}]), "learn": lambda config: None, "ds": ray.data.range(3)}
    return names


def _config() -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig

    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).debugging(log_sys_usage=False)
    return config.training(train_batch_size_per_learner=32, minibatch_size=32)


def run(code: str, names: dict, shows: str = "True") -> str:
    """Return how a line ends on today's Ray, as "KeyError: ..."; nothing where it runs and `shows` is true afterwards.

    Ray's own words about what is old are kept off the screen.
    """
    from ray.util.debug import reset_log_once

    reset_log_once()  # `config.rollouts` raises once a process; the second call would return None
    own = {**names, "config": _config()}
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(code, own)
            shown = bool(eval(shows, own))
    except Exception as error:  # whatever today's Ray answers
        return f"{type(error).__name__}: {error}".splitlines()[0]
    finally:
        logging.disable(level)
    return "" if shown else f"it runs, but `{shows}` is not true"


def table(names: dict) -> "Styler":
    """Return the rows as a table: the old line, today's, and how the old one has just ended on this Ray."""
    import pandas

    rows = []
    for name in OLD_NAMES:
        ended = run(name.old, names, name.accepted or "True")
        rows.append([name.old, name.new, ended.partition(":")[0] or f"accepted: {name.why}"])
    frame = pandas.DataFrame(rows, columns=["older tutorials", "today", "the old line, tried just now"])
    cell = {"text-align": "left", "white-space": "pre-wrap", "vertical-align": "top", "overflow-wrap": "anywhere"}
    code = {"font-family": "monospace", "font-size": "12px", "max-width": "270px"}
    style = frame.style.hide(axis="index").set_properties(**cell).set_properties(frame.columns[:2].tolist(), **code)
    return style.set_properties([frame.columns[2]], **{"max-width": "160px"})
