"""RLlib modules without their own `_forward`, which chapter 22 asks for; its probes add the learner's."""

from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn


class Scorer(TorchRLModule, ValueFunctionAPI):
    """A network that scores the courier's addresses, and one for the value; this `_forward` ignores the mask."""

    def setup(self) -> None:
        """Make both networks: what is seen -> 64 -> a logit for each address, and -> one value."""
        seen, addresses = self.observation_space["seen"].shape[0], self.action_space.n
        self.score = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, addresses))
        self.value = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 1))

    def _forward(self, batch: dict, **kwargs: Any) -> dict:
        return {Columns.ACTION_DIST_INPUTS: self.score(batch[Columns.OBS]["seen"])}

    def compute_values(self, batch: dict, embeddings: Any = None) -> torch.Tensor:
        """Return the value of each observation, shape [B]."""
        return self.value(batch[Columns.OBS]["seen"]).squeeze(-1)


class TwoObservations(TorchRLModule, ValueFunctionAPI):
    """Two networks that read the current observation and the previous one; the state is the previous one."""

    def setup(self) -> None:
        """Make both networks: two observations -> 32 -> 32 -> logits, and -> one value."""
        inputs = 2 * self.observation_space.shape[0]
        self.score, self.value = (self._network(inputs, outputs) for outputs in (int(self.action_space.n), 1))

    @staticmethod
    def _network(inputs: int, outputs: int) -> nn.Sequential:
        layers = nn.Linear(inputs, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, outputs)
        return nn.Sequential(*layers)

    def get_initial_state(self) -> dict:
        """Return the state of one environment at the start of an episode: an observation of zeros."""
        return {"before": np.zeros(self.observation_space.shape, np.float32)}

    def compute_values(self, batch: dict, embeddings: torch.Tensor | None = None) -> torch.Tensor:
        """Return the value of each step, shape [B, T], from the embeddings that `_forward` returns: both observations."""
        if embeddings is None:
            embeddings = self._forward(batch)[Columns.EMBEDDINGS]
        return self.value(embeddings).squeeze(-1)


TwoLooks = TwoObservations  # its name in notebooks of version 0.2
