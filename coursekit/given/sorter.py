"""The language model of chapter 26: a character-level transformer that reads five digits and generates them in order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

SYMBOLS = "0123456789=."
EQUALS, END, PAD = 10, 11, 12  # PAD fills a row after its END: the model reads it and never generates it
DIGITS, LONGEST = 5, 32  # digits of a prompt; tokens of a prompt and its completion together, at most
Cache = list[tuple[torch.Tensor, torch.Tensor]]


class Block(nn.Module):
    """One layer of the transformer: causal attention over the tokens so far, then an MLP for each token."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, past: tuple | None) -> tuple:
        """Return the layer's output for x, shape [B, T, width], and the keys and values of all tokens so far."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        if past is not None:  # one new token: the keys and values of the earlier ones are in the cache
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x)), (k, v)


class Transformer(nn.Module):
    """A language model with about 59,000 weights: random ones, or those that you give it."""

    def __init__(self, weights: dict[str, np.ndarray] | None = None, width: int = 48, heads: int = 4, blocks: int = 2):
        super().__init__()
        self.token, self.position = nn.Embedding(len(SYMBOLS) + 1, width), nn.Embedding(LONGEST, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(SYMBOLS))
        if weights is not None:
            self.load(weights)

    def forward(self, tokens: torch.Tensor, cache: Cache | None = None) -> tuple[torch.Tensor, Cache]:
        """Return the logits of the token after each of these, shape [B, T, 12], and the KV cache with these added."""
        begin = 0 if cache is None else cache[0][0].shape[2]
        x, grown = self.token(tokens) + self.position(torch.arange(begin, begin + tokens.shape[1])), []
        for number, block in enumerate(self.blocks):
            x, keys_and_values = block(x, None if cache is None else cache[number])
            grown.append(keys_and_values)
        return self.head(self.norm(x)), grown

    def weights(self) -> dict[str, np.ndarray]:
        """Return copies of the weights, as arrays by name."""
        return {name: part.detach().numpy().copy() for name, part in self.state_dict().items()}

    def load(self, weights: dict[str, np.ndarray]) -> None:
        """Load copies of these weights."""
        self.load_state_dict({name: torch.tensor(part) for name, part in weights.items()})


def random_prompts(count: int, rng: np.random.Generator) -> torch.Tensor:
    """Return random prompts, shape [count, 6]: five digits and "="."""
    digits = torch.from_numpy(rng.integers(0, 10, size=(count, DIGITS)))
    return torch.cat([digits, torch.full((count, 1), EQUALS)], 1)


def in_order(digits: str, order: Sequence[int] = range(10)) -> str:
    """Return the correct completion of a prompt: its digits, sorted by `order`, and a period."""
    places = {str(digit): place for place, digit in enumerate(order)}
    return "".join(sorted(digits.rstrip("="), key=places.__getitem__)) + "."


def texts(tokens: torch.Tensor) -> list[str]:
    """Return rows of tokens as strings, without padding."""
    return ["".join(SYMBOLS[token] for token in row if token != PAD) for row in tokens.tolist()]


def correct_completions(prompts: torch.Tensor, order: Sequence[int] = range(10)) -> torch.Tensor:
    """Return the correct completions of some prompts as tokens, shape [B, 6]."""
    return torch.tensor([[SYMBOLS.index(symbol) for symbol in in_order(text, order)] for text in texts(prompts)])


def supervised(steps: int, seed: int, order: Sequence[int] = range(10), rows: int = 256) -> Iterator[Any]:
    """Yield the loss of each supervised step on correct completions, and at the end the model."""
    torch.manual_seed(seed)
    model, rng = Transformer(), np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(steps):
        prompts = random_prompts(rows, rng)
        correct = correct_completions(prompts, order)
        logits, _ = model(torch.cat([prompts, correct], 1)[:, :-1])
        loss = nn.functional.cross_entropy(logits[:, DIGITS:].flatten(0, 1), correct.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield float(loss.detach())
    yield model
