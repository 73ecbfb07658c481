"""The language model of chapter 26: a character transformer that reads five digits and writes them in order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

SYMBOLS = "0123456789=."
EQUALS, END, PAD = 10, 11, 12  # PAD is read behind the end of an answer, and never written
DIGITS, LONGEST = 5, 32  # digits of a prompt; tokens of a prompt and its answer together, at most
Cache = list[tuple[torch.Tensor, torch.Tensor]]


class Block(nn.Module):
    """One layer of the transformer: each token looks back at the others, then thinks by itself."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, past: tuple | None) -> tuple:
        """Return what follows from x, shape [B, T, width], and the keys and values of all tokens so far."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1)
        )
        if past is not None:  # a single new token: the keys and values of those before it are known
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.think(self.between(x)), (k, v)


class Transformer(nn.Module):
    """A language model with some 59,000 weights: fresh ones, or those that you give it."""

    def __init__(self, weights: dict[str, np.ndarray] | None = None, width: int = 48, heads: int = 4, blocks: int = 2):
        super().__init__()
        self.symbol, self.place = nn.Embedding(len(SYMBOLS) + 1, width), nn.Embedding(LONGEST, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(SYMBOLS))
        if weights is not None:
            self.load(weights)

    def forward(self, tokens: torch.Tensor, cache: Cache | None = None) -> tuple[torch.Tensor, Cache]:
        """Return the scores of what comes next after each of these tokens, shape [B, T, 12], and the grown cache."""
        begin = 0 if cache is None else cache[0][0].shape[2]
        x, grown = self.symbol(tokens) + self.place(torch.arange(begin, begin + tokens.shape[1])), []
        for number, block in enumerate(self.blocks):
            x, keys_and_values = block(x, None if cache is None else cache[number])
            grown.append(keys_and_values)
        return self.head(self.norm(x)), grown

    def weights(self) -> dict[str, np.ndarray]:
        """Return copies of the weights, as arrays by name."""
        return {name: part.detach().numpy().copy() for name, part in self.state_dict().items()}

    def load(self, weights: dict[str, np.ndarray]) -> None:
        """Take over copies of these weights."""
        self.load_state_dict({name: torch.tensor(part) for name, part in weights.items()})


def prompts(count: int, rng: np.random.Generator) -> torch.Tensor:
    """Return random prompts, shape [count, 6]: five digits and the sign "="."""
    digits = torch.from_numpy(rng.integers(0, 10, size=(count, DIGITS)))
    return torch.cat([digits, torch.full((count, 1), EQUALS)], 1)


def in_order(digits: str, order: Sequence[int] = range(10)) -> str:
    """Return the right answer to some digits: sorted, by another order where one is given, and a full stop."""
    places = {str(digit): place for place, digit in enumerate(order)}
    return "".join(sorted(digits.rstrip("="), key=places.__getitem__)) + "."


def texts(tokens: torch.Tensor) -> list[str]:
    """Return rows of tokens as strings, without what pads them."""
    return ["".join(SYMBOLS[token] for token in row if token != PAD) for row in tokens.tolist()]


def answers_to(asked: torch.Tensor, order: Sequence[int] = range(10)) -> torch.Tensor:
    """Return the right answers to some prompts as tokens, shape [B, 6]."""
    return torch.tensor([[SYMBOLS.index(symbol) for symbol in in_order(text, order)] for text in texts(asked)])


def imitate(steps: int, seed: int, order: Sequence[int] = range(10), rows: int = 256) -> Iterator[Any]:
    """Yield the loss of each step in which a fresh model learns to write right answers, and in the end the model."""
    torch.manual_seed(seed)
    model, rng = Transformer(), np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(steps):
        asked = prompts(rows, rng)
        right = answers_to(asked, order)
        scores, _ = model(torch.cat([asked, right], 1)[:, :-1])
        loss = nn.functional.cross_entropy(scores[:, DIGITS:].flatten(0, 1), right.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield float(loss.detach())
    yield model
