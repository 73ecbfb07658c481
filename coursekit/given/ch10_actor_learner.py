"""What chapter 10 hands out, and the probes that drive its answers."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from coursekit.given._sent import sent_to_actors
from coursekit.given.cartpoles import turned_cartpoles

# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


def loss_and_slopes(ppo_loss: Callable, rows: dict, settings: dict) -> dict:
    """Return the loss of some rows, and its gradient with respect to what the network computed."""
    import torch

    tensors = {name: torch.tensor(column, dtype=torch.float64) for name, column in rows.items()}
    free = [tensors[name].requires_grad_() for name in ("logp", "values", "entropy")]
    loss = ppo_loss(*tensors.values(), **settings)
    if not isinstance(loss, torch.Tensor):
        return {"kind": type(loss).__name__}
    seen: dict[str, Any] = {
        "kind": "a tensor",
        "shape": list(loss.shape),
        "loss": loss.detach().tolist(),
        "slopes": None,
    }
    if loss.requires_grad and loss.numel() == 1:
        slopes = torch.autograd.grad(loss.sum(), free, allow_unused=True)
        names = ("logp", "values", "entropy")
        seen["slopes"] = {n: None if s is None else s.tolist() for n, s in zip(names, slopes, strict=True)}
    return seen


def two_epochs(minibatches: Callable, rows: dict, size: int, seed: int) -> list:
    """Return the minibatches of two passes over one batch, with one generator, and after them the batch."""
    import torch

    rng = np.random.default_rng(seed)
    batch = {name: torch.tensor(column) for name, column in rows.items()}
    epochs = [[_arrays(part) for part in list(minibatches(batch, size, rng))[:1000]] for _ in range(2)]
    return [*epochs, _arrays(batch)]


def _arrays(part: Any) -> Any:
    """Return a dict of tensors as arrays; of anything else, the name of its type."""
    import torch

    if not isinstance(part, dict):
        return type(part).__name__
    return {
        name: column.numpy() if isinstance(column, torch.Tensor) else type(column).__name__
        for name, column in part.items()
    }


class Recorded:
    """Stands in for a handle of a sampler: `set_weights.remote(...)` writes down what Ray would deliver."""

    def __init__(self) -> None:
        self.calls: list[dict] = []
        self.set_weights = self

    def __call__(self, *arguments: Any) -> Any:
        """Refuse, as an actor's method does."""
        raise TypeError("set_weights is a method of an actor: call set_weights.remote(...)")

    def remote(self, *arguments: Any) -> Any:
        """Write down a call as its actor would see it; return a reference, as Ray does."""
        import ray

        (sent,) = arguments
        reference = isinstance(sent, ray.ObjectRef)
        arrived = ray.get(sent) if reference else sent
        self.calls.append({"reference": sent.hex() if reference else None, "weights": _plain(arrived)})
        return ray.put(None)


def _plain(value: Any) -> Any:
    """Return a copy of weights, with the name of its type in the place of whatever is not plain data."""
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return np.array(value) if isinstance(value, np.ndarray) else type(value).__name__


class Weighted:
    """Stands in for a policy: all that it has is weights, which its learner changes in place."""

    def __init__(self, weights: dict):
        self.layers = {name: [(np.array(w), np.array(b)) for w, b in layers] for name, layers in weights.items()}

    def weights(self) -> dict:
        """Return copies of the weights, as `Policy.weights` does."""
        return copy.deepcopy(self.layers)

    def learn(self, change: float) -> None:
        """Add a number to all weights, in place."""
        for layers in self.layers.values():
            for w, b in layers:
                w += change
                b += change


def two_syncs(weight_sync: Callable, weights: dict, change: float, samplers: int) -> list[list[dict]]:
    """Return, for each sampler, what arrived when the weights were sent, changed, and sent again."""
    policy, handles = Weighted(weights), [Recorded() for _ in range(samplers)]
    weight_sync(policy, handles)
    policy.learn(change)
    weight_sync(policy, handles)
    return [handle.calls for handle in handles]


def linear_policy(actor: list, critic: list) -> Any:
    """Return a policy without hidden layers: a matrix gives the scores of the actions, a row gives the value."""
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


def two_steps(train_step: Callable, actor: list, critic: list, rows: dict) -> dict:
    """Return the parameters before and after each of two steps on one minibatch, and what `train_step` returned.

    `kinds` are the types of what it returned: a tensor would travel as an array.
    """
    import torch

    policy = linear_policy(actor, critic)
    optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)
    minibatch = {name: torch.tensor(column) for name, column in rows.items()}
    moments, losses = [_flat(policy)], []
    for _ in range(2):
        losses.append(train_step(policy, optimizer, dict(minibatch)))
        moments.append(_flat(policy))
    return {"parameters": moments, "losses": losses, "kinds": [type(loss).__name__ for loss in losses]}


def _flat(policy: Any) -> list[float]:
    return [number for part in policy.parameters() for number in part.detach().ravel().tolist()]


def learn(solve_cartpole: Callable, turn: list, seed: int) -> dict:
    """Return what `solve_cartpole` returns for CartPoles turned in the judge's way, and what actors were sent meanwhile."""
    with sent_to_actors() as sent:
        learned = solve_cartpole(partial(turned_cartpoles, np.array(turn, np.float32)), seed)
    return {"learned": learned, "sent": sent}
