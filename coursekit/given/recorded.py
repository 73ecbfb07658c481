"""RLlib's config with a module that writes down what it is asked: what the probes of several chapters use."""

from typing import Any


def _recorder() -> Any:
    """Return the class of a module that keeps every observation it is asked about, and does what its first number says."""
    import torch
    from ray.rllib.core.rl_module.apis import ValueFunctionAPI
    from ray.rllib.core.rl_module.torch import TorchRLModule

    class Recorder(TorchRLModule, ValueFunctionAPI):
        def setup(self) -> None:
            self.saw: list = []

        def _forward(self, batch: dict, **kwargs: Any) -> dict:
            obs = batch["obs"].reshape(len(batch["obs"]), -1)
            self.saw += obs.tolist()
            wish = obs[:, :1].round().long().clamp(0, self.action_space.n - 1)
            return {"action_dist_inputs": torch.zeros(len(obs), self.action_space.n).scatter_(1, wish, 50.0)}

        def compute_values(self, batch: dict, embeddings: Any = None) -> Any:
            return batch["obs"].reshape(len(batch["obs"]), -1)[:, 0]

    return Recorder


def recorded(env: Any, env_config: dict) -> Any:
    """Return PPO's config for an environment, played in this process by a module that records."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module import RLModuleSpec

    return (
        PPOConfig()
        .environment(env, env_config=env_config)
        .env_runners(num_env_runners=0, explore=False)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=_recorder()))
    )
