"""What chapter 22 gives its learners: three small environments, a transcript of an algorithm at work, and probes."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

# An EnvRunner registers its environment under the same name every time, and Gymnasium warns about that.
warnings.filterwarnings("ignore", message=".*Overriding environment rllib-")
# When a connector sets rewards, RLlib's episodes check whether plain numbers are in the space of rewards.
warnings.filterwarnings("ignore", message=".*Casting input x to numpy array")
ADDRESSES = 8


class Courier(gymnasium.Env):
    """A courier on a ring of eight addresses, with a package for each but the one where the day starts; an action is the next address.

    An observation is a dict: `seen`, shape [16], says which addresses wait and where the courier is; `mask`, shape [8], is 1
    for each address that waits. A trip costs an eighth for each house on the way; a trip to an address that doesn't wait
    is wasted and costs 1, and `info["wasted"]` counts those. A day ends after at most 30 trips.
    """

    def __init__(self, config: dict | None = None):
        parts: dict[str, gymnasium.Space] = {
            "seen": Box(0, 1, (2 * ADDRESSES,), np.float32),
            "mask": Box(0, 1, (ADDRESSES,), np.float32),
        }
        self.observation_space, self.action_space = Dict(parts), Discrete(ADDRESSES)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        """Start a day at a random address."""
        super().reset(seed=seed)
        self.at, self.trips, self.wasted = int(self.np_random.integers(ADDRESSES)), 0, 0
        self.waits = np.ones(ADDRESSES, np.float32)
        self.waits[self.at] = 0
        return self._observation(), {"wasted": 0}

    def step(self, action: Any) -> tuple[dict, float, bool, bool, dict]:
        """Drive to an address."""
        self.trips += 1
        if self.waits[action]:
            away = abs(int(action) - self.at)
            reward = -min(away, ADDRESSES - away) / ADDRESSES
            self.at, self.waits[action] = int(action), 0
        else:
            reward, self.wasted = -1.0, self.wasted + 1
        done = not self.waits.any()
        return self._observation(), reward, done, self.trips == 30 and not done, {"wasted": self.wasted}

    def _observation(self) -> dict:
        here = np.eye(ADDRESSES, dtype=np.float32)[self.at]
        return {"seen": np.concatenate([self.waits, here]), "mask": self.waits.copy()}


class Blind(gymnasium.ObservationWrapper):
    """CartPole without its velocities, at most 200 steps: position and angle, scaled so that each is 4 where the episode ends."""

    def __init__(self, config: dict | None = None):
        super().__init__(gymnasium.make("CartPole-v1", max_episode_steps=200))
        self.observation_space = Box(-8, 8, (2,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return two of the four numbers, scaled."""
        return np.array([observation[0] / 0.6, observation[2] / 0.0524], np.float32)


class Greenhouse(gymnasium.Env):
    """A greenhouse that is watered ten times per day: the drier the soil and the brighter the day, the more, up to 40 liters.

    An observation, shape [2], says how dry and how bright it is, from 0 to 1. An action is a number of liters, shape [1].
    The reward is minus the number of liters too many or too few.
    """

    def __init__(self, config: dict | None = None):
        self.observation_space, self.action_space = Box(0, 1, (2,), np.float32), Box(0, 40, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Start a day."""
        super().reset(seed=seed)
        self.times = 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Water the plants."""
        reward = -abs(float(action[0]) - float(needed(self.now)))
        self.times += 1
        return self._look(), reward, self.times == 10, False, {}

    def _look(self) -> np.ndarray:
        self.now = self.np_random.random(2, dtype=np.float32)
        return self.now


def needed(obs: np.ndarray) -> np.ndarray:
    """Return how many liters the greenhouse needs, for observations of shape [..., 2]."""
    return 20 * obs[..., 0] * (1 + obs[..., 1])


def perfect_critic(module: Any, looks: int = 500, actions: int = 40) -> tuple[float, float]:
    """Return the error, in liters, and the explained variance of a critic that knows the greenhouse's mean reward for every observation.

    The rewards are those of the module's policy, for random observations with several sampled actions each.
    """
    import torch

    rng = np.random.default_rng(0)
    obs = rng.random((looks, 1, 2), dtype=np.float32)
    with torch.no_grad():
        said = module.forward_inference({"obs": torch.tensor(obs[:, 0])})["action_dist_inputs"].numpy()
    action = said[:, :1] + np.exp(said[:, 1:]) * rng.standard_normal((looks, actions))
    rewards = -np.abs(np.clip(20 * (action + 1), 0, 40) - needed(obs))
    unseen = rewards.var(axis=1, ddof=1).mean()  # what comes from the actions, which a critic doesn't see
    return float(unseen**0.5), float(max(0.0, 1 - unseen / rewards.var()))


def log_wasted(episode: Any, metrics_logger: Any, **more: Any) -> None:
    """Log the wasted trips of a finished day; an RLlib callback for `on_episode_end`."""
    metrics_logger.log_value("wasted", episode.get_infos(-1)["wasted"], reduce="mean")


def pieces(pipeline: Any) -> str:
    """Return the names of the connectors in one of RLlib's pipelines."""
    return " → ".join(type(piece).__name__ for piece in pipeline.connectors)


def draw(curves: dict[str, list], title: str, ylabel: str, ax: Any = None) -> Any:
    """Draw numbers over iterations, one curve per name; return the axes."""
    import matplotlib.pyplot as plt

    ax = ax or plt.subplots(figsize=(7, 2.8), constrained_layout=True)[1]
    for (name, numbers), color in zip(curves.items(), ["#94a3b8", "#7c3aed", "#059669"], strict=False):
        ax.plot(range(1, len(numbers) + 1), numbers, ".-", color=color, label=name)
    ax.locator_params(axis="x", integer=True)
    ax.set(xlabel="iteration", ylabel=ylabel, title=title)
    ax.legend()
    return ax


@contextmanager
def built(config: Any) -> Iterator[Any]:
    """Yield the algorithm of a config, and stop it when the block ends, even if it ends with an error."""
    algo = config.build_algo()
    try:
        yield algo
    finally:
        algo.stop()


def node_names() -> dict[str, str]:
    """Return the names of the live nodes by their IDs."""
    import ray

    return {node["NodeID"]: node["NodeName"] for node in ray.nodes() if node["Alive"]}


def node_here(runner: Any = None) -> str:
    """Return the ID of the node on which this runs; a function for `foreach_env_runner`."""
    import ray

    return ray.get_runtime_context().get_node_id()


def log_node(algorithm: Any, metrics_logger: Any, result: dict, **more: Any) -> None:
    """Add the node on which an algorithm trains to its result; an RLlib callback for `on_train_result`."""
    result["node"] = node_here()


note_wasted, note_node = log_wasted, log_node  # their names in notebooks of version 0.2


def transcript(config: Any, steps: int = 300) -> dict[str, float]:
    """Return what an algorithm did in its first steps, as six numbers; it samples in this process, from one environment."""
    import torch

    quiet = config.copy(copy_frozen=False).debugging(log_sys_usage=False)
    with built(quiet.env_runners(num_env_runners=0, num_envs_per_env_runner=1)) as algo:
        runner, learner = algo.env_runner, algo.learner_group._learner
        saw: list = []
        for use in ("exploration", "inference"):
            _record_obs(runner.module, f"_forward_{use}", saw)
        episodes = [episode.to_numpy() for episode in runner.sample(num_timesteps=steps)]
        scores = np.concatenate([episode.get_extra_model_outputs("action_dist_inputs") for episode in episodes])
        actions = np.concatenate([episode.get_actions() for episode in episodes])
        rewards = np.concatenate([episode.get_rewards() for episode in episodes])
        batch = learner._learner_connector(rl_module=learner.module, batch={}, episodes=episodes, shared_data={})
        (batch,) = batch.values()
        module = learner.module["default_policy"]
        real = batch["loss_mask"]
        with torch.no_grad():
            said = module.forward_train(batch)["action_dist_inputs"]
            logp = module.get_train_action_dist_cls().from_logits(said).logp(batch["actions"])
            errors = (module.compute_values(batch) - batch["value_targets"])[real] ** 2
        before = {name: weight.clone() for name, weight in module.state_dict().items()}
        algo.train()
        moved = max(float((weight - before[name]).abs().max()) for name, weight in module.state_dict().items())
        return {
            "explored": float((actions != scores.argmax(-1)).mean()),
            "obs gap": _gap(_rows(batch["obs"])[real.numpy()], np.array(saw)),
            "logp gap": float((logp - batch["action_logp"])[real].abs().max()),
            "rewards agree": _agree(rewards, batch["rewards"][real].numpy()),
            "clamped": float((errors > config.vf_clip_param).float().mean()),
            "weights moved": moved,
        }


def _record_obs(module: Any, method: str, saw: list) -> None:
    """Have a module record the observations that it acts on."""
    original = getattr(module, method)

    def recording(batch: dict, **kwargs: Any) -> Any:
        saw.extend(_rows(batch["obs"]))
        return original(batch, **kwargs)

    setattr(module, method, recording)


def _rows(obs: Any) -> np.ndarray:
    """Return observations, perhaps in a dict, as a row of numbers each."""
    parts = [obs[name] for name in sorted(obs)] if isinstance(obs, dict) else [obs]
    return np.concatenate([part.detach().numpy().reshape(len(part), -1) for part in parts], axis=1)


def _gap(gets: np.ndarray, saw: np.ndarray) -> float:
    """Return how far an observation of the learner is from all those that the module saw: the largest of the smallest distances."""
    return max(float(np.abs(saw - row).max(axis=1).min()) for row in gets)


def _agree(sampled: np.ndarray, learned: np.ndarray) -> float:
    """Return the correlation of two rows of rewards, or 0 if one of them never changes."""
    return float(np.corrcoef(sampled, learned)[0, 1]) if sampled.std() and learned.std() else 0.0


def colleague(config: Any) -> Any:
    """Return a colleague's version of the courier's config, with changes that were meant to help."""
    from ray.rllib.connectors.connector_v2 import ConnectorV2
    from ray.rllib.core.rl_module import RLModuleSpec

    from coursekit.given.unfinished_modules import Scorer

    class Positive(ConnectorV2):
        def __call__(self, *, batch: dict, episodes: list, **kwargs: Any) -> dict:
            for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
                costs = episode.get_rewards()
                episode.set_rewards(new_data=-10 * costs, at_indices=slice(0, len(costs)))
            return batch

    class Careful(Scorer):
        def _forward_exploration(self, batch: dict, **kwargs: Any) -> dict:
            scores = self._forward(batch)["action_dist_inputs"]
            return {"action_dist_inputs": scores.masked_fill(batch["obs"]["mask"] == 0, -1e9)}

    return (
        config.copy(copy_frozen=False)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=Careful))
        .learners(learner_connector=lambda observation_space, action_space: Positive())
        .training(lr=1e-9, vf_clip_param=10)
    )


# Probes: each drives a learner's object with the check's inputs, and returns raw results.


def _module(base: str, method: Callable, observations: Any, actions: Any, seed: int) -> Any:
    """Return a module whose `_forward` is the learner's, with weights of this seed."""
    import torch

    from coursekit.given import unfinished_modules

    torch.manual_seed(seed)
    kind = type("Finished", (getattr(unfinished_modules, base),), {"_forward": method})
    return kind(observation_space=observations, action_space=actions, model_config={})


class MaskedScores(TypedDict):
    """Logits: by use, none if one use returned none, and without the mask; whether every use left the batch unchanged.

    `slope` is the largest gradient of log π of valid actions with respect to the last weights, None if there is none.
    """

    scores: dict[str, np.ndarray]
    plain: np.ndarray
    unchanged: bool
    slope: float | None


def masked_scores(method: Callable, seen: np.ndarray, mask: np.ndarray, stretch: float, seed: int) -> MaskedScores:
    """Return the logits of a module for each use and without the mask, and whether a gradient flows back to its weights."""
    import torch

    space = Dict({"seen": Box(0, 1, seen.shape[1:], np.float32), "mask": Box(0, 1, mask.shape[1:], np.float32)})
    module = _module("Scorer", method, space, Discrete(mask.shape[1]), seed)
    with torch.no_grad():
        module.score[-1].weight *= stretch
        plain = module.score(torch.tensor(seen)).numpy()
    found: dict[str, Any] = {}
    unchanged = True
    for use in ("exploration", "inference", "train"):
        batch = {"obs": {"seen": torch.tensor(seen), "mask": torch.tensor(mask)}}
        said = getattr(module, f"forward_{use}")(batch)
        if not isinstance(said, dict) or "action_dist_inputs" not in said:
            return {"scores": {}, "plain": plain, "unchanged": unchanged, "slope": None}
        found[use] = said["action_dist_inputs"]
        for name, given in (("seen", seen), ("mask", mask)):
            unchanged &= name in batch.get("obs", {}) and np.array_equal(batch["obs"][name], given)
    logp = torch.log_softmax(found["train"], -1)
    if logp.requires_grad:
        (logp * torch.tensor(mask)).sum().backward()
    slopes = module.score[-1].weight.grad
    scores = {use: said.detach().numpy() for use, said in found.items()}
    return {
        "scores": scores,
        "plain": plain,
        "unchanged": unchanged,
        "slope": None if slopes is None else float(slopes.abs().max()),
    }


class OwnLoss(TypedDict):
    """A Learner's loss: its type and, if it's a tensor, its shape, its one number, and its gradients, None where none flows."""

    kind: str
    shape: list[int]
    loss: float
    scores: np.ndarray | None
    values: np.ndarray | None


def own_loss_of(method: Callable, rows: dict[str, np.ndarray], settings: dict[str, float]) -> OwnLoss:
    """Return the loss that a Learner with this method computes for the rows, and its gradients with respect to logits and values."""
    import torch
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
    from ray.rllib.core.rl_module import RLModuleSpec
    from ray.rllib.core.rl_module.apis import ValueFunctionAPI
    from ray.rllib.core.rl_module.torch import TorchRLModule

    tensors = {name: torch.tensor(value) for name, value in rows.items()}
    scores = tensors.pop("scores").requires_grad_()
    values = tensors.pop("values").requires_grad_()

    class Told(TorchRLModule, ValueFunctionAPI):
        def setup(self) -> None:
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def compute_values(self, batch: dict, embeddings: Any = None) -> Any:
            return values

    config = PPOConfig().training(use_kl_loss=False, entropy_coeff=0.0, **settings)
    spaces = {"observation_space": Box(0, 1, (1,), np.float32), "action_space": Discrete(scores.shape[-1])}
    spec = RLModuleSpec(module_class=Told, model_config={}, **spaces)
    kind = type("Own", (PPOTorchLearner,), {"compute_loss_for_module": method})
    learner = kind(config=config, module_spec=spec)
    learner.build()
    said = {"action_dist_inputs": scores}
    loss = learner.compute_loss_for_module(
        module_id="default_policy",
        config=learner.config.get_config_for_module("default_policy"),
        batch=tensors,
        fwd_out=said,
    )
    if not isinstance(loss, torch.Tensor):
        return {"kind": type(loss).__name__, "shape": [], "loss": np.nan, "scores": None, "values": None}
    if loss.numel() == 1 and loss.requires_grad:
        loss.backward()
    return {
        "kind": "Tensor",
        "shape": list(loss.shape),
        "loss": loss.item() if loss.numel() == 1 else np.nan,
        "scores": None if scores.grad is None else scores.grad.numpy(),
        "values": None if values.grad is None else values.grad.numpy(),
    }


class Recalled(TypedDict):
    """The logits of sequences, the outgoing state, and the embeddings."""

    scores: np.ndarray
    state: np.ndarray
    pairs: np.ndarray


class Remembered(TypedDict):
    """What a module returned for whole sequences: its type, its keys, its arrays, None if one is missing; then the logits step by step."""

    returned: str
    keys: list[str]
    whole: Recalled | None
    steps: list[np.ndarray]


def remembered(method: Callable, obs: np.ndarray, before: np.ndarray, weight: np.ndarray) -> Remembered:
    """Return what a module makes of sequences, obs [B, T, n], read whole, and read step by step with the states that it returned."""
    import torch

    module = _module("TwoObservations", method, Box(-9, 9, obs.shape[2:], np.float32), Discrete(len(weight)), 0)
    module.score = torch.nn.Linear(weight.shape[1], len(weight), bias=False)
    module.score.weight.data = torch.tensor(weight)
    said = _said(module, obs, before)
    whole, state, steps = _recalled(said), before, []
    for t in range(obs.shape[1] if whole else 0):
        step = _recalled(_said(module, obs[:, t : t + 1], state))
        if step is None or step["state"].shape != before.shape:
            break
        steps.append(step["scores"])
        state = step["state"]
    if not isinstance(said, dict):
        return {"returned": type(said).__name__, "keys": [], "whole": None, "steps": []}
    return {"returned": "a dict", "keys": sorted(said), "whole": whole, "steps": steps}


def _said(module: Any, obs: np.ndarray, before: np.ndarray) -> Any:
    import torch

    with torch.no_grad():
        return module.forward_train({"obs": torch.tensor(obs), "state_in": {"before": torch.tensor(before)}})


def _recalled(said: Any) -> Recalled | None:
    """Return the arrays of what a module returned, or None if one is missing."""
    if not isinstance(said, dict) or {"action_dist_inputs", "state_out", "embeddings"} - said.keys():
        return None
    if not isinstance(said["state_out"], dict) or "before" not in said["state_out"]:
        return None
    found = said["action_dist_inputs"], said["state_out"]["before"], said["embeddings"]
    scores, state, pairs = map(np.asarray, found)
    return {"scores": scores, "state": state, "pairs": pairs}


def unsquashed(function: Callable, obs: np.ndarray, weight: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[Any]:
    """Return the action for each row of obs; the network returns `weight @ obs`, a mean and a log σ for each number."""
    import torch
    from ray.rllib.core.rl_module.torch import TorchRLModule

    class Told(TorchRLModule):
        def setup(self) -> None:
            self.weight = torch.nn.Parameter(torch.tensor(weight))

        def _forward(self, batch: dict, **kwargs: Any) -> dict:
            if batch["obs"].dim() != 2:
                raise ValueError(
                    f"The observations have the shape {list(batch['obs'].shape)}, not [B, n]: add a batch dimension."
                )
            return {"action_dist_inputs": batch["obs"] @ self.weight.T}

    space = Box(low, high, dtype=np.float32)
    seen = Box(-1, 1, obs.shape[1:], np.float32)
    network = Told(observation_space=seen, action_space=space, model_config={})
    return [function(network, row, space) for row in obs]


class Placed(TypedDict):
    """What a function returned: if it's a config, what that requests, and the names of the nodes where stand-ins found it."""

    returned: str
    runners: int
    envs: int
    num_cpus: float
    resources: dict[str, float]
    stand_ins: list[str]


def placed(two_nodes: Callable, envs: int) -> Placed:
    """Return what a config requests, and the nodes of stand-ins that request from Ray what its EnvRunners would."""
    import ray
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.algorithms.ppo import PPOConfig

    config = two_nodes(PPOConfig().environment("CartPole-v1").env_runners(num_envs_per_env_runner=envs))
    if not isinstance(config, AlgorithmConfig):
        returned = type(config).__name__
        return {"returned": returned, "runners": 0, "envs": 0, "num_cpus": 0, "resources": {}, "stand_ins": []}
    num_cpus, resources = config.num_cpus_per_env_runner, config.custom_resources_per_env_runner
    asks = {"num_cpus": num_cpus, "resources": resources}
    actors = [ray.remote(_StandIn).options(**asks).remote() for _ in range(min(config.num_env_runners, 4))]
    refs = [actor.node.remote() for actor in actors]
    done, _ = ray.wait(refs, num_returns=len(refs), timeout=15) if refs else ([], [])
    names = node_names()
    stand_ins = [names[node] for node in ray.get(done)]
    for actor in actors:
        ray.kill(actor)
    return {
        "returned": "a config",
        "runners": config.num_env_runners,
        "envs": config.num_envs_per_env_runner,
        "num_cpus": num_cpus,
        "resources": resources,
        "stand_ins": stand_ins,
    }


class _StandIn:
    def node(self) -> str:
        return node_here()
