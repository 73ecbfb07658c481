"""Modules of RLlib that lack their `_forward`: chapter 22 asks for it, and so do its probes."""

from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn


class Scorer(TorchRLModule, ValueFunctionAPI):
    """One network that scores the courier's addresses, and one for the value; this `_forward` ignores the mask."""

    def setup(self) -> None:
        """Make both networks: what is seen -> 64 -> a score for each address, and -> one value."""
        seen, addresses = self.observation_space["seen"].shape[0], self.action_space.n
        self.score = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, addresses))
        self.worth = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 1))

    def _forward(self, batch: dict, **kwargs: Any) -> dict:
        return {Columns.ACTION_DIST_INPUTS: self.score(batch[Columns.OBS]["seen"])}

    def compute_values(self, batch: dict, embeddings: Any = None) -> torch.Tensor:
        """Return the value of each observation, shape [B]."""
        return self.worth(batch[Columns.OBS]["seen"]).squeeze(-1)


class TwoLooks(TorchRLModule, ValueFunctionAPI):
    """Two networks that read the newest observation and the one before it; the state is the one before."""

    def setup(self) -> None:
        """Make both networks: two observations -> 32 -> 32 -> scores, and -> one value."""
        inputs = 2 * self.observation_space.shape[0]
        self.score, self.worth = (self._network(inputs, outputs) for outputs in (int(self.action_space.n), 1))

    @staticmethod
    def _network(inputs: int, outputs: int) -> nn.Sequential:
        layers = nn.Linear(inputs, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, outputs)
        return nn.Sequential(*layers)

    def get_initial_state(self) -> dict:
        """Return the state of one environment at the start of an episode: an observation of zeros."""
        return {"before": np.zeros(self.observation_space.shape, np.float32)}

    def compute_values(self, batch: dict, embeddings: torch.Tensor | None = None) -> torch.Tensor:
        """Return the value of each step, shape [B, T], from what `_forward` calls its embeddings: both looks."""
        if embeddings is None:
            embeddings = self._forward(batch)[Columns.EMBEDDINGS]
        return self.worth(embeddings).squeeze(-1)
