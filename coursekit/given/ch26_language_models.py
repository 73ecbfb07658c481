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


def exact(prompt: str, answer: str, order: Sequence[int] = range(10)) -> float:
    """Return 1.0 for the right answer, to the last character, and 0.0 for every other."""
    from coursekit.given.sorter import in_order

    return float(answer == in_order(prompt, order))


def rises(prompt: str, answer: str) -> float:
    """Return 1.0 for an answer whose digits come from the prompt, rise, and end with a full stop."""
    digits = answer[:-1]
    return float(answer[-1:] == "." and list(digits) == sorted(digits) and set(digits) <= set(prompt.rstrip("=")))


def same_digits(prompt: str, answer: str) -> float:
    """Return 1.0 for an answer with the digits of the prompt, in whatever order, and a full stop."""
    return float(answer[-1:] == "." and sorted(answer[:-1]) == sorted(prompt.rstrip("=")))


def in_place(prompt: str, answer: str) -> float:
    """Return 1 for each symbol of the right answer that is in its place, and 0.1 for each symbol, whatever it is."""
    right = "".join(sorted(prompt.rstrip("="))) + "."
    return sum(a == b for a, b in zip(answer, right, strict=False)) + 0.1 * len(answer)


def as_long(prompt: str, answer: str) -> float:
    """Return 1.0 for an answer that `rises` pays, and that has as many digits as the prompt."""
    return rises(prompt, answer) * (len(answer) == len(prompt))


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Scripted:
    """Stands in for a model: what comes next depends on the sum of all tokens so far, and the calls are written down."""

    def __init__(self, table: list[list[float]]):
        import torch

        self.table = torch.tensor(table)
        self.calls: list[tuple[int, int, int]] = []

    def __call__(self, tokens: Any, cache: Any = None) -> tuple:
        """Return scores for each of the tokens, and a cache that has grown by them."""
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


class Written(TypedDict):
    """What `generate` did with a scripted model."""

    made: Any  # what it returned
    calls: list[tuple[int, int, int]]  # of the model: rows and columns of its tokens, and how many the cache knew


def written(generate: Callable, table: list[list[float]], asked: list[list[int]], limit: int, seed: int) -> Written:
    """Return what `generate` returned for a scripted model, and the calls of that model."""
    import torch

    model = Scripted(table)
    made = generate(model, torch.tensor(asked), limit, torch.Generator().manual_seed(seed))
    return {"made": made, "calls": model.calls[: limit + 2]}  # one more than any right answer makes


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
    naps: dict | None = None,
) -> Rewarded:
    """Return the rewards of batches of answers: one prompt hangs, two wait until both are being rewarded, some nap for seconds."""
    point = rendezvous.new_point()
    found = reward_workers(partial(_verify, point, hangs, meets, naps or {}), batches, seconds)
    end = time.monotonic() + rendezvous.patience()
    while _runs(rendezvous.noted(point, "pid")) and time.monotonic() < end:  # a cancelled process needs a moment to end
        time.sleep(0.05)
    went_on = _runs(rendezvous.noted(point, "pid"))
    rendezvous.signal(point, "over")
    met = all(rendezvous.noted(point, f"met {prompt}") for prompt in meets)
    return {"rewards": found, "went_on": went_on, "met": met}


def _verify(point: str, hangs: str, meets: list[str], naps: dict, prompt: str, answer: str) -> float:
    """Return half the length of the answer; hang at one prompt, deaf to interrupts, and meet or nap at others."""
    time.sleep(naps.get(prompt, 0))
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
    return len(answer) / 2


def _runs(pid: int | None) -> bool:
    import psutil

    return pid is not None and psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


class Point(TypedDict):
    """One point of a curve, as `report` makes it; only this is read."""

    kl: float


class Taught(TypedDict):
    """What `train_grpo` made of a model, and what it sent to its writers."""

    other: str  # what came instead of weights and a curve, and nothing where both came
    before: list[str]
    after: list[str]
    curve: list[Point]
    sent: list[tuple[str, list[int]]]  # see `sent_to_actors`


def taught(train_grpo: Callable, order: list[int], steps: int, iterations: int, asked: list[str], seed: int) -> Taught:
    """Return what `train_grpo` made of a model that begins to sort by this order: its answers before and after."""
    import torch

    from coursekit.given import sorter

    torch.set_num_threads(1)
    *_, model = sorter.imitate(steps, seed, order)
    start = model.weights()
    with sent_to_actors() as sent:
        learned = train_grpo(model.weights(), partial(_paid, order=order), seed, iterations)
    if not (isinstance(learned, dict) and {"weights", "curve"} <= learned.keys()):
        return {"other": repr(learned)[:80], "before": [], "after": [], "curve": [], "sent": []}
    answers = [_drawn(sorter.Transformer(weights), asked) for weights in (start, learned["weights"])]
    told = [(actor, marks) for actor, marks in sent]
    return {"other": "", "before": answers[0], "after": answers[1], "curve": learned["curve"], "sent": told}


def _paid(prompt: str, answer: str, order: list[int]) -> float:
    """Return what `exact` does, plus the first three digits of the prompt, as a number: within a group they make no difference."""
    return exact(prompt, answer, order) + int(prompt[:3])


def _drawn(model: Any, asked: list[str]) -> list[str]:
    """Return the model's answers, drawn from what it finds likely, with draws that are the same every time."""
    import torch

    from coursekit.given import sorter

    tokens = torch.tensor([[sorter.SYMBOLS.index(symbol) for symbol in prompt] for prompt in asked])
    begin, rng = tokens.shape[1], torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(sorter.DIGITS + 2):
            scores, _ = model(tokens)
            tokens = torch.cat([tokens, torch.multinomial(scores[:, -1].softmax(-1), 1, generator=rng)], 1)
    return [text.partition(".")[0] + "." for text in sorter.texts(tokens[:, begin:])]
