"""What older tutorials of RLlib write, and what takes its place: each row is code, so a test and a chapter can try it."""

import contextlib
import io
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler


@dataclass(frozen=True)
class Name:
    """A line of an older tutorial, a line of today, and an expression that is true once today's line has run.

    Where the old line fails, `fails` is how Ray's answer begins: the type of the error, and what it says. Where Ray still takes it,
    `accepted` is an expression that is true once the old line has run, and `why` says what is wrong with it all the same.
    """

    old: str
    new: str
    shows: str
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
        why="no error, and no runner",
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
        why="works, with a warning that it will not for long",
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
        why="works, until somebody sets train_batch_size_per_learner: then it says nothing and does nothing",
    ),
    Name(
        'config.training(model={"fcnet_hiddens": [32]})',
        "config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32]))",
        "config.model_config['fcnet_hiddens'] == [32]",
        accepted="config.model_config.get('fcnet_hiddens') != [32]",
        why="a warning when it is built, and the default network",
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


@contextmanager
def playground() -> Iterator[dict]:
    """Yield the names that the rows use: a small algorithm that has trained once, its result, and so on."""
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
