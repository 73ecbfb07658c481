"""The judge's side of chapter 22."""

from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.given import ch22_inside_rllib as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import Wrong, expect, expect_close, expect_equal


@exercise(
    points=2,
    minutes=12,
    hints=[
        "`self.score(...)` returns a logit for each address. Which addresses must never be chosen, and what does a softmax make of a very low logit?",
        '`logits.masked_fill(batch[Columns.OBS]["mask"] == 0, number)` writes a number wherever the mask is 0. Choose one that is far below every logit, but finite: `torch.finfo(logits.dtype).min` is the lowest there is.',
    ],
)
def masked(answer: Answer, rng: Generator) -> None:
    """Put a very low, finite logit where the mask is 0, and leave the others as they are."""
    rows, seen, addresses = 14, int(rng.integers(9, 14)), int(rng.integers(5, 9))
    mask = (rng.random((rows, addresses)) < 0.5).astype(np.float32)
    mask[np.arange(rows), rng.integers(0, addresses, rows)] = 1
    mask[0], mask[1] = 1, 0  # all of them wait, and none of them
    obs = rng.random((rows, seen), dtype=np.float32)
    for stretch, size in ((1.0, "small"), (500.0, "large")):
        with answer.case(f"{rows} observations; {addresses} addresses, some of which still wait; {size} logits"):
            got = answer.probe(given.masked_scores, obs, mask, stretch, int(rng.integers(1, 10**6)))
            _judge_masked(got, mask)


def _judge_masked(got: given.MaskedScores, mask: np.ndarray) -> None:
    expect(len(got["scores"]) == 3, "It must return a dict with the logits under `Columns.ACTION_DIST_INPUTS`.")
    expect(
        got["unchanged"],
        "Your method removed something from the batch or wrote into it, and `compute_values` reads it afterward.",
    )
    for scores in (got["plain"], *got["scores"].values()):
        expect(scores.shape == mask.shape, f"The logits have the shape {scores.shape}, not {mask.shape}.")
        expect(
            scores.dtype.kind == "f" and np.isfinite(scores).all(),
            "Some of your logits are infinite or NaN, and all must be finite. If nothing waits, a softmax of nothing but minus infinity is NaN.",
        )
    allowed = mask.any(axis=1)
    want = _softmax(np.where(mask == 0, -np.inf, got["plain"])[allowed])
    for scores in got["scores"].values():
        chances = _softmax(scores.astype(float))[allowed]
        worst = float((chances * (mask[allowed] == 0)).max())
        expect(worst < 1e-6, f"An address that doesn't wait has a probability of {worst:.2g}.")
        expect_close(
            chances,
            want,
            "No masked address is chosen, but the probabilities of the others aren't those that the logits of `self.score` give.",
            atol=1e-5,
        )
    expect(
        got["slope"] is not None and 0 < got["slope"] < np.inf,
        "No usable gradient flows from your logits back to `self.score`. `detach`, `no_grad`, and NumPy cut it off.",
    )


def _softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Get the distribution from the module, `module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])`, and call its `logp` method with the actions.",
        "ε is `config.clip_param`, and c is `config.vf_loss_coeff`. `module.compute_values(batch)` returns the values $v_i$.",
        "First compute a number for each row, and then keep only the rows that happened: `each[batch[Columns.LOSS_MASK]].mean()`.",
    ],
    spare=["    return each.mean()"],
)
def own_loss(answer: Answer, rng: Generator) -> None:
    """Compute a number for each row with the settings of the config, and take the mean over the rows that happened."""
    # Long: it computes the loss and its gradients itself, and what each common mistake makes of them.
    usual: dict[str, Any] = {"clip_param": 0.3, "vf_loss_coeff": 1.0}
    for rows_in, name in ((1, "one row"), (9, "nine rows, three of which never happened")):
        rows = _rows(rng, rows_in)
        settings: dict[str, Any] = {
            "clip_param": round(float(rng.uniform(0.1, 0.5)), 3),
            "vf_loss_coeff": round(float(rng.uniform(0.2, 2)), 3),
        }
        with answer.case(f"{name}; {settings}"):
            got = answer.probe(given.own_loss_of, rows, settings)
            expect(got["kind"] == "Tensor", f"`own_loss` returned an object of type {got['kind']}, not a tensor.")
            expect(
                got["shape"] in ([], [1]),
                f"`own_loss` returned a tensor of shape {got['shape']}, but a loss is a single number.",
            )
            loss, want = got["loss"], _loss(rows, **settings)
            expect_close(
                loss,
                want,
                f"The loss came out as {loss:.5g}, but the formula gives {want:.5g}.",
                1e-3,
                1e-5,
                mistakes={
                    "Rows that never happened count, too. `batch[Columns.LOSS_MASK]` is True for the rows that happened.": _loss(
                        rows, **settings, without="mask"
                    ),
                    "The sum over the rows that happened is divided by the number of all rows.": _loss(
                        rows, **settings, without="real"
                    ),
                    "The penalty for moving away from a ratio of 1 is missing.": _loss(
                        rows, **settings, without="penalty"
                    ),
                    "That is PPO's clipped loss. The exercise asks for a penalty instead of the clip.": _loss(
                        rows, **settings, without="spo"
                    ),
                    "The penalty uses the advantage with its sign, so moving away from 1 pays off if the advantage is negative.": _loss(
                        rows, **settings, without="abs"
                    ),
                    "The sign of the policy's part is wrong: a gain must make the loss smaller.": _loss(
                        rows, **settings, without="sign"
                    ),
                    "The critic's part is missing.": _loss(rows, **settings, without="values"),
                    "The critic's squared error is clamped at `vf_clip_param`, as in PPO; the formula has no limit.": _loss(
                        rows, **settings, without="limit"
                    ),
                    "ε and c aren't those of the config: read `config.clip_param` and `config.vf_loss_coeff`.": _loss(
                        rows, **usual
                    ),
                },
            )
            for part, slopes in (("logits", got["scores"]), ("values", got["values"])):
                expect(
                    slopes is not None,
                    f"No gradient flows from the loss to the {part}: either the loss doesn't use these {part}, or something like `detach`, `item`, or NumPy cuts the gradient off.",
                )
                expect_close(
                    slopes,
                    _slopes(rows, "scores" if part == "logits" else part, settings),
                    f"The loss is right, but its gradient with respect to the {part} isn't: a part of the gradient is cut off.",
                    rtol=2e-2,
                    atol=1e-4,
                )


def _rows(rng: Generator, count: int) -> dict[str, np.ndarray]:
    """Return a batch with ratios on both sides of 1 ± ε and critic errors above PPO's limit; rows that never happened hold wild numbers."""
    real = np.ones(count, bool)
    if count > 1:
        real[rng.choice(count, count // 3, replace=False)] = False
    wild = np.where(real, 1, 50)
    scores = rng.normal(0, 1, (count, 4))
    actions = rng.integers(0, 4, count)
    logp = np.log(_softmax(scores))[np.arange(count), actions] - rng.uniform(0.2, 0.9, count) * rng.choice(
        [-1, 1], count
    )
    values = rng.normal(0, 1, count)
    misses = rng.choice([-1, 1], count) * np.where(rng.permutation(count) % 2, 1.0, rng.uniform(3.5, 5, count))
    return {
        "scores": scores.astype(np.float32),
        "values": values.astype(np.float32),
        "actions": actions,
        "action_logp": logp.astype(np.float32),
        "advantages": (rng.choice([-1, 1], count) * rng.uniform(0.3, 2, count) * wild).astype(np.float32),
        "value_targets": ((values + misses) * wild).astype(np.float32),
        "loss_mask": real,
        "obs": rng.random((count, 1), dtype=np.float32),
    }


def _loss(rows: dict, clip_param: float, vf_loss_coeff: float, without: str = "") -> float:
    """Return the loss, by NumPy; `without` leaves something out, as a mistake would."""
    picked = np.arange(len(rows["actions"])), rows["actions"]
    ratio = np.exp(np.log(_softmax(np.asarray(rows["scores"], float)))[picked] - rows["action_logp"])
    a = rows["advantages"].astype(float)
    penalty = (a if without == "abs" else np.abs(a)) / (2 * clip_param) * (ratio - 1) ** 2
    gain = ratio * a - (0 if without == "penalty" else penalty)
    if without == "spo":
        gain = np.minimum(ratio * a, np.clip(ratio, 1 - clip_param, 1 + clip_param) * a)
    miss = (rows["values"].astype(float) - rows["value_targets"]) ** 2
    miss = np.minimum(miss, 10) if without == "limit" else miss
    each = (gain if without == "sign" else -gain) + (0 if without == "values" else vf_loss_coeff * miss)
    if without == "real":
        return float((each * rows["loss_mask"]).mean())
    return float(each.mean() if without == "mask" else each[rows["loss_mask"]].mean())


def _slopes(rows: dict, part: str, settings: dict[str, Any]) -> np.ndarray:
    slopes, start = np.zeros(rows[part].shape), rows[part].astype(float)
    for place in np.ndindex(slopes.shape):
        nudge = np.zeros_like(slopes)
        nudge[place] = 1e-5
        ends = [_loss(rows | {part: start + sign * nudge}, **settings) for sign in (1, -1)]
        slopes[place] = (ends[0] - ends[1]) / 2e-5
    return slopes


@exercise(
    points=3,
    minutes=15,
    hints=[
        "In a sequence of T observations, what comes before the first one? And what comes before each of the others?",
        '`torch.cat([batch[Columns.STATE_IN]["before"][:, None], obs[:, :-1]], dim=1)` has the shape [B, T, n].',
        'The outgoing state is the last observation of each sequence, `obs[:, -1]`, in a dict under `"before"`.',
    ],
    spare=["    pairs = torch.cat([earlier, obs], dim=-1)"],
)
def remembers(answer: Answer, rng: Generator) -> None:
    """The incoming state precedes the first observation of a sequence, and the last observation is the outgoing state."""
    # Long: the same sequences are read whole and step by step, and each way to lose the state has its own message.
    rows, length, numbers, actions = 3, int(rng.integers(4, 8)), int(rng.integers(2, 5)), int(rng.integers(2, 5))
    obs = rng.normal(0, 1, (rows, length, numbers)).astype(np.float32)
    before = rng.normal(0, 1, (rows, numbers)).astype(np.float32)
    weight = rng.normal(0, 1, (actions, 2 * numbers)).astype(np.float32)
    with answer.case(
        f"{rows} sequences of {length} observations with {numbers} numbers each, and a state for each sequence"
    ):
        got = answer.probe(given.remembered, obs, before, weight)
        expect(
            got["returned"] == "a dict", f"It must return a dict, but it returned an object of type {got['returned']}."
        )
        whole, keys = got["whole"], got["keys"]
        expect(
            {"action_dist_inputs", "embeddings", "state_out"} <= set(keys),
            f"The dict must have the entries ACTION_DIST_INPUTS, EMBEDDINGS, and STATE_OUT. Your dict has the keys {keys}.",
        )
        if whole is None:
            raise Wrong('The entry STATE_OUT must be a dict with the key "before".')
        earlier = np.concatenate([before[:, None], obs[:, :-1]], axis=1)
        pairs = np.concatenate([obs, earlier], axis=2)
        _judge_pairs(whole["pairs"], obs, before, pairs)
        want = pairs @ weight.T
        expect_close(
            whole["scores"], want, "The logits aren't what `self.score` returns for your embeddings.", 1e-3, 1e-3
        )
        expect_equal(
            whole["state"].shape,
            [rows, numbers],
            "The outgoing state must have the shape of the incoming one.",
        )
        expect_close(
            whole["state"],
            obs[:, -1],
            "The outgoing state isn't the last observation of each sequence.",
            atol=1e-5,
            mistakes={
                "The outgoing state is the incoming one, so the module never remembers anything new.": before,
                "The outgoing state is the first observation of each sequence, but the next step needs the last one.": obs[
                    :, 0
                ],
            },
        )
        expect_close(
            got["steps"],
            np.split(want, length, axis=1),
            "Read step by step, as in an EnvRunner, a sequence gets different logits than when it's read as a whole, as in the Learner.",
            1e-3,
            1e-3,
        )


def _judge_pairs(shown: np.ndarray, obs: np.ndarray, before: np.ndarray, pairs: np.ndarray) -> None:
    expect(
        shown.shape == pairs.shape,
        f"The embeddings have the shape {shown.shape}; for observations [B, T, n], they must have [B, T, 2n], here {pairs.shape}.",
    )
    n = obs.shape[2]
    expect_close(
        shown,
        pairs,
        "For each step, the embeddings must hold the current observation and then the previous one.",
        atol=1e-5,
        mistakes={
            "The order is reversed: the current observation must come first.": np.concatenate(
                [pairs[..., n:], pairs[..., :n]], -1
            ),
            "Every step of a sequence gets the incoming state as its previous observation, but only the first step should.": np.concatenate(
                [obs, np.broadcast_to(before[:, None], obs.shape)], -1
            ),
            "The first step of a sequence doesn't get the incoming state, so what the EnvRunner remembered is lost.": np.concatenate(
                [obs, np.concatenate([np.zeros_like(obs[:, :1]), obs[:, :-1]], 1)], -1
            ),
            "The embeddings hold the current observation twice.": np.concatenate([obs, obs], -1),
        },
    )


@exercise(
    points=2,
    minutes=10,
    hints=[
        "The network returns a mean and the logarithm of a standard deviation for each number of the action. The means are the first half.",
        "A mean of −1 becomes `space.low`, 1 becomes `space.high`, and the values between are interpolated linearly. Clip what lies outside. Before all that, check whether the space is bounded.",
        "`unsquash_action(action, space)` from `ray.rllib.utils.spaces.space_utils` rescales and clips a mean, and it leaves an action alone if a bound is infinite.",
    ],
    spare=["    return np.clip(mean, space.low, space.high)"],
)
def unsquash(answer: Answer, rng: Generator) -> None:
    """Map the mean from −1 ... 1 to the space's range and clip it there, unless a bound is infinite."""
    # Long: each wrong way from a mean to an action has its own message.
    for numbers, kind in (
        (1, "bounded"),
        (3, "bounded"),
        (2, "without one of the upper bounds"),
        (2, "without one of the lower bounds"),
    ):
        inputs = int(rng.integers(3, 6))
        obs = rng.uniform(-1, 1, (8, inputs)).astype(np.float32)
        weight = rng.normal(0, 0.8, (2 * numbers, inputs)).astype(np.float32)
        low = rng.uniform(0.5, 9, numbers).astype(np.float32)
        high = low + rng.uniform(3, 50, numbers).astype(np.float32)
        open_end = int(rng.integers(numbers))
        if "upper" in kind:
            high[open_end] = np.inf
        if "lower" in kind:
            low[open_end] = -np.inf
        with answer.case(f"8 observations; a space with {numbers} numbers, {kind}"):
            got = answer.probe(given.unsquashed, obs, weight, low, high)
            count = len(got)
            expect(count == 8, f"There were 8 observations, and {count} actions came back.")
            shapes = {_shape(action) for action in got}
            expect_equal(
                shapes, {(numbers,)}, f"An action must have the shape of the space, [{numbers}]; yours have {shapes}."
            )
            _judge_actions(got, obs @ weight[:numbers].T, obs @ weight[numbers:].T, low, high)


def _shape(action: object) -> tuple[int, ...]:
    """Return the shape of an array, the length of a list, and () for anything else."""
    if isinstance(action, np.ndarray):
        return action.shape
    return (len(action),) if isinstance(action, list | tuple) else ()


def _worst(got: list, want: np.ndarray) -> int:
    """Return the row in which both differ most."""
    return int(np.nan_to_num(np.abs(np.asarray(got, float) - want), nan=np.inf).max(axis=1).argmax())


def _short(numbers: Any) -> list[float]:
    return np.round(np.asarray(numbers, float), 3).tolist()


def _judge_actions(got: list, mean: np.ndarray, rest: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    open_ends = ~np.isfinite(high - low)
    if open_ends.any():
        worst = _worst(got, mean)
        sent, returned = _short(mean[worst]), _short(got[worst])
        start, half = np.where(open_ends, 0, low), np.where(open_ends, 0, (high - low) / 2)
        partly = np.where(open_ends, mean, np.clip(start + (mean + 1) * half, low, high))
        expect_close(
            got,
            mean,
            f"A bound is infinite, so RLlib leaves the means unchanged. For {sent}, you returned {returned}.",
            1e-3,
            1e-3,
            mistakes={
                "You rescaled the numbers whose bounds are finite. If any bound is infinite, RLlib leaves the whole action unchanged.": partly,
                "You clipped the action. If any bound is infinite, RLlib leaves the whole action unchanged.": np.clip(
                    mean, low, high
                ),
            },
        )
        return
    half = (high - low) / 2
    want = np.clip(low + (mean + 1) * half, low, high)
    worst = _worst(got, want)
    sent, wanted, returned = _short(mean[worst]), _short(want[worst]), _short(got[worst])
    least, most = _short(low), _short(high)
    expect_close(
        got,
        want,
        f"For a mean of {sent} and bounds from {least} to {most}, RLlib sends {wanted}, and you returned {returned}.",
        1e-3,
        1e-3,
        mistakes={
            "Your actions are the network's means, which aren't in the environment's units yet.": mean,
            "You clipped the network's means to the range without rescaling them first.": np.clip(mean, low, high),
            "Some of your actions are outside the bounds of the space.": low + (mean + 1) * half,
            "A mean of 0 came out as `low`: rescale from −1 ... 1, not from 0 ... 1.": np.clip(
                low + mean * 2 * half, low, high
            ),
            "You used the second half of the network's numbers, the logarithms of the standard deviations.": np.clip(
                low + (rest + 1) * half, low, high
            ),
        },
    )


@exercise(
    points=2,
    minutes=12,
    needs={"node": 3, "CPU": 5, "sim": 2},
    hints=[
        "The nodes `west` and `east` have one `sim` each. What must each EnvRunner request so that no node has room for two?",
        "Call `config.env_runners(num_env_runners=..., custom_resources_per_env_runner={...})`. Each EnvRunner requests what the dict says.",
    ],
)
def two_nodes(answer: Answer, rng: Generator) -> None:
    """Two EnvRunners that each request a node's only simulator can't share a node, and can't run on the head."""
    envs = int(rng.integers(2, 6))
    with answer.case(f"a config with {envs} environments per EnvRunner; nodes: head, west, and east"):
        got = answer.probe(given.placed, envs)
        expect(
            got["returned"] == "a config",
            f"The function returned an object of type {got['returned']}. It must return the config, before it's built.",
        )
        expect(
            got["runners"] == 2, f"`num_env_runners` is {got['runners']}, but the two nodes need one EnvRunner each."
        )
        asks = {"CPU": got["num_cpus"], **got["resources"]}
        there = {"CPU": 2, "sim": 1}  # on west, and on east
        room = min((int(there.get(name, 0) // most) for name, most in asks.items() if most), default=2)
        places = sorted(got["stand_ins"])
        found = len(places)
        expect(
            found == 2,
            f"Each EnvRunner requests {asks}, and {found} of the two found a node within 15 seconds. A request that no node can satisfy waits forever. If `west` and `east` can satisfy this one, look for other actors that hold their resources, and check again.",
        )
        expect(
            room < 2, f"Each EnvRunner requests {asks}, so `west` has room for {room} of them, and both may run there."
        )
        expect(
            places == ["east", "west"],
            f"Each EnvRunner requests {asks}, and the two ran on {places[0]} and {places[1]}. Request something of which `west` and `east` have one each and the head has none.",
        )
        expect_equal(
            got["envs"],
            envs,
            f"Each EnvRunner would have {got['envs']} environments instead of {envs}. Leave that setting unchanged.",
        )


FAULTS = ("explore", "env_to_module", "module", "learner_connector", "vf_clip_param", "lr")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Write an `if` for each of the six rows of the table. Five of them need only one number of the transcript.",
        '`seen["logp gap"]` is large if the module computes different logits in the Learner, *or* if the Learner gets different observations. When can you blame the module?',
    ],
)
def diagnose(answer: Answer, rng: Generator) -> None:
    """Each number shows one fault, but a gap in log π can have two causes: blame the module only if the observations agree."""
    groups = [set(names) for size in (0, 1, 2, len(FAULTS)) for names in combinations(FAULTS, size)]
    cases = [*product(groups, (False, True))]  # clearly healthy or not, and at the limits
    for broken, narrow in map(cases.__getitem__, rng.permutation(len(cases))):
        seen = _transcript(rng, broken, narrow)
        want = broken - ({"module"} if "env_to_module" in broken else set())  # nothing can be said about it
        with answer.case(f"a transcript: {seen}"):
            said = answer(seen)
            _judge_names(said)
            made_up, missed, faults = sorted(set(said) - want), len(want - set(said)), len(want)
            expect(
                "module" not in made_up or "env_to_module" not in broken,
                "You blame the module for the gap in log π, but the Learner gets different observations from those that the module acted on. That alone explains the gap.",
            )
            expect(not made_up, f"You name {made_up}, but according to the table, the transcript shows no such fault.")
            expect(not missed, f"Your list lacks {missed} of {faults} faults. Compare each number with the table.")


def _judge_names(said: Any) -> None:
    good = isinstance(said, list | tuple | set | frozenset | np.ndarray) and all(isinstance(name, str) for name in said)
    expect(good, f"It must return a list of names, but it returned {said!r:.60}.")
    strange = sorted(set(said) - set(FAULTS))
    expect(not strange, f"The list contains {strange}. The names of the faults are in the last column of the table.")


def _transcript(rng: Generator, broken: set[str], narrow: bool) -> dict[str, float]:
    """Return the numbers of an algorithm with these faults; the narrow ones lie on the limits, or just beyond.

    A correlation isn't exactly on its limit, because 1 - 0.999 > 0.001 in floating point.
    """

    def number(fault: str, healthy: list[float], faulty: list[float]) -> float:
        clear, close = faulty if fault in broken else healthy
        return close if narrow else clear

    explained = {"env_to_module", "module"} & broken
    small = [float(rng.uniform(0, 1e-6)), 1e-4]
    large = [float(rng.uniform(0.05, 3)), float(rng.uniform(1.1e-4, 2e-4))]
    agree = [1 - float(rng.uniform(1e-9, 1e-6)), float(rng.uniform(0.9991, 0.9995))]
    turned = [float(rng.choice([-1.0, 0.0])), float(rng.uniform(0.99, 0.998))]
    return {
        "explored": number("explore", [round(float(rng.uniform(0.02, 0.8)), 3), 0.003], [0.0, 0.0]),
        "obs gap": number("env_to_module", small, large),
        "logp gap": (large if explained else small)[narrow],
        "rewards agree": number("learner_connector", agree, turned),
        "clamped": number("vf_clip_param", [0.0, 0.1], [round(float(rng.uniform(0.3, 1)), 3), 0.11]),
        "weights moved": number("lr", [float(rng.uniform(2e-3, 0.3)), 1e-6], [float(rng.uniform(1e-9, 1e-8)), 9e-7]),
    }


question(
    "why_not_infinity",
    """
    A day ends when no address waits. Before the next day starts, RLlib runs the module on the last observation, samples an action, and ignores it. What happens if all logits are minus infinity then?

    *a) Sampling the action raises an error, because the softmax divides 0 by 0.
        Right: every probability is NaN. A large but finite negative number makes an action just as impossible, and the softmax still works if all actions are masked.
    b) Nothing happens, because the action is ignored.
        It's ignored after it has been sampled, and NaN can't be sampled from.
    c) Each address is chosen with a probability of 1/8.
        That would be so with eight equal, finite logits.
    """,
)

question(
    "what_the_result_reports",
    """
    The EnvRunners run in separate processes, and a learner connector divides all rewards by 100. What happens to `episode_return_mean`?

    a) It's a hundredth of what it was.
        It would be if the environment, or a wrapper around it, divided the rewards.
    *b) It doesn't change, because the EnvRunner computes it before the learner gets the episode.
        Right. That's why a learner connector is the place to change rewards only for learning.
    c) It's no longer reported.
        The EnvRunner reports it, and the learner's connectors run in another process.
    """,
)

question(
    "who_carries_the_state",
    """
    Ten environments run in an EnvRunner, and one of them ends its episode. What makes sure that the next episode starts with a fresh state?

    a) The module does: it empties its memory.
        The module stores nothing between two calls. The state comes with the batch.
    *b) A connector does: for an episode that has just started, it puts the initial state into the batch.
        Right. For all other episodes, it puts in the last STATE_OUT, which is stored in the episode.
    c) The environment does, in `reset`.
        The environment has no access to the module or its state.
    """,
)

question(
    "what_a_lost_node_costs",
    """
    A trial saves a checkpoint after every second iteration, to a shared disk. Its node dies during the sixth iteration. If Tune may restart the trial, where does it continue?

    a) In the sixth iteration.
        The fifth was finished, but it was never saved.
    *b) In the fifth iteration, because the last checkpoint is from the fourth.
        Right. It runs the fifth iteration a second time, and the half-finished sixth is lost.
    c) In the first iteration.
        It would if there were no checkpoint, or if the checkpoint had been on the lost node's disk.
    """,
)
