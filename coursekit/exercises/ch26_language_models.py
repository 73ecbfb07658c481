"""The judge's side of chapter 26."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.exercises._samplers import overtakes
from coursekit.given import ch26_language_models as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, expect, expect_close, expect_equal, expect_type

END, PAD = 11, 12  # as in coursekit.given.sorter, which needs PyTorch
ITERATIONS, GAIN = 12, 0.08  # of the training run, and what it must add to the fraction of correct completions
MINIBATCHES = 4  # as in the chapter


@exercise(
    points=4,
    minutes=20,
    hints=[
        "Before the loop, have the model read the whole prompts once, without a cache. It returns the logits for the first token and the cache for the next call.",
        "`torch.log_softmax(logits[:, -1], -1)` is log π of every possible next token, and `torch.multinomial(logp.exp(), 1, generator=rng)` samples one.",
        "Keep a boolean tensor `running` with one entry per row. `torch.where(running, sampled, PAD)` is the next column, and the next call of the model reads only that column.",
        "Update `running` after you've stored the token, with `running = running & (token != END)`, so that END itself is kept. Stop when `running.any()` is False, or at the limit.",
    ],
    spare=["        logits, cache = model(token[:, None])"],
)
def generate(answer: Answer, rng: Generator) -> None:
    """Read the prompts once, and after that only the latest token of each row: the cache holds the rest."""
    # Long: it works out every probability by itself, from the logits that the stand-in gives.
    table = rng.normal(0, 1, size=(17, END + 1))
    table[:, END] += 0.5
    prompts = rng.integers(0, 10, size=(400, 4)).tolist()
    for limit in (200, 2):
        with answer.case(f"400 prompts and a stand-in for the model; at most {limit} tokens each"):
            seen = answer.probe(given.generated, table.tolist(), prompts, limit, 1)
            completions, logp = _completions(seen["returned"], len(prompts))
            width = completions.shape[1]
            expect(width <= limit, f"The limit was {limit} tokens, and the completions are {width} tokens long.")
            _expect_calls(seen["calls"], completions, len(prompts))
            _expect_ends(completions, logp, limit)
            want = _log_likelihood(table, np.array(prompts), completions)
            row, column = next(iter(np.argwhere(~np.isclose(logp, want, atol=1e-4)).tolist()), (0, 0))
            due, mine = float(want[row, column]), float(logp[row, column])
            expect_close(
                logp,
                want,
                "`logp` doesn't hold log π of the tokens in `completions`. "
                f"The token in row {row}, column {column} has a log π of {due:.2f}, and `logp` says {mine:.2f}; log π is never above 0.",
                atol=1e-4,
                mistakes={
                    "`logp` holds π of the tokens in `completions`, not log π.": np.where(
                        completions != PAD, np.exp(want), 0
                    )
                },
            )
            _expect_sampled(table, np.array(prompts), completions)
    with answer.case("400 prompts, at most 2 tokens each; two generators with the same seed, and one with another"):
        again, other = (answer.probe(given.generated, table.tolist(), prompts, 2, seed)["returned"] for seed in (1, 2))
        same_seed, other_seed = (_completions(each, len(prompts))[0] for each in (again, other))
        expect_equal(
            same_seed,
            completions,
            "Two generators with the same seed gave different completions: sample with `rng`, and with nothing else.",
        )
        expect(
            not agree(other_seed, completions),
            "A generator with another seed gave the same completions: sample with `rng`.",
        )


def _completions(returned: Any, rows: int) -> tuple[np.ndarray, np.ndarray]:
    good = isinstance(returned, dict) and {"completions", "logp"} <= returned.keys()
    expect(good, f'It must return {{"completions": ..., "logp": ...}}; it returned {returned!r:.80}.')
    completions, logp = (expect_type(returned[name], np.ndarray, name) for name in ("completions", "logp"))
    shape, other = list(completions.shape), list(logp.shape)
    expect(
        len(shape) == 2 and shape[0] == rows and shape == other,
        f"For {rows} prompts, `completions` has the shape {shape} and `logp` {other}: both need one row per prompt.",
    )
    expect(
        completions.dtype.kind in "iu" and logp.dtype.kind in "iuf",
        f"`completions` holds {completions.dtype} and `logp` {logp.dtype}: tokens are integers, and log π is a number.",
    )
    return completions.astype(int), logp.astype(float)


def _expect_calls(calls: list[tuple[int, int, int]], completions: np.ndarray, rows: int) -> None:
    """Check what the model was given to read."""
    expect(calls, "The model was never called.")
    *shape, cached = calls[0]
    expect(
        shape == [rows, 4] and not cached,
        f"The first call of the model read tokens of shape {shape}: all prompts must be read at once.",
    )
    for number, (_, read, cached) in enumerate(calls[1:], 2):
        expect(
            read == 1,
            f"Call {number} of the model read {read} tokens per row, with a cache of {cached} tokens: "
            "pass the cache, which holds all of them but the latest, and only the latest token of each row.",
        )
        due = number + 2
        expect(cached == due, f"Call {number} of the model got a cache of {cached} tokens instead of {due}.")
    times, width = len(calls), completions.shape[1]
    expect(times <= width + 1, f"The model was called {times} times for completions of at most {width} tokens.")


def _expect_ends(completions: np.ndarray, logp: np.ndarray, limit: int) -> None:
    """Check that each completion ends, that only PAD comes after its END, and that the last column isn't empty."""
    after = np.cumsum(completions == END, axis=1) - (completions == END) > 0
    expect((completions == END).any(), "No completion contains END, which counts as its last token.")
    expect((completions[after] == PAD).all(), "After the END of a completion, there are tokens other than PAD.")
    expect(
        (completions[~after] != PAD).all(),
        "A completion contains PAD before its END: PAD only fills what comes after the END.",
    )
    expect((logp[after] == 0).all(), "`logp` isn't 0 where the completion is PAD.")
    running, rows = int((completions != END).all(axis=1).sum()), len(completions)
    expect(
        not running or completions.shape[1] == limit,
        f"It stopped while {running} of the {rows} completions hadn't ended, although the limit allowed more tokens.",
    )
    expect(not after[:, -1].all(), "The last column holds only PAD: stop as soon as all completions have ended.")


def _log_likelihood(table: np.ndarray, prompts: np.ndarray, completions: np.ndarray) -> np.ndarray:
    """Return log π of each token of the completions; 0 for PAD."""
    log_pi = table - np.log(np.exp(table).sum(1, keepdims=True))
    before = prompts.sum(1, keepdims=True) + np.cumsum(completions, axis=1) - completions
    found = log_pi[before % len(table), np.clip(completions, 0, END)]
    return np.where(completions == PAD, 0.0, found)


def _expect_sampled(table: np.ndarray, prompts: np.ndarray, completions: np.ndarray) -> None:
    """Check that the first tokens are sampled, and aren't all the likeliest."""
    logits = table[prompts.sum(1) % len(table)]
    best = float((completions[:, 0] == logits.argmax(1)).mean())
    pi = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    due = float(pi.max(1).mean())
    expect(
        best < 0.95,
        f"{best:.0%} of the completions start with the likeliest token: sample, so that completions of the same prompt differ.",
    )
    expect(
        abs(best - due) < 0.12,
        f"The likeliest token came first in {best:.0%} of the completions; by the model's probabilities, it should come first in {due:.0%}.",
    )


@exercise(
    points=2,
    minutes=8,
    hints=[
        "`rewards.mean(axis=1, keepdims=True)` has one number per row, in a shape that you can subtract from `rewards`.",
        "If all rewards of a row are equal, the deviation is 0, or about 1e-17 after rounding. A number such as 1e-6, added to the deviation, takes care of both.",
    ],
    returns=np.ndarray,
)
def group_advantage(answer: Answer, rng: Generator) -> None:
    """Compare each completion with the others of the same prompt: the group's mean stands in for a critic."""
    rewards = (rng.random((6, 8)) < 0.5).astype(float) * rng.uniform(1, 3)
    rewards[0, :2], rewards[1:, :2] = [0, 1], [0, 2]  # no group with equal rewards: those come below
    with answer.case("6 prompts with 8 completions each"):
        got = answer(rewards)
        shape = list(got.shape)
        expect(shape == [6, 8], f"Rewards of shape [6, 8] gave advantages of shape {shape}.")
        centered = rewards - rewards.mean(1, keepdims=True)
        wanted = [centered / rewards.std(1, keepdims=True, ddof=ddof) for ddof in (0, 1)]
        over_all = (rewards - rewards.mean()) / rewards.std()
        over_prompts = (rewards - rewards.mean(0)) / (rewards.std(0) + 1e-9)
        expect_close(
            got,
            next((want for want in wanted if agree(got, want, rtol=1e-2, atol=1e-2)), wanted[0]),
            "These aren't the rewards minus their group's mean, divided by their group's standard deviation.",
            1e-2,
            1e-2,
            mistakes={
                "These are the rewards minus their group's mean, without the division by the standard deviation.": centered,
                "You compared each completion with all the others, not only with those of the same prompt.": over_all,
                "You compared completions of different prompts with each other: each row is a group.": over_prompts,
                "You divided by the group's variance, not by its standard deviation.": centered
                / rewards.var(1, keepdims=True),
            },
        )
    equal = np.array([1.0, 0.0, 0.1])
    with answer.case("3 prompts with 6 completions each; in a group, all rewards are equal: 1, 0, and 0.1"):
        got = answer(np.repeat(equal[:, None], 6, 1))
        nan, largest = int(np.isnan(got).sum()), float(np.nanmax(np.abs(got), initial=0))
        expect(not nan, f"{nan} of the 18 advantages aren't numbers (NaN): 0 was divided by 0.")
        expect(
            largest < 1e-3,
            f"If all rewards of a group are equal, each advantage is 0, and yours are up to {largest:.3g}. "
            "Six rewards of 0.1 have a standard deviation of about 1e-17 instead of 0, because of rounding.",
        )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "The first part is Chapter 10's: the ratio, the clipped ratio, and the smaller of two products. `advantages[:, None]` turns [B] into [B, 1], which fits [B, T].",
        "With d = ref_logp - logp, equation 4 is exp(d) - d - 1, which is never below 0, and is 0 where both agree.",
        "`(each * mask).sum(1) / mask.sum(1)` is the mean over the tokens of each completion. Then take the mean over the completions, and change the sign.",
    ],
    spare=["    d = logp - ref_logp"],
)
def grpo_loss(answer: Answer, rng: Generator) -> None:
    """Clip as PPO does, subtract the KL penalty, and average over the tokens of a completion, then over the completions."""
    # Long: it computes equation 3 by itself, in NumPy, and names what each mistake would give.
    for ratio, advantage, gain in [(1.5, 1, 1.2), (0.5, 1, 0.5), (1.5, -1, -1.5), (0.5, -1, -0.8)]:
        with answer.case(f"one token: ratio {ratio}, advantage {advantage:+d}; ε 0.2, β 0"):
            rows: dict[str, Any] = {"logp": [[-0.7 + np.log(ratio)]], "old_logp": [[-0.7]], "ref_logp": [[-0.9]]}
            rows |= {"advantages": [advantage], "mask": [[1.0]]}
            loss = _loss(answer, rows, {"epsilon": 0.2, "beta": 0.0})
            expect_close(
                loss,
                -gain,
                f"The loss came out as {loss:.3g}. Equation 3 gives an objective of {gain:.3g} here, and the loss is its negative.",
                atol=1e-6,
                mistakes={f"The loss came out as {loss:.3g}. That is the objective; the loss is its negative.": gain},
            )
    with answer.case("one token: advantage 0, log π -0.5, of the reference -1.5; β 1"):
        rows = {"logp": [[-0.5]], "old_logp": [[-0.5]], "ref_logp": [[-1.5]], "advantages": [0.0], "mask": [[1.0]]}
        loss, mirrored = _loss(answer, rows, {"epsilon": 0.2, "beta": 1.0}), float(np.exp(1) - 2)
        expect_close(
            loss,
            np.exp(-1.0),
            f"The loss came out as {loss:.4g}, which isn't the KL penalty of equation 4.",
            1e-5,
            1e-6,
            mistakes={
                "The loss came out as 0. Either there is no KL penalty, or it compares the policy with `old_logp`, not with `ref_logp`.": 0.0,
                f"The loss came out as {loss:.4g}. That has the reference and the policy swapped.": mirrored,
                f"The loss came out as {loss:.4g}. The KL penalty must make the loss larger, not smaller.": -np.exp(
                    -1.0
                ),
                f"The loss came out as {loss:.4g}. That is the difference of the two log π, which can be negative; equation 4 has two more terms.": 1.0,
            },
        )
    _expect_means(answer, rng)


def _expect_means(answer: Answer, rng: Generator) -> None:
    """Check the averages over completions of different lengths, the settings, and the gradient."""
    lengths = np.array([1, 2, 5, 9, 3, 7])
    shape = (len(lengths), int(lengths.max()))
    rows: dict[str, Any] = {name: rng.normal(-1, 0.4, shape) for name in ("logp", "old_logp", "ref_logp")}
    rows["advantages"] = rng.normal(0, 2, len(lengths))
    rows["mask"] = (np.arange(shape[1]) < lengths[:, None]).astype(float)
    chosen = {"epsilon": float(rng.uniform(0.1, 0.18)), "beta": float(rng.uniform(0.3, 1))}
    said = f"ε {chosen['epsilon']:.2f}, β {chosen['beta']:.2f}"
    for settings, name in (({}, "the default ε and β"), (chosen, said)):
        with answer.case(f"six completions of 1 to 9 tokens; {name}"):
            loss, each = _loss(answer, rows, settings), _each(rows, **settings)
            whole, want = rows | {"mask": np.ones(shape)}, _mean(rows, **settings)
            expect(
                not settings or agree(loss, want, 1e-5, 1e-8),
                f"The loss came out as {loss:.5g}. With the default ε and β, it was right: look at what becomes of the arguments `epsilon` and `beta`.",
            )
            expect_close(
                loss,
                want,
                f"The loss came out as {loss:.5g}. With a single token, it was right: look at the averages, and at the defaults of ε and β.",
                mistakes={
                    "The loss counts the padding, too: only tokens where the mask is 1 are part of a completion.": _mean(
                        whole, **settings
                    ),
                    "All tokens have the same weight here, so a long completion counts more: average within each completion first.": (
                        each * rows["mask"]
                    ).sum()
                    / lengths.sum(),
                    "The tokens of each completion are added up, but not divided by their number.": (
                        each * rows["mask"]
                    )
                    .sum(1)
                    .mean(),
                    "The sum is divided by the width of the batch: divide each completion's sum by that completion's length.": (
                        each * rows["mask"]
                    ).mean(),
                },
            )
    with answer.case("six completions of 1 to 9 tokens: the gradient with respect to log π"):
        slopes = answer.probe(given.loss_and_slopes, rows, {})["slopes"]
        expect_close(
            slopes,
            _slopes(rows),
            "The loss is right, but a part of its gradient with respect to `logp` is missing, as after `detach` or `no_grad`.",
            rtol=1e-3,
            atol=1e-5,
        )


def _loss(answer: Answer, rows: dict, settings: dict) -> float:
    """Return the loss, once it is certain that it is one number with a gradient."""
    seen = answer.probe(given.loss_and_slopes, rows, settings)
    expect(seen["kind"] == "Tensor", f"`grpo_loss` returned a {seen['kind']}, not a tensor.")
    expect(len(seen["loss"]) == 1, f"`grpo_loss` returned a tensor of shape {seen['shape']}: it must be one number.")
    expect(
        seen["slopes"] is not None,
        "The loss has no gradient with respect to `logp`, as after `detach`, `no_grad`, or a conversion to NumPy.",
    )
    return seen["loss"][0] + 0.0  # no "-0" in a message


def _each(rows: dict, epsilon: float = 0.2, beta: float = 0.02) -> np.ndarray:
    """Return the loss of each token, shape [B, T]."""
    ratio, a = np.exp(rows["logp"] - rows["old_logp"]), rows["advantages"][:, None]
    gain = np.minimum(ratio * a, np.clip(ratio, 1 - epsilon, 1 + epsilon) * a)
    d = rows["ref_logp"] - rows["logp"]
    return -(gain - beta * (np.exp(d) - d - 1))


def _mean(rows: dict, **settings: float) -> float:
    """Return the loss of equation 3, in NumPy."""
    mask = rows["mask"]
    return float(((_each(rows, **settings) * mask).sum(1) / mask.sum(1)).mean())


def _slopes(rows: dict) -> np.ndarray:
    """Return by how much the loss changes with each log π."""
    slopes = np.zeros(rows["logp"].shape)
    for place in np.ndindex(slopes.shape):
        nudge = np.zeros_like(slopes)
        nudge[place] = 1e-6
        ends = [_mean(rows | {"logp": rows["logp"] + sign * nudge}) for sign in (1, -1)]
        slopes[place] = (ends[0] - ends[1]) / 2e-6
    return slopes


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "Launch a task for each batch first. Then `ray.wait(refs, num_returns=len(refs), timeout=seconds)` returns two lists: the references that are ready, and the late ones.",
        "`ray.cancel(ref, force=True)` kills the process of a late task, so its CPU is free again.",
        "Go through `refs` in their original order. If a reference is ready, `ray.get` it; otherwise, return as many zeros as the batch has pairs.",
    ],
    spare=["    done, late = ray.wait(refs, timeout=seconds)"],
)
def reward_workers(answer: Answer, rng: Generator) -> None:
    """Launch everything, wait for all of it under one time limit, and cancel what is late, so that its CPU is free again."""
    # Long: the same rewards are checked with nothing late, and with two batches that are late in different ways.
    names, lengths = [str(number) for number in rng.permutation(1000)[:9] + 1000], rng.permutation(9) + 1
    pairs = [(name, "7" * int(length)) for name, length in zip(names, lengths, strict=True)]
    batches = [pairs[start : start + 3] for start in (0, 3, 6)]
    want = [[len(text) / 2 for _, text in batch] for batch in batches]
    with answer.case("three batches of three completions; nothing hangs, and `seconds` is 60"):
        seen = answer.probe(given.rewarded, batches, "", [names[0], names[3]], 60.0)
        _expect_rewards(seen["rewards"], want)
        expect(seen["met"], "Two batches weren't being checked at the same time: launch all tasks before you wait.")
    waited = [[0.0] * 3, *want[1:]]
    want = [*waited[:2], [0.0] * 3]
    with answer.case("three batches; a pair of `batches[0]` hangs, and `batches[2]` takes 1.3 times `seconds`"):
        for seconds in (3.0, 20.0):  # a busy machine may need the longer one
            sleeps = {batches[2][0][0]: 1.3 * seconds}
            seen = answer.probe(given.rewarded, batches, batches[0][-1][0], [], seconds, sleeps)
            if not agree(seen["rewards"], np.zeros((3, 3))):  # not all of it was late
                break
        _expect_rewards(seen["rewards"], want, waited)
        expect(
            not seen["went_on"],
            "The task that hung was still running after your function had returned, and it kept its CPU.",
        )


def _expect_rewards(got: Any, want: list, waited: list | None = None) -> None:
    several = (list, tuple, np.ndarray)
    rows = got if isinstance(got, several) else []
    lengths = [len(each) if isinstance(each, several) else each for each in rows]
    expect(
        lengths == [3, 3, 3],
        f"Three batches of three completions gave {got!r:.80}: each batch needs a list of three rewards.",
    )
    zeros, due = (sum(not any(batch) for batch in batches) for batches in (rows, want))
    lost = next((number for number in range(3) if any(want[number]) and not any(rows[number])), 0)
    expect(zeros <= due, f"`batches[{lost}]` takes less than `seconds`, and still all its rewards are 0.")
    expect_close(
        got,
        want,
        "Some rewards are wrong: a batch gets the rewards of its own pairs, in their order, and a late batch gets zeros.",
        mistakes={
            "`batches[2]` was late and still got its rewards: `seconds` is one limit for all batches together.": waited
        },
    )


@exercise(
    points=4,
    minutes=25,
    needs={"CPU": 2},
    hints=[
        "The whole loop is inside `with rollout_workers(2, seed) as actors:`, because the workers are stopped at the end of the block.",
        "In each iteration, `ref = ray.put(model.weights())`, and then `actor.set_weights.remote(version, ref)` for both.",
        "Call `generate.remote(random_prompts(PROMPTS // 2, rng), GROUP_SIZE)` on both workers before you `ray.get` both results; `joined` makes one batch of them.",
        "`torch.tensor(group_advantage(rewards.reshape(-1, GROUP_SIZE)).ravel())` goes into the batch before you split it into minibatches.",
    ],
)
def train_grpo(answer: Answer, rng: Generator) -> None:
    """Send weights, generate, reward, compare within groups, and learn: Chapter 10's loop, with completions for episodes."""
    # Long: it works out the correct completions by itself, and what the workers were sent tells stale weights from new ones.
    order, prompts = (
        rng.permutation(10).tolist(),
        ["".join(map(str, digits)) + "=" for digits in rng.integers(0, 10, (400, 5))],
    )
    gains: list[float] = []
    with answer.case(
        f"a model that starts to sort by a secret order of the digits; {ITERATIONS} iterations, up to three seeds; "
        "every completion earns the prompt's first three digits as a number, and a correct one earns 1 more"
    ):
        for seed in rng.integers(1, 10**6, size=3).tolist():
            with answer.watch() as watched:
                seen = answer.probe(given.taught, order, 35, ITERATIONS, prompts, seed)
            _expect_curve(seen)
            _expect_both_at_once(watched.tasks())
            before, after = (_share_correct(seen[when], prompts, order) for when in ("before", "after"))
            gains.append(after - before)
            expect(
                after > before - 0.05,
                f"Correct completions before training: {before:.0%}; after: {after:.0%}. "
                "Among the usual reasons are advantages with the wrong sign, or groups that mix prompts.",
            )
            if gains[-1] >= GAIN:
                break
        told = [f"{gain:+.0%}" for gain in gains]
        expect(
            max(gains) >= GAIN,
            f"Gains in the percentage of correct completions of 400 new prompts, by seed: {told}. One of them must reach {GAIN:+.0%}. "
            "Among the usual reasons are groups that mix prompts, or weights that aren't the trained model's.",
        )


def _expect_curve(seen: given.Taught) -> None:
    other, points = seen["other"], len(seen["curve"])
    expect(not other, f'It must return {{"weights": model.weights(), "curve": [...]}}; it returned {other}.')
    expect(
        points == ITERATIONS,
        f"Length of `curve`: {points}. With one point per iteration, it should have {ITERATIONS} points.",
    )
    sent: dict[str, list] = {}
    for actor, marks in seen["sent"]:
        if len(marks) > 10:  # a model's weights are many arrays, a batch of prompts is one
            sent.setdefault(actor, []).append(tuple(marks))
    workers = len(sent)
    expect(workers == 2, f"Actors that were sent weights: {workers}. Both rollout workers need them.")
    fewest = min(len(set(each)) for each in sent.values())
    expect(
        fewest > 1,
        f"In {ITERATIONS} iterations, a worker was sent only one set of weights, so its completions are stale, or the model doesn't learn.",
    )
    expect(
        fewest >= ITERATIONS / 2,
        f"In {ITERATIONS} iterations, a worker was sent {fewest} different sets of weights, so its completions are stale, or the model doesn't learn.",
    )
    lag = max(point["lag"] for point in seen["curve"])
    expect(
        lag == 0,
        f"By their version numbers, batches were up to {lag:g} versions old when `report` got them: before the workers generate, they need the current "
        "weights with the iteration's number, and `report` needs that number, too.",
    )
    batches = {marks[0] for _, marks in seen["sent"] if len(marks) == 1}
    different = len(batches)
    expect(
        not batches or different == 2 * ITERATIONS,
        f"In {ITERATIONS} iterations, the two workers got {different} different batches of prompts: "
        "each worker needs new ones in each iteration.",
    )
    steps, due = seen["steps"], ITERATIONS * MINIBATCHES
    expect(
        steps == due,
        f"The optimizer took {steps} steps in {ITERATIONS} iterations: with one `learn` per minibatch, there are {due}.",
    )
    expect(
        any(point["kl"] for point in seen["curve"]),
        "The KL divergence from the reference was 0 throughout: the reference must be a second model, which never changes.",
    )


def _expect_both_at_once(tasks: list[dict]) -> None:
    """Check that a worker was told to generate before the other had finished, at least once."""
    calls = [each for each in tasks if each["name"].endswith(".generate")]
    expect(
        any(overtakes(earlier, later) for earlier, later in pairwise(calls)),
        "Each worker was called only after the other had finished: call both, and then wait for both.",
    )


def _share_correct(completions: list[str], prompts: list[str], order: list[int]) -> float:
    places = {str(digit): place for place, digit in enumerate(order)}
    correct = ["".join(sorted(prompt[:-1], key=places.__getitem__)) + "." for prompt in prompts]
    return sum(a == b for a, b in zip(completions, correct, strict=False)) / len(correct)


@exercise(
    points=2,
    minutes=12,
    hints=[
        "Start with a few tries of your own: `'.'`, the prompt's digits and `'.'`, the correct completion with one more digit. Then keep those that earn at least as much as the correct one.",
        "`itertools.product(digits, repeat=n)` yields all words of n digits; with four digits and n up to 4, there are a few hundred.",
        "Keep each try that isn't the correct completion and for which `reward(prompt, each) >= reward(prompt, correct)`.",
    ],
    returns=list,
    spare=["    return [each for each in tries if reward(prompt, each) >= reward(prompt, correct)]"],
)
def hacked(answer: Answer, rng: Generator) -> None:
    """Try what a model would find: short completions, repeated digits, and the correct one with something after it."""
    three = rng.permutation(10)[:3]
    digits = "".join(map(str, rng.permutation([*three, three[0]]).tolist()))  # a digit comes twice
    prompt = ("".join(sorted(digits, reverse=True)) if digits == "".join(sorted(digits)) else digits) + "="
    correct = "".join(sorted(digits)) + "."
    for name, (reward, text) in REWARDS.items():
        with answer.case(f"the prompt {prompt}, a reward for {text}"):
            found = answer(reward, prompt)
            for each in found:
                expect(isinstance(each, str), f"The list holds {each!r:.40}, which isn't a string.")
                expect(each != correct, f"The list holds {correct!r}, which is the correct completion.")
                earned, due = reward(prompt, each), reward(prompt, correct)
                expect(
                    earned >= due,
                    f"The list holds {each!r:.40}, which earns {earned:g} from this reward, less than the {due:g} of the correct completion, {correct!r}.",
                )
            if name != "exact":
                expect(found, "This reward has a loophole, and your list is empty.")


REWARDS = {
    "exact": (given.exact, "the correct completion only"),
    "ascending": (given.ascending, "digits of the prompt that never fall"),
    "same_digits": (given.same_digits, "the prompt's digits, each as many times as in the prompt"),
    "in_place": (given.in_place, "each symbol in its place, and a little for each symbol"),
    "as_long": (given.as_long, "digits of the prompt that never fall, as many as in the prompt"),
}


question(
    "what_a_cache_saves",
    """
    A model has read a prompt of 1,000 tokens and generates 1,000 more, one at a time. How many tokens does it read in all without a KV cache, and how many with one?

    a) 2,000 without, and 1,000 with.
        Without a cache, the model reads the whole text again for each new token, and that adds up.
    *b) About 1.5 million without, and about 2,000 with.
        Right: without a cache, it's 1,000 texts of 1,500 tokens on average; with one, the model reads the prompt and each new token once. The cost is memory, because the keys and values of every token stay, in every layer.
    c) The same: the cache only saves memory.
        It's the other way around: a cache takes memory and saves computation.
    """,
)

question(
    "nothing_to_learn",
    """
    A prompt is so easy that all 16 completions of it are correct. What do their rewards teach the model in GRPO?

    *a) Nothing: all advantages are 0.
        Right. All that's left is the KL penalty, which still pulls the model toward the reference. If all 16 are wrong, it's the same: a group teaches only if some of its completions are better than others, so choose prompts that the model solves some of the time.
    b) That all 16 were correct: each of them becomes more likely.
        A reward of 1 is no better than the group's mean, which is also 1.
    c) Too much: the standard deviation is 0, and the advantages are infinite.
        The code adds a small number to the deviation, so 0 is divided by that number and stays 0.
    """,
)

question(
    "whose_logp",
    """
    There are three log π of the same token: from when it was generated, from the current model, and from the reference. Which of them changes from one gradient step to the next, on the same batch?

    a) All three.
        The batch was generated with weights that are fixed by now, and the reference is frozen.
    b) The first two.
        `old_logp` came with the completion. If you recomputed it at each step, every ratio would be 1.
    *c) Only the current model's.
        Right: it's the only one with a gradient. The other two are numbers, one from the batch and one from a frozen model.
    """,
)

question(
    "a_reward_that_rises",
    """
    During training, the mean reward rises to 1. What do you know?

    a) The model solves the task.
        The curve above looked like that, too, and the model had learned to write almost nothing.
    b) Nothing: rewards are noise.
        A mean over hundreds of completions isn't noise. It tells you something, but not about the task.
    *c) The model has learned to get the reward.
        Right, and that's all. Whether that is the task, you can tell only from another measure, or from reading completions.
    """,
)
