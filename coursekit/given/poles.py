"""The agent of chapter 21: chapter 10's PPO for CartPole, with gradients that can be sent to other learners."""

import numpy as np
import torch
from torch import nn

EPSILON, EPOCHS, MINIBATCH = 0.2, 4, 1024
Rows = dict[str, np.ndarray]


def network(inputs: int, outputs: int, gain: float, width: int) -> nn.Sequential:
    """Return a network with two hidden layers; `gain` scales the initial weights of the output layer."""
    layers = [nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)]
    for layer, size in zip(layers[::2], [2**0.5, 2**0.5, gain], strict=True):
        assert isinstance(layer, nn.Linear)
        nn.init.orthogonal_(layer.weight, size)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class Agent:
    """A policy, its critic, and their optimizer: `update` learns from rows; `gradient` and `step` are its two halves."""

    def __init__(self, seed: int = 0, width: int = 64):
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.actor, self.critic = network(4, 2, 0.01, width), network(4, 1, 1.0, width)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, 2e-3)
        self.rng = np.random.default_rng(seed)

    def weights(self) -> dict[str, list[tuple]]:
        """Return {"actor": [(weight, bias), ...], "critic": [...]}: copies, as arrays."""
        parts = {"actor": list(self.actor)[::2], "critic": list(self.critic)[::2]}
        return {
            name: [tuple(p.detach().cpu().numpy().copy() for p in layer.parameters()) for layer in layers]
            for name, layers in parts.items()
        }

    def update(self, rows: Rows) -> float:
        """Learn from rows in minibatches, for EPOCHS epochs; return the loss of the last minibatch."""
        for _ in range(EPOCHS):
            order = self.rng.permutation(len(rows["obs"]))
            for start in range(0, len(order), MINIBATCH):
                chosen = order[start : start + MINIBATCH]
                self.step(self.gradient({name: column[chosen] for name, column in rows.items()}))
        return self.loss

    def gradient(self, rows: Rows) -> np.ndarray:
        """Return the gradient of PPO's loss of these rows, all parameters in one vector of float32."""
        batch = {
            name: torch.tensor(column) for name, column in rows.items()
        }  # a copy: the store's arrays are read-only
        logp = torch.log_softmax(self.actor(batch["obs"]), -1)
        taken = logp.gather(-1, batch["actions"][:, None])[:, 0]
        ratio, a = torch.exp(taken - batch["logp"]), batch["advantages"]
        a = (a - a.mean()) / (a.std() + 1e-8)
        gain = torch.min(ratio * a, ratio.clamp(1 - EPSILON, 1 + EPSILON) * a)
        miss = self.critic(batch["obs"])[:, 0] - batch["targets"]
        loss = (-gain + 0.5 * miss**2 + 0.01 * (logp.exp() * logp).sum(-1)).mean()
        self.loss = float(loss.detach())
        found = torch.autograd.grad(loss, self.parameters)
        return torch.cat([each.ravel() for each in found]).cpu().numpy()

    def step(self, gradient: np.ndarray) -> None:
        """Take one step of the optimizer along a gradient, clipped to the norm 0.5."""
        flat, start = torch.tensor(gradient, dtype=torch.float32), 0
        for part in self.parameters:
            part.grad = flat[start : start + part.numel()].view_as(part).clone()
            start += part.numel()
        nn.utils.clip_grad_norm_(self.parameters, 0.5)
        self.optimizer.step()
