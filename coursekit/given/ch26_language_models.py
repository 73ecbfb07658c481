"""What chapter 26 hands out, and the probes that drive its answers."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypedDict

import numpy as np

from coursekit.given._sent import sent_to_actors
from coursekit.ray_bridge import rendezvous


def exact(prompt: str, completion: str, order: Sequence[int] = range(10)) -> float:
    """Return 1.0 for the correct completion, to the last character, and 0.0 for every other."""
    from coursekit.given.sorter import in_order

    return float(completion == in_order(prompt, order))


def ascending(prompt: str, completion: str) -> float:
    """Return 1.0 for a completion whose digits come from the prompt and never fall, with a period at the end."""
    digits = completion[:-1]
    return float(completion[-1:] == "." and list(digits) == sorted(digits) and set(digits) <= set(prompt.rstrip("=")))


def same_digits(prompt: str, completion: str) -> float:
    """Return 1.0 for a completion with the digits of the prompt, in any order, and a period."""
    return float(completion[-1:] == "." and sorted(completion[:-1]) == sorted(prompt.rstrip("=")))


def in_place(prompt: str, completion: str) -> float:
    """Return 1 for each symbol of the correct completion that is in its place, and 0.1 for each symbol of any kind."""
    correct = "".join(sorted(prompt.rstrip("="))) + "."
    return sum(a == b for a, b in zip(completion, correct, strict=False)) + 0.1 * len(completion)


def as_long(prompt: str, completion: str) -> float:
    """Return 1.0 for a completion that `ascending` rewards and that has as many digits as the prompt."""
    return ascending(prompt, completion) * (len(completion) == len(prompt))


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Scripted:
    """Stands in for a model: the next token depends on the sum of all tokens so far, and the calls are recorded."""

    def __init__(self, table: list[list[float]]):
        import torch

        self.table = torch.tensor(table)
        self.calls: list[tuple[int, int, int]] = []

    def __call__(self, tokens: Any, cache: Any = None) -> tuple:
        """Return logits after each of the tokens, and a cache with these tokens added."""
        known = 0 if cache is None else cache[0][0].shape[2]
        sums = tokens.cumsum(1) + (0 if cache is None else cache[0][1][:, 0, -1:, 0])
        rows, columns = tokens.shape
        self.calls.append((rows, columns, known))
        keys = sums[:, None, :, None].float()
        grown = keys.long() if cache is None else _longer(cache[0][0], keys.long())
        return self.table[sums % len(self.table)], [(grown, grown)]

    def eval(self) -> "Scripted":
        """Do nothing, as a model without dropout does."""
        return self


def _longer(known: Any, new: Any) -> Any:
    import torch

    return torch.cat([known, new], 2)


class Generated(TypedDict):
    """What `generate` did with a scripted model."""

    returned: Any
    calls: list[
        tuple[int, int, int]
    ]  # of the model: rows and columns of its tokens, and how many tokens were in the cache


def generated(
    generate: Callable, table: list[list[float]], prompts: list[list[int]], limit: int, seed: int
) -> Generated:
    """Return what `generate` returned for a scripted model, and the calls of that model."""
    import torch

    model = Scripted(table)
    returned = generate(model, torch.tensor(prompts), limit, torch.Generator().manual_seed(seed))
    return {"returned": returned, "calls": model.calls[: limit + 2]}  # one more than any right answer makes


class Loss(TypedDict):
    """What `grpo_loss` returned."""

    kind: str  # the name of its type
    shape: list[int]
    loss: list[float]  # all numbers of a tensor
    slopes: np.ndarray | None  # along `logp`


def loss_and_slopes(grpo_loss: Callable, rows: dict, settings: dict) -> Loss:
    """Return the loss of some rows, its slopes along `logp`, and what kind of thing it is."""
    import torch

    tensors = {name: torch.tensor(column, dtype=torch.float64) for name, column in rows.items()}
    logp = tensors["logp"].requires_grad_()
    loss = grpo_loss(*tensors.values(), **settings)
    seen: Loss = {"kind": type(loss).__name__, "shape": [], "loss": [], "slopes": None}
    if isinstance(loss, torch.Tensor):
        seen["shape"], seen["loss"] = list(loss.shape), loss.detach().ravel().tolist()
        slopes = torch.autograd.grad(loss.sum(), [logp], allow_unused=True)[0] if loss.requires_grad else None
        seen["slopes"] = None if slopes is None else slopes.numpy()
    return seen


class Rewarded(TypedDict):
    """What `reward_workers` returned, and what its tasks did."""

    rewards: Any
    went_on: bool  # a prompt that hangs was still being rewarded at the end
    met: bool  # both prompts that wait for each other were being rewarded at the same time


def rewarded(
    reward_workers: Callable,
    batches: list[list],
    hangs: str,
    meets: list[str],
    seconds: float,
    sleeps: dict | None = None,
) -> Rewarded:
    """Return the rewards of batches of completions: one prompt hangs, two wait for each other, and some sleep first."""
    point = rendezvous.new_point()
    found = reward_workers(partial(_verify, point, hangs, meets, sleeps or {}), batches, seconds)
    end = time.monotonic() + rendezvous.patience()
    while _runs(rendezvous.noted(point, "pid")) and time.monotonic() < end:  # a killed process needs a moment to exit
        time.sleep(0.05)
    went_on = _runs(rendezvous.noted(point, "pid"))
    rendezvous.signal(point, "over")
    met = all(rendezvous.noted(point, f"met {prompt}") for prompt in meets)
    return {"rewards": found, "went_on": went_on, "met": met}


def _verify(point: str, hangs: str, meets: list[str], sleeps: dict, prompt: str, completion: str) -> float:
    """Return half the length of the completion; hang at one prompt and ignore interrupts, and meet or sleep at others."""
    time.sleep(sleeps.get(prompt, 0))
    if prompt == hangs:
        with suppress(ValueError):  # a threaded actor cannot set it, and is not interrupted either
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        rendezvous.note(point, "pid", os.getpid())
        while not rendezvous.signalled(point, "over"):
            time.sleep(0.02)
        with suppress(ValueError):
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if prompt in meets:
        me = meets.index(prompt)
        rendezvous.note(point, f"met {prompt}", rendezvous.meets(point, me, 1 - me))
    return len(completion) / 2


def _runs(pid: int | None) -> bool:
    import psutil

    return pid is not None and psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


class Point(TypedDict):
    """One point of a curve, as `report` makes it; only this is read."""

    kl: float
    lag: float


class Taught(TypedDict):
    """What `train_grpo` made of a model, and what it sent to its rollout workers."""

    other: str  # what came instead of weights and a curve, and nothing where both came
    before: list[str]
    after: list[str]
    curve: list[Point]
    sent: list[tuple[str, list[int]]]  # see `sent_to_actors`
    steps: int  # of all optimizers


def taught(
    train_grpo: Callable, order: list[int], steps: int, iterations: int, prompts: list[str], seed: int
) -> Taught:
    """Return what `train_grpo` made of a model that starts to sort by this order: its completions before and after."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from coursekit.given import sorter

    torch.set_num_threads(1)
    *_, model = sorter.supervised(steps, seed, order)
    start, taken = model.weights(), []
    counting = register_optimizer_step_post_hook(lambda *_: taken.append(1))
    try:
        with sent_to_actors() as sent:
            learned = train_grpo(model.weights(), partial(_with_a_bonus, order=order), seed, iterations)
    finally:
        counting.remove()
    if not (isinstance(learned, dict) and {"weights", "curve"} <= learned.keys()):
        return {"other": repr(learned)[:80], "before": [], "after": [], "curve": [], "sent": [], "steps": 0}
    before, after = (_completed(sorter.Transformer(weights), prompts) for weights in (start, learned["weights"]))
    told, curve = [(actor, marks) for actor, marks in sent], learned["curve"]
    return {"other": "", "before": before, "after": after, "curve": curve, "sent": told, "steps": len(taken)}


def _with_a_bonus(prompt: str, completion: str, order: list[int]) -> float:
    """Return what `exact` does, plus the prompt's first three digits as a number: it's the same for the whole group."""
    return exact(prompt, completion, order) + int(prompt[:3])


def _completed(model: Any, prompts: list[str]) -> list[str]:
    """Return the model's completions, sampled with a generator that is the same every time."""
    import torch

    from coursekit.given import sorter

    tokens = torch.tensor([[sorter.SYMBOLS.index(symbol) for symbol in prompt] for prompt in prompts])
    begin, rng = tokens.shape[1], torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(sorter.DIGITS + 2):
            logits, _ = model(tokens)
            tokens = torch.cat([tokens, torch.multinomial(logits[:, -1].softmax(-1), 1, generator=rng)], 1)
    return [text.partition(".")[0] + "." for text in sorter.texts(tokens[:, begin:])]
