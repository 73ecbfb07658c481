"""What chapter 10 hands out, and the probes that drive its answers."""

import copy
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, TypedDict

import numpy as np

from coursekit.given._sent import sent_to_actors
from coursekit.given.cartpoles import Turned, cartpoles

# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Loss(TypedDict):
    """What `ppo_loss` returned, its slopes along what the network computed, and the names of those without any."""

    kind: str
    shape: list[int]
    loss: list[float]
    slopes: dict[str, np.ndarray]
    cut_off: list[str]


def loss_and_slopes(ppo_loss: Callable, rows: dict, settings: dict) -> Loss:
    """Return the loss of some rows, its slopes along what the network computed, and the names of those without any."""
    import torch

    tensors = {name: torch.tensor(column, dtype=torch.float64) for name, column in rows.items()}
    free = {name: tensors[name].requires_grad_() for name in ("logp", "values", "entropy")}
    loss = ppo_loss(*tensors.values(), **settings)
    seen: Loss = {"kind": type(loss).__name__, "shape": [], "loss": [], "slopes": {}, "cut_off": []}
    if isinstance(loss, torch.Tensor):
        seen["shape"], seen["loss"] = list(loss.shape), loss.detach().ravel().tolist()
        slopes = (
            torch.autograd.grad(loss.sum(), list(free.values()), allow_unused=True) if loss.requires_grad else [None]
        )
        found = dict(zip(free, slopes, strict=False))
        seen["cut_off"] = [name for name, slope in found.items() if slope is None]
        seen["slopes"] = {name: slope.numpy() for name, slope in found.items() if slope is not None}
    return seen


def two_epochs(minibatches: Callable, rows: dict, size: int, seed: int) -> tuple[list[Any], list[Any], list[str], Any]:
    """Return the minibatches of two passes over one batch, with one generator, their columns' types, and then the batch."""
    import torch

    rng = np.random.default_rng(seed)
    batch = {name: torch.tensor(column) for name, column in rows.items()}
    first, second = (list(islice(minibatches(batch, size, rng), 1000)) for _ in range(2))
    columns = [column for part in first + second if isinstance(part, dict) for column in part.values()]
    return first, second, sorted({type(column).__name__ for column in columns}), batch


class Call(TypedDict):
    """One call of `set_weights`: its reference, whether the program put it itself, what arrived or the type of that."""

    reference: str
    listed: bool  # whether a list with a reference was sent
    put: bool
    weights: dict | str


class Recorded:
    """Stands in for a handle of a sampler: `set_weights.remote(...)` writes down what Ray would deliver."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.set_weights = self

    def __call__(self, *_: Any) -> Any:
        """Refuse, as an actor's method does."""
        raise TypeError("set_weights is a method of an actor: call set_weights.remote(...)")

    def remote(self, weights: Any) -> Any:
        """Write down a call as its actor would see it; return a reference, as Ray does."""
        import ray

        reference, done = isinstance(weights, ray.ObjectRef), ray.put(None)
        arrived = ray.get(weights) if reference else weights
        self.calls.append(
            {
                "reference": weights.hex() if reference else "",
                "listed": isinstance(weights, list | tuple)
                and any(isinstance(each, ray.ObjectRef) for each in weights),
                "put": reference and weights.task_id() == done.task_id(),  # by this program itself, not by a task
                "weights": copy.deepcopy(arrived) if isinstance(arrived, dict) else type(arrived).__name__,
            }
        )
        return done


class Weighted:
    """Stands in for a policy: all that it has is weights."""

    def __init__(self) -> None:
        self.layers: dict = {}

    def weights(self) -> dict:
        """Return copies of the weights, as `Policy.weights` does."""
        return copy.deepcopy(self.layers)


def two_syncs(weight_sync: Callable, versions: list[dict], samplers: int) -> list[list[Call]]:
    """Return, for each sampler, what arrived when each version of a policy's weights was sent."""
    policy, handles = Weighted(), [Recorded() for _ in range(samplers)]
    for policy.layers in versions:
        weight_sync(policy, handles)
    return [handle.calls for handle in handles]


def linear_policy(actor: list, critic: list) -> Any:
    """Return a policy without hidden layers: a matrix gives the logits of the actions, and a row the value."""
    import torch

    class Linear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor, self.critic = (
                torch.nn.Linear(len(part[0]), len(part), bias=False, dtype=torch.float64) for part in (actor, critic)
            )
            for layer, part in ((self.actor, actor), (self.critic, critic)):
                layer.weight.data = torch.tensor(part, dtype=torch.float64)

        def forward(self, obs: Any) -> tuple:
            return self.actor(obs), self.critic(obs)[..., 0]

    return Linear()


class Steps(TypedDict):
    """The parameters of a policy before and after each of two steps, and what `train_step` returned."""

    parameters: tuple[list[float], list[float], list[float]]
    losses: list[Any]


def two_steps(train_step: Callable, actor: list, critic: list, rows: dict) -> Steps:
    """Return the parameters before and after each of two steps on one minibatch, and what `train_step` returned."""
    import torch

    policy = linear_policy(actor, critic)
    optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)
    minibatch = {name: torch.tensor(column) for name, column in rows.items()}
    moments, losses = [_flat(policy)], []
    for _ in range(2):
        losses.append(train_step(policy, optimizer, dict(minibatch)))
        moments.append(_flat(policy))
    before, first, second = moments
    return {"parameters": (before, first, second), "losses": losses}


def _flat(policy: Any) -> list[float]:
    return [number for part in policy.parameters() for number in part.detach().ravel().tolist()]


class Layers(TypedDict):
    """The weights of a policy that choose its actions."""

    actor: list[tuple[np.ndarray, np.ndarray]]


class Noted(Turned):
    """Turned CartPoles that note the seeds with which they are reset."""

    def __init__(self, turn: np.ndarray, seeds: list[str], count: int):
        super().__init__(cartpoles(count), turn)
        self.seeds = seeds

    def reset(self, *, seed: Any = None, options: dict | None = None) -> tuple[Any, dict]:
        """Reset them all."""
        if seed is not None:
            self.seeds.append(str(seed))
        return super().reset(seed=seed, options=options)


class Learned(TypedDict):
    """What `solve_cartpole` returned, for each call with weights the actor and marks of these, and the seeds of the tests."""

    learned: Any
    sent: list[tuple[str, list[int]]]
    seeds: list[str]


def learn(solve_cartpole: Callable, turn: list, seed: int, samplers: int) -> Learned:
    """Return what `solve_cartpole` returns for CartPoles turned in the judge's way, and what happened meanwhile.

    `seeds` are those of this process: an actor gets a list of its own.
    """
    seeds: list[str] = []
    with sent_to_actors() as sent:
        learned = solve_cartpole(partial(Noted, np.array(turn, np.float32), seeds), seed, samplers)
    return {"learned": learned, "sent": sent, "seeds": seeds}
