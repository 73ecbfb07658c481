"""The judge's side of chapter 22."""

from itertools import product
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
        "`self.score(...)` gives a score for each address. Which ones must never be drawn, and what does a softmax make of a very low score?",
        '`scores.masked_fill(batch[Columns.OBS]["mask"] == 0, ...)` puts a number where the mask is 0. It must be far below every score, and finite.',
    ],
)
def masked(answer: Answer, rng: Generator) -> None:
    """Put a very low, finite score where the mask is 0, and leave the others as they are."""
    rows, seen, addresses = 7, int(rng.integers(9, 14)), int(rng.integers(5, 9))
    mask = (rng.random((rows, addresses)) < 0.5).astype(np.float32)
    mask[np.arange(rows), rng.integers(0, addresses, rows)] = 1
    mask[0], mask[1] = 1, 0  # in the morning, and when the day is over
    obs = rng.random((rows, seen), dtype=np.float32)
    for stretch, size in ((1.0, "small"), (200.0, "large")):
        with answer.case(f"{rows} observations, {addresses} addresses of which some still wait; {size} scores"):
            got = answer.probe(given.masked_scores, obs, mask, stretch, int(rng.integers(1, 10**6)))
            _judge_masked(got, mask)


def _judge_masked(got: given.MaskedScores, mask: np.ndarray) -> None:
    expect(len(got["scores"]) == 3, "It must return a dict with the scores under `Columns.ACTION_DIST_INPUTS`.")
    expect(
        got["left"] == 3 * [["mask", "seen"]],
        "Your method took something out of `batch`, and `compute_values` finds it empty afterwards.",
    )
    for scores in (got["plain"], *got["scores"].values()):
        expect(scores.shape == mask.shape, f"The scores have the shape {scores.shape}, not {mask.shape}.")
        expect(
            scores.dtype.kind == "f" and np.isfinite(scores).all(),
            "Some of your scores are infinite or NaN. Where nothing waits any more, a softmax of them is 0/0: take a finite number.",
        )
    allowed = mask.any(axis=1)
    want = _softmax(np.where(mask == 0, -np.inf, got["plain"])[allowed])
    for scores in got["scores"].values():
        chances = _softmax(scores.astype(float))[allowed]
        worst = float((chances * (mask[allowed] == 0)).max())
        expect(worst < 1e-6, f"An address that does not wait is chosen with a probability of {worst:.2g}.")
        expect_close(
            chances,
            want,
            "No masked address is chosen, but the probabilities of the others are not those that their own scores give.",
            atol=1e-5,
        )
    expect(
        got["slope"] is not None and 0 < got["slope"] < np.inf,
        "No usable gradient flows back to `self.score`: did `detach`, `no_grad` or NumPy cut it off?",
    )


def _softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Take the distribution from the module: `module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])`. It has a method `logp(actions)`.",
        "ε is `config.clip_param`, c is `config.vf_loss_coeff`; `module.compute_values(batch)` estimates the values.",
        "Compute a number for each row first. Then keep the rows that happened: `each[batch[Columns.LOSS_MASK]].mean()`.",
    ],
)
def own_loss(answer: Answer, rng: Generator) -> None:
    """A number for each row, the mean over the rows that happened, and the settings from the config."""
    # Long: it works out the loss and its slopes by itself, and what each common mistake makes of them.
    usual: dict[str, Any] = {"clip_param": 0.3, "vf_loss_coeff": 1.0}
    for rows_in, name in ((1, "one row"), (9, "nine rows, of which three are only there for the values")):
        rows = _rows(rng, rows_in)
        settings: dict[str, Any] = {
            "clip_param": round(float(rng.uniform(0.1, 0.5)), 3),
            "vf_loss_coeff": round(float(rng.uniform(0.2, 2)), 3),
        }
        with answer.case(f"{name}; {settings}"):
            got = answer.probe(given.own_loss_of, rows, settings)
            expect(got["kind"] == "Tensor", f"`own_loss` returned a {got['kind']}, not a tensor.")
            expect(
                got["shape"] in ([], [1]),
                f"`own_loss` returned a tensor of shape {got['shape']}: it must be one number.",
            )
            loss = got["loss"]
            expect_close(
                loss,
                _loss(rows, **settings),
                f"The loss came out as {loss:.5g}, and the formula gives another number.",
                1e-3,
                1e-5,
                mistakes={
                    "Rows that never happened count, too. `batch[Columns.LOSS_MASK]` is True for those that did.": _loss(
                        rows, **settings, without="mask"
                    ),
                    "The rows that count are added up, and the sum is divided by all rows.": _loss(
                        rows, **settings, without="real"
                    ),
                    "That is PPO's clipped loss. The task asks for another price for leaving the band.": _loss(
                        rows, **settings, without="spo"
                    ),
                    "The price for moving away from a ratio of 1 is missing.": _loss(rows, **settings, without="price"),
                    "The price uses the advantage with its sign, so moving away pays where it is negative.": _loss(
                        rows, **settings, without="abs"
                    ),
                    "The sign of the policy's part is wrong: a gain must make the loss smaller.": _loss(
                        rows, **settings, without="sign"
                    ),
                    "The critic's part is missing.": _loss(rows, **settings, without="values"),
                    "ε and c are not those of the config: read `config.clip_param` and `config.vf_loss_coeff`.": _loss(
                        rows, **usual
                    ),
                },
            )
            for part, slopes in (("scores", got["scores"]), ("values", got["values"])):
                expect(
                    slopes is not None,
                    f"No gradient flows from the loss to the {part}: did `detach`, `item` or NumPy cut it off?",
                )
                expect_close(
                    slopes,
                    _slopes(rows, part, settings),
                    f"The loss is right, and its gradient along the {part} is not: is a part of it cut off?",
                    rtol=2e-2,
                    atol=1e-4,
                )


def _rows(rng: Generator, count: int) -> dict[str, np.ndarray]:
    """Return a batch: ratios on both sides of the band; rows that never happened hold wild numbers."""
    real = np.ones(count, bool)
    if count > 1:
        real[rng.choice(count, count // 3, replace=False)] = False
    wild = np.where(real, 1, 50)
    scores = rng.normal(0, 1, (count, 4))
    actions = rng.integers(0, 4, count)
    logp = np.log(_softmax(scores))[np.arange(count), actions] - rng.uniform(0.2, 0.9, count) * rng.choice(
        [-1, 1], count
    )
    return {
        "scores": scores.astype(np.float32),
        "values": rng.normal(0, 1, count).astype(np.float32),
        "actions": actions,
        "action_logp": logp.astype(np.float32),
        "advantages": (rng.choice([-1, 1], count) * rng.uniform(0.3, 2, count) * wild).astype(np.float32),
        "value_targets": (rng.normal(0, 1, count) * wild).astype(np.float32),
        "loss_mask": real,
        "obs": rng.random((count, 1), dtype=np.float32),
    }


def _loss(rows: dict, clip_param: float, vf_loss_coeff: float, without: str = "") -> float:
    """Return the loss in NumPy; `without` leaves something out, as a mistake would."""
    picked = np.arange(len(rows["actions"])), rows["actions"]
    ratio = np.exp(np.log(_softmax(np.asarray(rows["scores"], float)))[picked] - rows["action_logp"])
    a = rows["advantages"].astype(float)
    price = (a if without == "abs" else np.abs(a)) / (2 * clip_param) * (ratio - 1) ** 2
    gain = ratio * a - (0 if without == "price" else price)
    if without == "spo":
        gain = np.minimum(ratio * a, np.clip(ratio, 1 - clip_param, 1 + clip_param) * a)
    miss = (rows["values"].astype(float) - rows["value_targets"]) ** 2
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
        "For a sequence of T observations, which observation stands before the first? And before each of the others?",
        '`torch.cat([batch[Columns.STATE_IN]["before"][:, None], obs[:, :-1]], dim=1)` has the shape [B, T, n].',
        'The state for later is the newest observation of each row, `obs[:, -1]`, in a dict under `"before"`.',
    ],
)
def remembers(answer: Answer, rng: Generator) -> None:
    """The state fills the first place of a sequence, and the last observation is the next state."""
    # Long: the same sequences are read whole and step by step, and each way to lose the state has its message.
    rows, length, numbers, actions = 3, int(rng.integers(4, 8)), int(rng.integers(2, 5)), int(rng.integers(2, 5))
    obs = rng.normal(0, 1, (rows, length, numbers)).astype(np.float32)
    before = rng.normal(0, 1, (rows, numbers)).astype(np.float32)
    weight = rng.normal(0, 1, (actions, 2 * numbers)).astype(np.float32)
    with answer.case(
        f"{rows} sequences of {length} observations, {numbers} numbers each, and a state for each sequence"
    ):
        got = answer.probe(given.remembered, obs, before, weight)
        expect(got["returned"] == "a dict", f"It must return a dict; it returned a {got['returned']}.")
        whole = got["whole"]
        if whole is None:
            raise Wrong(
                f'It must return ACTION_DIST_INPUTS, EMBEDDINGS, and STATE_OUT with a dict that holds "before"; the keys are {got["keys"]}.'
            )
        earlier = np.concatenate([before[:, None], obs[:, :-1]], axis=1)
        looks = np.concatenate([obs, earlier], axis=2)
        _judge_looks(whole["looks"], obs, before, looks)
        want = looks @ weight.T
        expect_close(whole["scores"], want, "The scores are not what `self.score` gives for both looks.", 1e-3, 1e-3)
        expect_equal(
            whole["state"].shape,
            [rows, numbers],
            "The state that comes out must have the shape of the one that goes in.",
        )
        expect_close(
            whole["state"],
            obs[:, -1],
            "The state that comes out is not the newest observation of each row.",
            atol=1e-5,
            mistakes={
                "The state that comes out is the one that went in: in the next step nothing new is remembered.": before,
                "The state that comes out is the first observation of each row. Which one will be *before* in the next step?": obs[
                    :, 0
                ],
            },
        )
        expect_close(
            got["steps"],
            np.split(want, length, axis=1),
            "Read step by step, as an EnvRunner does, a sequence gets other scores than read whole, as the learner does.",
            1e-3,
            1e-3,
        )


def _judge_looks(shown: np.ndarray, obs: np.ndarray, before: np.ndarray, looks: np.ndarray) -> None:
    expect(
        shown.shape == looks.shape,
        f"Both looks have the shape {shown.shape}; for observations [B, T, n] they have [B, T, 2n].",
    )
    n = obs.shape[2]
    expect_close(
        shown,
        looks,
        "The embeddings must hold the newest observation, then the one before it, for each step.",
        atol=1e-5,
        mistakes={
            "The order is the other way round: the newest observation comes first.": np.concatenate(
                [looks[..., n:], looks[..., :n]], -1
            ),
            "Every step of a sequence gets the state as the one before: only the first step should.": np.concatenate(
                [obs, np.broadcast_to(before[:, None], obs.shape)], -1
            ),
            "The first step of a sequence does not see the state: what an EnvRunner remembered is lost.": np.concatenate(
                [obs, np.concatenate([np.zeros_like(obs[:, :1]), obs[:, :-1]], 1)], -1
            ),
            "The newest observation stands there twice.": np.concatenate([obs, obs], -1),
        },
    )


@exercise(
    points=2,
    minutes=10,
    hints=[
        "The network returns a mean and the logarithm of a deviation for each number of the action: the first half are the means.",
        "A mean of −1 belongs to `space.low`, 1 to `space.high`, and what lies between in proportion. What lies outside is clipped.",
        "`unsquash_action(action, space)` from `ray.rllib.utils.spaces.space_utils` does the second part.",
    ],
)
def unsquash(answer: Answer, rng: Generator) -> None:
    """The mean of the distribution, stretched from −1 ... 1 to the space's range, and clipped there."""
    # Long: each wrong way from a mean to an action has its message.
    for numbers, bounded in ((1, True), (3, True), (2, False)):
        inputs = int(rng.integers(3, 6))
        obs = rng.uniform(-1, 1, (8, inputs)).astype(np.float32)
        weight = rng.normal(0, 0.8, (2 * numbers, inputs)).astype(np.float32)
        low = rng.uniform(-9, 9, numbers).astype(np.float32)
        high = low + rng.uniform(3, 50, numbers).astype(np.float32) if bounded else np.full(numbers, np.inf, np.float32)
        mean = obs @ weight[:numbers].T
        kind = "a space with bounds" if bounded else "a space without an upper bound"
        with answer.case(f"8 observations; {kind}, of {numbers} numbers"):
            got = answer.probe(given.unsquashed, obs, weight, low, high)
            shapes = {_shape(action) for action in got}
            expect_equal(
                shapes, {(numbers,)}, f"An action must have the shape [{numbers}], as the space; these have {shapes}."
            )
            _judge_actions(got, mean, obs @ weight[numbers:].T, low, high)


def _shape(action: object) -> tuple[int, ...]:
    """Return the shape of an array, the length of a list, and () for all else."""
    if isinstance(action, np.ndarray):
        return action.shape
    return (len(action),) if isinstance(action, list | tuple) else ()


def _judge_actions(got: list, mean: np.ndarray, rest: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    if np.isinf(high).any():
        expect_close(
            got,
            mean,
            "Without an upper bound there is no range to stretch to: RLlib hands the mean on as it is.",
            1e-3,
            1e-3,
        )
        return
    half = (high - low) / 2
    expect_close(
        got,
        np.clip(low + (mean + 1) * half, low, high),
        "Your actions are not those that RLlib would send. Which number of the network belongs to `low`, and which to `high`?",
        1e-3,
        1e-3,
        mistakes={
            "These are the network's means, between about −1 and 1: the environment's range is another.": mean,
            "These are the network's means, clipped to the range, and not stretched to it.": np.clip(mean, low, high),
            "Some of your actions lie outside the range of the environment.": low + (mean + 1) * half,
            "A mean of 0 came out as `low`: stretch from −1 ... 1, not from 0 ... 1.": np.clip(
                low + mean * 2 * half, low, high
            ),
            "That is the second half of the network's numbers: those are the deviations.": np.clip(
                low + (rest + 1) * half, low, high
            ),
        },
    )


@exercise(
    points=2,
    minutes=12,
    needs={"node": 3, "CPU": 5, "sim": 2},
    hints=[
        "Each of the nodes `west` and `east` has one `sim`. What must each EnvRunner ask for, so that no node has room for two?",
        "`.env_runners(num_env_runners=..., custom_resources_per_env_runner={...})`: what is in it counts for each runner.",
    ],
)
def two_nodes(answer: Answer, rng: Generator) -> None:
    """Two runners that each ask for the one simulator of a node cannot share a node, and do not fit on the head."""
    envs = int(rng.integers(2, 6))
    with answer.case(f"a config with {envs} environments in each runner; nodes: head, west and east"):
        got = answer.probe(given.placed, envs)
        expect(
            got["returned"] == "a config",
            f"The function returned a {got['returned']}. It must return the config, not built.",
        )
        expect(got["runners"] == 2, f"num_env_runners is {got['runners']}: one runner for each of the two nodes.")
        asks = {"CPU": got["num_cpus"], **got["resources"]}
        there = {"CPU": 2, "sim": 1}  # on west, and on east
        room = min((int(there.get(name, 0) // most) for name, most in asks.items() if most), default=2)
        places = sorted(got["stand_ins"])
        found = len(places)
        expect(
            found == 2,
            f"Each runner asks for {asks}, and of two only {found} found a node that has it. The other waits forever.",
        )
        expect(room < 2, f"Each runner asks for {asks}. West alone has room for {room} of them, so both may end there.")
        expect(
            places == ["east", "west"],
            f"Each runner asks for {asks}, and they went to {places[0]} and {places[1]}: what is there once on west, once on east, and not on the head?",
        )
        expect_equal(
            got["envs"], envs, f"Each runner would have {got['envs']} environments; leave that setting as it is."
        )


FAULTS = ("explore", "env_to_module", "module", "learner_connector", "lr")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Write one `if` for each of the five. Four of them need only one number of the transcript.",
        '`seen["logp gap"]` is large when the module answers the learner differently, *or* when the learner gets other observations. When can you blame the module?',
    ],
)
def diagnose(answer: Answer, rng: Generator) -> None:
    """Each number has one cause, but the gap in log π has two: blame the module only where the observations agree."""
    for flags in sorted(rng.permutation(list(product([False, True], repeat=5))).tolist(), key=sum):  # few faults first
        broken = dict(zip(FAULTS, flags, strict=True))
        seen = _transcript(rng, broken)
        if broken["env_to_module"]:
            broken["module"] = False  # nothing can be said of it yet
        want = {name for name, found in broken.items() if found}
        with answer.case(f"a transcript: {seen}"):
            said = answer(seen)
            _judge_names(said)
            got = set(said)
            made_up, missed, faults = sorted(got - want), len(want - got), len(want)
            expect(
                "module" not in made_up or not broken["env_to_module"],
                "You blame the module for the gap in log π. The learner gets other observations here than the module saw, which is reason enough.",
            )
            expect(
                not made_up, f"You name {made_up}, and the transcript shows nothing of the kind. Which number says so?"
            )
            expect(
                not missed,
                f"Not found: {missed} of {faults} faults. Go through the table row by row: which number of this transcript is not what it should be?",
            )


def _judge_names(said: Any) -> None:
    good = isinstance(said, list | tuple | set | frozenset | np.ndarray) and all(isinstance(name, str) for name in said)
    expect(good, f"Return a list of names; it returned {said!r:.60}.")
    strange = sorted(set(said) - set(FAULTS))
    expect(not strange, f"The list holds {strange}; the names are those in the first column of the table.")


def _transcript(rng: Generator, broken: dict[str, bool]) -> dict[str, float]:
    """Return the numbers that `transcript` would give for an algorithm with these faults."""
    gap = float(rng.uniform(0.05, 3)) if broken["env_to_module"] else float(rng.uniform(0, 1e-6))
    off = broken["env_to_module"] or broken["module"]
    flipped = rng.choice([-1.0, 0.0]) if broken["learner_connector"] else 1 - rng.uniform(1e-9, 1e-6)  # rounding
    return {
        "explored": 0.0 if broken["explore"] else round(float(rng.uniform(0.02, 0.8)), 3),
        "obs gap": gap,
        "logp gap": float(rng.uniform(0.05, 4)) if off else float(rng.uniform(0, 5e-6)),
        "rewards agree": float(flipped),
        "weights moved": float(rng.uniform(1e-9, 1e-7)) if broken["lr"] else float(rng.uniform(2e-3, 0.3)),
    }


question(
    "why_not_infinity",
    """
    A day ends when no address waits. The environments of an EnvRunner step together, so it asks the module once more before the next day begins, and throws that action away. What if all scores are minus infinity then?

    *a) Drawing the action raises an error: the softmax divides 0 by 0.
        Right: every probability is NaN. A large but finite negative number forbids as well, and leaves a softmax when all are forbidden.
    b) Nothing happens: the action is thrown away.
        It is thrown away after it was drawn, and there is nothing to draw from.
    c) Each address is drawn with a probability of 1/8.
        That is so with eight equal, finite scores.
    """,
)

question(
    "what_the_result_reports",
    """
    EnvRunners run in processes of their own, and a learner connector divides all rewards by 100. What happens to `episode_return_mean`?

    a) It is a hundredth of what it was.
        It would be if the environment, or a wrapper around it, divided them.
    *b) It stays: the EnvRunner reports it before the learner sees the episode.
        Right. That is why a learner connector is the place for rewards that only the learning needs.
    c) It is no longer reported.
        The EnvRunner reports it, and knows nothing of the learner's connectors.
    """,
)

question(
    "who_carries_the_state",
    """
    Ten environments run in an EnvRunner, and one of them ends its episode. What makes sure that the next episode starts with a fresh state?

    a) The module: it empties its memory.
        A module keeps nothing between two calls; all it knows comes with the batch.
    *b) A connector: it puts the initial state into the batch for an episode that has just begun.
        Right. For all others it takes the STATE_OUT of the last step, kept in the episode.
    c) The environment, in `reset`.
        It knows nothing of the module.
    """,
)

question(
    "what_a_lost_node_costs",
    """
    A trial saves a checkpoint after every second iteration. Its node dies during the sixth. Where does the trial continue if Tune may restart it?

    a) In the sixth iteration.
        The fifth was finished, but never saved.
    *b) In the fifth: its last checkpoint is of the fourth.
        Right. It trains one iteration a second time, and the half of the sixth is lost.
    c) In the first.
        It would without a checkpoint, or if the checkpoint had been on the disk of the lost node.
    """,
)
