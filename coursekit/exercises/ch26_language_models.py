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
ITERATIONS, GAIN = 12, 0.08  # of the training, and what it must add to the share of right answers


@exercise(
    points=4,
    minutes=20,
    hints=[
        "Before the loop, let the model read the whole prompts once, without a cache. What does it return for the next call?",
        "`torch.log_softmax(scores[:, -1], -1)` is log π of what comes next; `torch.multinomial(logp.exp(), 1, generator=rng)` draws it.",
        "Keep a tensor `running` of True and False. `torch.where(running, drawn, PAD)` is what goes into the answers, and the next call reads only that column.",
        "`running &= token != END` comes after the token is noted; break when `running.any()` is False.",
    ],
)
def generate(answer: Answer, rng: Generator) -> None:
    """Read the prompts once, then only the newest token of each: the cache knows the rest."""
    # Long: it works out every probability by itself, from the scores that the stand-in gives.
    table = rng.normal(0, 1, size=(17, END + 1))
    table[:, END] += 0.5
    asked = rng.integers(0, 10, size=(400, 4)).tolist()
    with answer.case("400 prompts and a stand-in for the model; at most 200 tokens each"):
        first, again, other = (answer.probe(given.written, table.tolist(), asked, 200, seed) for seed in (1, 1, 2))
        answers, logp = _made(first["made"], len(asked))
        same_seed, other_seed = (_made(each["made"], len(asked))[0] for each in (again, other))
        _expect_calls(first["calls"], answers, len(asked))
        _expect_ends(answers, logp, 200)
        want = _log_likelihood(table, np.array(asked), answers)
        expect_close(
            logp,
            want,
            "`logp` does not hold log π of the tokens that were drawn.",
            atol=1e-4,
            mistakes={
                "`logp` holds π of the tokens that were drawn, not log π.": np.where(answers != PAD, np.exp(want), 0)
            },
        )
        _expect_drawn(table, np.array(asked), answers)
        expect_equal(same_seed, answers, "With a generator of the same seed the answers were different.")
        expect(
            not agree(other_seed, answers),
            "With a generator of another seed the answers were the same: draw from `rng`.",
        )
    with answer.case("6 prompts; at most 2 tokens each"):
        short, _ = _made(answer.probe(given.written, table.tolist(), asked[:6], 2, 3)["made"], 6)
        width = short.shape[1]
        expect(width <= 2, f"The limit was 2 tokens, and the answers are {width} long.")


def _made(made: Any, rows: int) -> tuple[np.ndarray, np.ndarray]:
    good = isinstance(made, dict) and {"answers", "logp"} <= made.keys()
    expect(good, f'It must return {{"answers": ..., "logp": ...}}; it returned {made!r:.80}.')
    answers, logp = (expect_type(made[name], np.ndarray, name) for name in ("answers", "logp"))
    shape, other = list(answers.shape), list(logp.shape)
    expect(
        len(shape) == 2 and shape[0] == rows and shape == other,
        f"For {rows} prompts `answers` has the shape {shape} and `logp` {other}: one row for each prompt, in both.",
    )
    expect(
        answers.dtype.kind in "iu" and logp.dtype.kind in "iuf",
        f"`answers` holds {answers.dtype} and `logp` {logp.dtype}: tokens are whole numbers, and log π are numbers.",
    )
    return answers.astype(int), logp.astype(float)


def _expect_calls(calls: list[tuple[int, int, int]], answers: np.ndarray, rows: int) -> None:
    """Check what the model was given to read."""
    expect(calls, "The model was never called.")
    *shape, known = calls[0]
    expect(
        shape == [rows, 4] and not known, f"The first call of the model read tokens of shape {shape}: read all prompts."
    )
    for number, (_, read, known) in enumerate(calls[1:], 2):
        expect(
            read == 1, f"Call {number} of the model read {read} tokens of each row: the cache knows all but the newest."
        )
        due = number + 2
        expect(known == due, f"Call {number} of the model got a cache of {known} tokens; {due} were known.")
    times, width = len(calls), answers.shape[1]
    expect(times <= width + 1, f"The model was called {times} times for answers of at most {width} tokens.")


def _expect_ends(answers: np.ndarray, logp: np.ndarray, limit: int) -> None:
    """Check that each answer ends, that nothing comes after an end, and that the last column is not empty."""
    after = np.cumsum(answers == END, axis=1) - (answers == END) > 0
    expect((answers == END).any(), "No answer ends with END: it belongs to the answer.")
    expect((answers[after] == PAD).all(), "Behind the END of an answer there are other tokens than PAD.")
    expect(
        (answers[~after] != PAD).all(), "PAD stands in an answer that has not ended: it marks what comes after the END."
    )
    expect((logp[after] == 0).all(), "`logp` is not 0 where the answer is PAD: nothing was drawn there.")
    running, rows = int((answers != END).all(axis=1).sum()), len(answers)
    expect(
        not running or answers.shape[1] == limit,
        f"It stopped while {running} of the {rows} answers had not ended, and more tokens were allowed.",
    )
    expect(not after[:, -1].all(), "The last column holds only PAD: stop when all answers have ended.")


def _log_likelihood(table: np.ndarray, asked: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return log π of each token of the answers; 0 for PAD."""
    log_pi = table - np.log(np.exp(table).sum(1, keepdims=True))
    before = asked.sum(1, keepdims=True) + np.cumsum(answers, axis=1) - answers
    found = log_pi[before % len(table), np.clip(answers, 0, END)]
    return np.where(answers == PAD, 0.0, found)


def _expect_drawn(table: np.ndarray, asked: np.ndarray, answers: np.ndarray) -> None:
    """Check that the first tokens are draws, and not each the likeliest."""
    scores = table[asked.sum(1) % len(table)]
    best = float((answers[:, 0] == scores.argmax(1)).mean())
    pi = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    due = float(pi.max(1).mean())
    expect(best < 0.95, "Each answer takes the likeliest token: draw, so that the answers to one prompt differ.")
    expect(
        abs(best - due) < 0.12,
        f"The likeliest token came first in {best:.0%} of the answers; by the model's probabilities it should in {due:.0%}.",
    )


@exercise(
    points=2,
    minutes=8,
    hints=[
        "`rewards.mean(axis=1, keepdims=True)` is one number for each row, in a shape that you can subtract.",
        "A row whose rewards are all equal has the deviation 0. What is 0 / 0, and what should the advantage be?",
    ],
    returns=np.ndarray,
)
def group_advantage(answer: Answer, rng: Generator) -> None:
    """Compare each answer with the others to the same prompt: the group's mean stands in for a critic."""
    rewards = (rng.random((6, 8)) < 0.5).astype(float) * rng.uniform(1, 3)
    rewards[0, :2], rewards[1:4, :2] = [0, 1], [0, 2]
    with answer.case("6 prompts with 8 answers each"):
        got = answer(rewards)
        shape = list(got.shape)
        expect(shape == [6, 8], f"Rewards of shape [6, 8] gave advantages of shape {shape}.")
        centred = rewards - rewards.mean(1, keepdims=True)
        wanted = [centred / rewards.std(1, keepdims=True, ddof=ddof) for ddof in (0, 1)]
        over_all = (rewards - rewards.mean()) / rewards.std()
        over_prompts = (rewards - rewards.mean(0)) / (rewards.std(0) + 1e-9)
        expect_close(
            got,
            next((want for want in wanted if agree(got, want, rtol=1e-2, atol=1e-2)), wanted[0]),
            "These are not the rewards, less the group's mean, over its deviation.",
            1e-2,
            1e-2,
            mistakes={
                "The mean of each group is right, and its deviation is missing.": centred,
                "You compared each answer with all others, not with those to the same prompt.": over_all,
                "You compared answers to different prompts with each other: along which axis is a group?": over_prompts,
                "You divided by the group's variance, not by its deviation.": centred / rewards.var(1, keepdims=True),
            },
        )
    with answer.case("one prompt with 4 right answers, one with 4 wrong ones"):
        no_number = np.full((2, 4), np.nan)
        expect_close(
            answer(np.array([[1.0] * 4, [0.0] * 4])),
            np.zeros((2, 4)),
            "Where all have the same reward, none is better: each advantage is 0.",
            atol=1e-6,
            mistakes={
                "Where all answers of a group have the same reward, the advantages are not numbers (NaN).": no_number
            },
        )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "The first part is chapter 10's: `ratio`, clipped ratio, the smaller of two products. `advantages[:, None]` fits [B] to [B, T].",
        "With d = ref_logp - logp, equation 4 is exp(d) - d - 1: never below 0, and 0 where both agree.",
        "`(each * mask).sum(1) / mask.sum(1)` is the mean over the tokens of each answer. Which mean comes next, and which sign?",
    ],
)
def grpo_loss(answer: Answer, rng: Generator) -> None:
    """Clip as PPO does, pay for the distance from the reference, and average over the tokens of an answer, then over answers."""
    # Long: it computes equation 3 by itself, in NumPy, and names what each mistake would give.
    for ratio, advantage, gain in [(1.5, 1, 1.2), (0.5, 1, 0.5), (1.5, -1, -1.5), (0.5, -1, -0.8)]:
        with answer.case(f"one token: ratio {ratio}, advantage {advantage:+d}; ε 0.2, β 0"):
            rows: dict[str, Any] = {"logp": [[-0.7 + np.log(ratio)]], "old_logp": [[-0.7]], "ref_logp": [[-0.9]]}
            rows |= {"advantages": [advantage], "mask": [[1.0]]}
            loss = _loss(answer, rows, {"epsilon": 0.2, "beta": 0.0})
            expect_close(
                loss,
                -gain,
                f"The loss came out as {loss:.3g}.",
                atol=1e-6,
                mistakes={f"The loss came out as {loss:.3g}. That is the gain, to be maximised.": gain},
            )
    with answer.case("one token: advantage 0, log π -0.5, of the reference -1.5; β 1"):
        rows = {"logp": [[-0.5]], "old_logp": [[-0.5]], "ref_logp": [[-1.5]], "advantages": [0.0], "mask": [[1.0]]}
        loss, mirrored = _loss(answer, rows, {"epsilon": 0.2, "beta": 1.0}), float(np.exp(1) - 2)
        expect_close(
            loss,
            np.exp(-1.0),
            f"The loss came out as {loss:.4g}. Look at equation 4.",
            1e-5,
            1e-6,
            mistakes={
                f"The loss came out as {loss:.4g}. That has the reference and the policy the wrong way round.": mirrored,
                f"The loss came out as {loss:.4g}. The distance must be paid for: it makes the loss larger.": -np.exp(
                    -1.0
                ),
                f"The loss came out as {loss:.4g}. That is the difference of log π, which can be negative: equation 4 has two more parts.": 1.0,
            },
        )
    _expect_means(answer, rng)


def _expect_means(answer: Answer, rng: Generator) -> None:
    """Check the averages over answers of different lengths, the settings and the gradient."""
    lengths = np.array([1, 2, 5, 9, 3, 7])
    shape = (len(lengths), int(lengths.max()))
    rows: dict[str, Any] = {name: rng.normal(-1, 0.4, shape) for name in ("logp", "old_logp", "ref_logp")}
    rows["advantages"] = rng.normal(0, 2, len(lengths))
    rows["mask"] = (np.arange(shape[1]) < lengths[:, None]).astype(float)
    chosen = {"epsilon": float(rng.uniform(0.1, 0.18)), "beta": float(rng.uniform(0.3, 1))}
    for settings in ({}, chosen):
        with answer.case(f"six answers of 1 to 9 tokens, other settings than the usual ones: {settings}"):
            loss, each = _loss(answer, rows, settings), _each(rows, **settings)
            whole = rows | {"mask": np.ones(shape)}
            expect_close(
                loss,
                _mean(rows, **settings),
                f"The loss came out as {loss:.5g}. One token alone was right.",
                mistakes={
                    "The padding counts, too: only tokens where the mask is 1 belong to an answer.": _mean(
                        whole, **settings
                    ),
                    "All tokens count alike here, so a long answer counts more: average within each answer first.": (
                        each * rows["mask"]
                    ).sum()
                    / lengths.sum(),
                    "The tokens of each answer are added up: divide by their number.": (each * rows["mask"])
                    .sum(1)
                    .mean(),
                    "The sum is divided by the width of the batch: divide each answer by its own length.": (
                        each * rows["mask"]
                    ).mean(),
                },
            )
    with answer.case("six answers of 1 to 9 tokens: the gradient along log π"):
        slopes = answer.probe(given.loss_and_slopes, rows, {})["slopes"]
        expect_close(
            slopes,
            _slopes(rows),
            "The loss is right, and its gradient is not: did `detach`, `item` or NumPy cut some of it off?",
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
        "No gradient flows from the loss to `logp`: did `detach`, `item` or NumPy cut it off?",
    )
    return seen["loss"][0]


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
        "A task for each batch first; then `ray.wait(refs, num_returns=len(refs), timeout=seconds)` returns those that are done, and the late ones.",
        "`ray.cancel(ref, force=True)` ends the process of a late task. Without it, when is its CPU free again?",
        "Go through `refs` in their own order: where one is done, `ray.get` it, and for the others return as many zeros as the batch has pairs.",
    ],
)
def reward_workers(answer: Answer, rng: Generator) -> None:
    """Launch all, wait for all with one time limit, and cancel what is late: it earns nothing, and frees its CPU."""
    names = [str(number) for number in rng.permutation(1000)[:9] + 1000]
    batches = [[(name, "7" * int(rng.integers(1, 9))) for name in names[start : start + 3]] for start in (0, 3, 6)]
    want = [[len(text) / 2 for _, text in batch] for batch in batches]
    with answer.case("three batches of three answers; nothing hangs"):
        seen = answer.probe(given.rewarded, batches, "", [names[0], names[3]], 60.0)
        _expect_rewards(seen["rewards"], want)
        expect(seen["met"], "Two batches were not being rewarded at the same time: launch all tasks before you wait.")
    waited = [[0.0] * 3, *want[1:]]
    want = [*waited[:2], [0.0] * 3]
    with answer.case(
        "three batches of three answers; one in `batches[0]` hangs, one in `batches[2]` takes 1.3 times `seconds`"
    ):
        for seconds in (3.0, 20.0):  # a busy machine may need the longer one
            naps = {batches[2][0][0]: 1.3 * seconds}
            seen = answer.probe(given.rewarded, batches, batches[0][-1][0], [], seconds, naps)
            if agree(seen["rewards"], want):
                break
        _expect_rewards(seen["rewards"], want, waited)
        expect(
            not seen["went_on"],
            "The task that hung was still running afterwards, and kept its CPU: cancel what is late.",
        )


def _expect_rewards(got: Any, want: list, waited: list | None = None) -> None:
    several = (list, tuple, np.ndarray)
    rows = got if isinstance(got, several) else []
    lengths = [len(each) if isinstance(each, several) else each for each in rows]
    expect(
        lengths == [3, 3, 3],
        f"For three batches of three answers came {got!r:.80}: a list of three rewards for each is due.",
    )
    expect_close(
        got,
        want,
        "Some rewards are wrong: each batch has those of its own pairs, and a late one zeros.",
        mistakes={
            "`batches[2]` was late, and got its rewards: `seconds` is one limit for all, not one for each.": waited
        },
    )


@exercise(
    points=4,
    minutes=25,
    needs={"CPU": 2},
    hints=[
        "Everything after `with writers(2, seed) as actors:` happens in it, since the writers end with the block.",
        "`ref = ray.put(model.weights())` in each iteration, then `actor.set_weights.remote(version, ref)` for both.",
        "Call `write.remote(prompts(PROMPTS // 2, rng), COPIES)` on both writers, and only then `ray.get` both: `joined` makes one batch of the two.",
        "`group_advantage(rewards.reshape(-1, COPIES)).ravel()`, as a float32 tensor, belongs in the batch before you cut it into minibatches.",
    ],
)
def train_grpo(answer: Answer, rng: Generator) -> None:
    """Send, write, reward, compare within groups, learn: the loop of chapter 10, with answers for episodes."""
    # Long: it works out the right answers by itself, and what the writers were sent tells stale weights from new ones.
    order, asked = (
        rng.permutation(10).tolist(),
        ["".join(map(str, digits)) + "=" for digits in rng.integers(0, 10, (400, 5))],
    )
    gains: list[float] = []
    with answer.case(
        f"a model that begins to sort by a secret order of the digits; {ITERATIONS} iterations, up to three seeds; "
        "any answer earns the first three digits of its prompt, as a number, and a right one 1 more"
    ):
        for seed in rng.integers(1, 10**6, size=3).tolist():
            with answer.watch() as watched:
                seen = answer.probe(given.taught, order, 35, ITERATIONS, asked, seed)
            _expect_curve(seen)
            _expect_both_at_once(watched.tasks())
            before, after = (_share_right(seen[when], asked, order) for when in ("before", "after"))
            gains.append(after - before)
            expect(
                after > before - 0.05,
                f"Right answers before: {before:.0%}; after: {after:.0%}. It learned the wrong thing: with which answers is each one compared?",
            )
            if gains[-1] >= GAIN:
                break
        told = [f"{gain:+.0%}" for gain in gains]
        expect(
            max(gains) >= GAIN,
            f"Gains in right answers to 400 new prompts, by seed: {told}. One must reach {GAIN:+.0%}. "
            "With which answers is each one compared?",
        )


def _expect_curve(seen: given.Taught) -> None:
    other, points = seen["other"], len(seen["curve"])
    expect(not other, f'It must return {{"weights": model.weights(), "curve": [...]}}; it returned {other}.')
    expect(points == ITERATIONS, f"`curve` has {points} points for {ITERATIONS} iterations: one for each.")
    sent: dict[str, list] = {}
    for actor, marks in seen["sent"]:
        if len(marks) > 10:  # a model's weights are many arrays, a batch of prompts is one
            sent.setdefault(actor, []).append(tuple(marks))
    writers = len(sent)
    expect(writers == 2, f"Actors that were sent weights: {writers}. Both writers need them.")
    fewest = min(len(set(each)) for each in sent.values())
    expect(
        fewest >= ITERATIONS / 2,
        f"In {ITERATIONS} iterations a writer was sent {fewest} different versions of the weights: what it writes is stale.",
    )
    expect(
        any(point["kl"] for point in seen["curve"]),
        "The distance from the reference was 0 all the time: is the reference a model of its own, which stays as it was?",
    )


def _expect_both_at_once(tasks: list[dict]) -> None:
    """Check that a writer was told to write before the other had ended, at least once."""
    calls = [each for each in tasks if each["name"].endswith(".write")]
    expect(
        any(overtakes(earlier, later) for earlier, later in pairwise(calls)),
        "One writer was told to write only when the other had ended. Call both, then wait for both.",
    )


def _share_right(answers: list[str], asked: list[str], order: list[int]) -> float:
    places = {str(digit): place for place, digit in enumerate(order)}
    right = ["".join(sorted(prompt[:-1], key=places.__getitem__)) + "." for prompt in asked]
    return sum(a == b for a, b in zip(answers, right, strict=False)) / len(right)


@exercise(
    points=2,
    minutes=12,
    hints=[
        "Begin with a few tries of your own: `'.'`, the prompt's digits and `'.'`, the right answer and one more digit. Which of them does `rises` pay?",
        "`itertools.product(digits, repeat=n)` yields all words of n digits; with four digits and n up to 4 these are a few hundred.",
        "Keep each try that is not the right answer and for which `reward(prompt, each) >= reward(prompt, right)`.",
    ],
    returns=list,
)
def hacked(answer: Answer, rng: Generator) -> None:
    """Try what a model would find: short answers, repeated ones, and the right one with something behind it."""
    digits = "".join(map(str, rng.permutation(10)[:4].tolist()))
    prompt = ("".join(sorted(digits, reverse=True)) if digits == "".join(sorted(digits)) else digits) + "="
    right = "".join(sorted(digits)) + "."
    for name, (reward, text) in REWARDS.items():
        with answer.case(f"the prompt {prompt}, a reward for {text}"):
            found = answer(reward, prompt)
            for each in found:
                expect(isinstance(each, str), f"The list holds {each!r:.40}, which is not a string.")
                expect(each != right, f"The list holds {right!r}, which is the right answer: it has earned its reward.")
                paid = reward(prompt, each) >= reward(prompt, right)
                expect(paid, f"The list holds {each!r:.40}, to which this reward pays less than to the right answer.")
            if name != "exact":
                expect(found, "This reward has a hole, and your search did not find it.")


REWARDS = {
    "exact": (given.exact, "the right answer only"),
    "rises": (given.rises, "digits of the prompt that do not fall"),
    "same_digits": (given.same_digits, "the prompt's digits, each as often as there"),
    "in_place": (given.in_place, "each symbol in its place, and a little for each symbol"),
    "as_long": (given.as_long, "digits of the prompt that do not fall, as many as there"),
}


question(
    "what_a_cache_saves",
    """
    A model has read a prompt of 1,000 tokens and writes 1,000 more, one at a time. Without a cache, how many tokens does it read in all, and how many with one?

    a) 2,000 without, 1,000 with.
        Without a cache each new token makes the model read the whole text again: that adds up.
    *b) About 1.5 million without, about 2,000 with.
        Right: 1,000 texts of 1,500 tokens on average, against the prompt and each new token once. The price is memory: the keys and values of every token of every layer stay.
    c) The same: the cache only saves memory.
        The reverse: a cache takes memory, and saves computing.
    """,
)

question(
    "nothing_to_learn",
    """
    A prompt is so easy that all 16 answers to it are right. What does GRPO learn from this group?

    *a) Nothing: all advantages are 0.
        Right. So are they when all 16 are wrong. A group teaches only if some answers are better than others: choose prompts that the model sometimes solves.
    b) That all 16 were right: each becomes more likely.
        A reward of 1 is no better than the group's mean, which is 1.
    c) Too much: the deviation is 0, and the advantages are infinite.
        A careful program adds a small number to the deviation, so 0 is divided by that and stays 0.
    """,
)

question(
    "whose_logp",
    """
    Three log π of the same token: when it was written, now, and the reference's. Which changes from one gradient step to the next, on the same batch?

    a) All three.
        The answers were written by weights that no longer change, and the reference is frozen.
    b) The first two.
        `old_logp` came with the answer. Computed again at each step, it would make every ratio 1.
    *c) Only the one from now.
        Right: it alone has a gradient. The other two are numbers that came with the batch or from a frozen model.
    """,
)

question(
    "a_reward_that_rises",
    """
    In training the mean reward rises to 1. What do you know?

    a) The model solves the task.
        So it seemed above, with an empty answer.
    b) Nothing: rewards are noise.
        A mean over hundreds of answers is not noise. It says something, but not about the task.
    *c) The model has learned to get the reward.
        Right, and no more. Only another measure or a look at its answers can tell whether that is the task.
    """,
)
