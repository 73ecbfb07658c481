"""The judge's side of chapter 15."""

from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.answer import NOT_PLAIN, Answer, Raised
from coursekit.exercise import agree, exercise, expect, expect_close, expect_equal, quiz
from coursekit.given import ch15_offline as given

COLUMNS = ["eps_id", "t", "obs", "actions", "rewards", "new_obs", "terminateds", "truncateds"]


@exercise(
    points=3,
    minutes=20,
    hints=[
        "One list of rows for all episodes. Inside the loop over the steps: which of the observations does a row hold as `obs`, which as `new_obs`?",
        "An environment may write each observation into the same array. Keep a copy: `obs.copy()`.",
        "`ray.data.from_items(rows)` cuts the rows into up to 200 pieces, and each becomes a file; `override_num_blocks=files` makes fewer.",
    ],
)
def record(answer: Answer, rng: Generator) -> None:
    """A row says what was seen, what was done, what came of it, and to which episode it belongs."""
    ends = rng.permutation(["terminated", "truncated", "terminated"]).tolist()
    lengths = [int(steps) for steps in rng.permutation([3, 5, 7])]
    tape = [
        {
            "obs": rng.permutation(np.linspace(-8, 8, 3 * steps + 3)).reshape(steps + 1, 3).astype(np.float32),
            "rewards": rng.uniform(0.5, 2, size=steps).round(3).tolist(),
            "end": end,
        }
        for steps, end in zip(lengths, ends, strict=True)
    ]
    files = int(rng.integers(2, 4))
    got = answer.probe(given.recorded, tape, files)
    _judge_files(got, files, f"Three episodes of {lengths} steps were to be written as {files} files. ")
    rows = got["rows"]
    expect(
        len(rows) == sum(lengths), f"Episodes of {lengths} steps are {sum(lengths)} rows; the files hold {len(rows)}."
    )
    names = [row["eps_id"] for row in rows]
    expect(
        sorted(names.count(name) for name in set(names)) == sorted(lengths),
        f"Three episodes of {lengths} steps; by `eps_id`, the log has episodes of {[names.count(name) for name in set(names)]} steps.",
    )
    for name in sorted(set(names)):
        own = sorted((row for row in rows if row["eps_id"] == name), key=lambda row: row["t"])
        episode = next(episode for episode in tape if len(episode["rewards"]) == len(own))
        for step, row in enumerate(own):
            _judge_row(row, step, episode, [each["obs"][-1].tolist() for each in tape])


def _judge_files(got: dict, files: int, told: str) -> None:
    """Check that there are so many Parquet files, with the columns that RLlib reads."""
    count = got["files"].count(".parquet")
    expect(count > 0, told + f"In the folder lie {len(got['files'])} files, and no Parquet file.")
    expect(count == files, told + f"There are {count}.")
    for columns in got["columns"]:
        missing, more = sorted(set(COLUMNS) - set(columns)), sorted(set(columns) - set(COLUMNS))
        also = f" There are others that the table does not name: {more}." if more else ""
        expect(not missing, f"Columns that a file lacks: {missing}.{also}")


def _judge_row(row: dict, step: int, episode: dict, last_seen: list) -> None:
    last, steps = step == len(episode["rewards"]) - 1, len(episode["rewards"])
    told = f"Step {step} of an episode of {steps} steps that was {episode['end']}: "
    expect_equal(row["t"], step, told + f"`t` is {row['t']}.")
    before, after = episode["obs"][step].tolist(), episode["obs"][step + 1].tolist()
    for name, seen in [("obs", before), ("new_obs", after)]:
        said = told + f"the operator saw {_short(before)}, and then {_short(after)}. `{name}` is {_short(row[name])}."
        if any(agree(row[name], end, atol=1e-5) for end in last_seen):
            said += " That was seen at the very end of an episode: is it the simulator's own array, or a copy?"
        expect_close(row[name], seen, said, atol=1e-5)
    action = given.tape_action(episode["obs"][step])
    expect_equal(row["actions"], action, told + f"the operator did {action}; `actions` is {row['actions']}.")
    reward = episode["rewards"][step]
    expect_close(row["rewards"], reward, told + f"it earned {reward}; `rewards` is {row['rewards']}.", atol=1e-5)
    ends = [last and episode["end"] == end for end in ("terminated", "truncated")]
    got = [row["terminateds"], row["truncateds"]]
    expect_equal(got, ends, told + f"`terminateds` and `truncateds` are {got}.")


def _short(numbers: Any) -> str:
    """Return an observation with two places; whatever else stands there, as it is."""
    plain = isinstance(numbers, list) and all(isinstance(number, (int, float)) for number in numbers)
    return str([round(number, 2) for number in numbers] if plain else numbers)


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Decide about episodes first, then look up each row's episode: `np.isin(eps_ids, chosen)`.",
        "`np.unique` gives every episode once, sorted, whatever the order of the rows.",
    ],
)
def hold_out(answer: Answer, rng: Generator) -> None:
    """Draw episodes, not rows: what is tested must not be a neighbour of what was learned."""
    for share in (0.25, 0.33, 0.12, 0.5):  # of 20: 6.6 and 2.4 tell rounding from cutting off, and from rounding up
        ids = rng.choice(10_000, size=20, replace=False)
        lengths = rng.integers(1, 60, size=20)
        eps_ids = np.repeat(ids, lengths)
        seed = int(rng.integers(1000))
        mask = _mask(_array(answer, eps_ids, share, seed), len(eps_ids))
        told = f"{len(eps_ids)} rows of 20 episodes, share={share}: "
        split = [int(name) for name in ids if 0 < mask[eps_ids == name].mean() < 1]
        expect(not split, told + f"{len(split)} episodes are cut in two, some rows held out and others not.")
        out = {int(name) for name in eps_ids[mask]}
        wanted = round(share * 20)
        expect(len(out) == wanted, told + f"{len(out)} episodes are held out, and {wanted} are asked for.")
        order = rng.permutation(len(eps_ids))
        mask = _mask(_array(answer, eps_ids[order], share, seed), len(eps_ids))
        again = {int(name) for name in eps_ids[order][mask]}
        expect(
            again == out,
            told + "the same rows came in another order, with the same seed, and other episodes were held out.",
        )
    draws = {
        frozenset(eps_ids[_mask(_array(answer, eps_ids, 0.4, seed + more), len(eps_ids))].tolist())
        for more in range(1, 5)
    }
    expect(len(draws) > 1, "Four other seeds held out the same episodes: `seed` must make a difference.")


def _array(answer: Answer, *args: object) -> np.ndarray:
    """Return the array that the answer gives for these arguments; whatever else comes back is refused."""
    try:
        got = answer(*args)
    except Raised as raised:  # a Series, for example
        expect(raised.kind != NOT_PLAIN, f"It must return an array. {raised.message}")
        raise
    expect(isinstance(got, np.ndarray), f"It must return an array; this is a {type(got).__name__}.")
    return np.asarray(got)


def _mask(mask: np.ndarray, rows: int) -> np.ndarray:
    expect(
        mask.shape == (rows,) and mask.dtype == bool,
        f"It must return {rows} times True or False, one for each row; this is an array of {mask.dtype}, shape {mask.shape}.",
    )
    return mask


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`for batch in rows.iter_torch_batches(batch_size=128, local_shuffle_buffer_size=2000):` is one time through the log; `batch` is a dict of tensors.",
        "Two scores for each row, and the number of the right one: that is what `nn.functional.cross_entropy(scores, actions)` is for.",
        "Each batch: loss, `optimiser.zero_grad()`, `loss.backward()`, `optimiser.step()`. After the last epoch, return the network.",
    ],
)
def clone(answer: Answer, rng: Generator) -> None:
    """Ask the network what the teacher would do, and move it towards what the teacher did."""
    told = "The log of an expert, on a crane that is wired differently. "
    look = "Print the loss of each epoch: does it fall?"
    _learns(answer, rng, "expert", epochs=8, target=450, agreement=0.75, told=told, look=look)
    corners = rng.permutation([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], axis=1)
    places = (corners * rng.uniform(0.5, 2, size=4) * rng.choice([-1, 1], size=4)).astype(np.float32)
    pushes = np.array([place % 4 < (1 if place < 8 else 3) for place in range(16)]).reshape(4, 4)[rng.permutation(4)]
    said = np.asarray(answer.probe(given.probabilities, places, pushes.astype(int), int(rng.integers(1_000_000)), 8))
    sure, shares = np.abs(said - 0.5).mean() + 0.5, pushes.mean(axis=1)
    expect(
        sure < 0.75 + 0.12,
        "A log whose operators do not agree: of four observations, each seen 400 times, the shares of the action 1 are "
        f"{shares.tolist()}; your network gives it the probabilities {said.round(2).tolist()}: it is too sure. "
        "What does `cross_entropy` expect as its first argument?",
    )


@exercise(
    points=2,
    minutes=15,
    hints=[
        "Go through the rows from the largest `t` to the smallest: `np.argsort(-t)`. What comes after a row is then known already.",
        "A dict keeps for each episode what its later rows earned: `after[eps] = reward + gamma * after.get(eps, 0.0)`.",
        "Advantage: return-to-go minus its mean, divided by its standard deviation. Weight: `np.exp(beta * advantage)`, divided by the mean weight.",
    ],
)
def weights(answer: Answer, rng: Generator) -> None:
    """What an action led to is the sum of what came after it, in its own episode; `exp` makes of better more."""
    for shuffled in (False, True):
        lengths = [int(steps) for steps in rng.permutation([4, 9, 6, 2])]
        eps_ids = np.repeat(rng.choice(1000, size=4, replace=False), lengths)
        t = np.concatenate([np.arange(steps) for steps in lengths])
        rewards = rng.uniform(-1, 3, size=len(t)).round(2)
        gamma, beta = (round(float(rng.uniform(*ends)), 2) for ends in [(0.6, 0.95), (0.5, 2)])
        togo = _discounted(eps_ids, rewards, gamma)
        want = _weigh(togo, beta)
        order = rng.permutation(len(t)) if shuffled else np.arange(len(t))
        got = _array(answer, eps_ids[order], t[order], rewards[order], gamma, beta).astype(float)
        told = f"Four episodes of {lengths} steps, rows {'in any order' if shuffled else 'in order'}, gamma {gamma}, beta {beta}. "
        expect(got.shape == want.shape, told + f"{len(want)} rows need as many weights; yours have shape {got.shape}.")
        expect(abs(got.mean() - 1) < 1e-6, told + f"The mean of the weights should be 1; it is {got.mean():.4g}.")
        place = int(np.argmax(np.abs(got - want[order])))
        told += f"The row with eps_id {eps_ids[order][place]}, t {t[order][place]} got the weight {got[place]:.4g}, "
        told += f"and should have {want[order][place]:.4g}."
        for slip, weighed in _slips(eps_ids, t, rewards, gamma, beta).items():
            told += f" So it is if {slip}." if agree(got, weighed[order], rtol=1e-6) else ""
        told += " With the rows in order it was right." if shuffled else ""
        expect_close(got, want[order], told, rtol=1e-6, atol=1e-9)


def _discounted(eps_ids: np.ndarray, rewards: np.ndarray, gamma: float) -> np.ndarray:
    """Return for each row, in order, what came after it in its episode, itself included."""
    togo = np.zeros(len(rewards))
    for row in reversed(range(len(rewards))):
        goes_on = row + 1 < len(rewards) and eps_ids[row + 1] == eps_ids[row]
        togo[row] = rewards[row] + (gamma * togo[row + 1] if goes_on else 0.0)
    return togo


def _weigh(values: np.ndarray, beta: float, ddof: int = 0) -> np.ndarray:
    weight = np.exp(beta * (values - values.mean()) / values.std(ddof=ddof))
    return np.asarray(weight / weight.mean())


def _slips(eps_ids: np.ndarray, t: np.ndarray, rewards: np.ndarray, gamma: float, beta: float) -> dict:
    """Return the weights, rows in order, that come of mistakes often made, by what the mistake is."""
    togo, by_t = _discounted(eps_ids, rewards, gamma), np.lexsort((np.arange(len(t)), -t))
    from_start = togo * gamma**t
    before = _discounted(eps_ids[::-1], rewards[::-1], gamma)[::-1]
    mixed_up = np.zeros(len(t))
    mixed_up[by_t] = _discounted(eps_ids * 0, rewards[by_t][::-1], gamma)[::-1]
    wholes = [np.array([each[eps_ids == name].sum() for name in eps_ids]) for each in (rewards, rewards * gamma**t)]
    return {
        "one episode runs on into the next": _weigh(_discounted(eps_ids * 0, rewards, gamma), beta),
        "all rows share one running sum": _weigh(mixed_up, beta),
        "the discount counts from the start of the episode, and not from the row": _weigh(from_start, beta),
        "every row has the return of its whole episode": _weigh(wholes[0], beta),
        "every row has the discounted return of its whole episode": _weigh(wholes[1], beta),
        "a row has what came before it": _weigh(before, beta),
        "the standard deviation divides by one row less": _weigh(togo, beta, ddof=1),
    }


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`frame = rows.to_pandas()` is the whole log. `weights(...)` wants columns of it as arrays: `frame['eps_id'].to_numpy()`.",
        "Put the weights into the frame as a column; `ray.data.from_pandas(frame)` is a dataset again.",
        "`cross_entropy(..., reduction='none')` gives one loss for each row. Weigh these, then take the mean.",
        "Weights must tell the one from the other: try a `beta` of 3.",
    ],
)
def beats_the_teacher(answer: Answer, rng: Generator) -> None:
    """Imitate what ended well more than what did not: the clone then follows the few who can do it."""
    told = "The log of 250 novices and 3 episodes of an expert, mean return about 50, on a crane that is wired differently. "
    look = "Whom does it follow, the 250 novices or the 3 episodes of the expert? Print the share of the weight that each group has."
    _learns(answer, rng, "mixed", epochs=8, target=450, agreement=0.7, told=told, look=look)


def _learns(
    answer: Answer, rng: Generator, shift: str, *, epochs: int, target: float, agreement: float, told: str, look: str
) -> None:
    """Train from up to three seeds; pass at the first whose actions, played again here, earn the target."""
    for _ in range(3):
        seed = int(rng.integers(1_000_000))
        asked = _states(seed)
        wiring = _wiring(rng, asked)
        got = answer.probe(given.trained, shift, wiring, seed, epochs, asked)
        expect(
            got["returned"] == "a network",
            f"It must return the trained network; what came back is of type {got['returned']}.",
        )
        scores, played = np.asarray(got["scores"]), got["played"]
        expect(
            scores.shape == (len(asked), 2), f"For {len(asked)} observations the network gave scores {scores.shape}."
        )
        same = float(np.mean(scores.argmax(1) ^ wiring["swap"] == given.expert(asked)))
        expect(
            same >= agreement,
            told
            + f"In states that the expert met, your network does what the expert does in {same:.0%} of them. "
            + "(Half of these are chosen so that a novice would do something else.) "
            + look,
        )
        earned = [given.replayed(actions, seed + 1000 + number) for number, actions in enumerate(played)]
        if len(earned) == 3 and np.mean(earned) >= target:
            return
    expect(
        False,
        told
        + f"The mean return should be {target:.0f} or more. In none of three trainings it was; after the last, your network "
        + f"played returns of {earned}. Did it go through the whole log as often as `epochs` says?",
    )


def _wiring(rng: Generator, asked: np.ndarray) -> dict:
    """Return how the cables of a crane are swapped: so that nobody who ignores the log does what the expert does."""
    while True:
        wiring = {
            "order": rng.permutation(4).tolist(),
            "signs": rng.choice([-1.0, 1.0], size=4).tolist(),
            "swap": int(rng.integers(2)),
        }
        by_heart = given.expert(given.wired(asked, wiring)) ^ wiring["swap"]
        if np.mean(by_heart == given.expert(asked)) < 0.5:
            return wiring


def _states(seed: int) -> np.ndarray:
    """Return states that an expert meets on the way, shape [B, 4]: those in which the novice does something else, and as many others."""
    obs = np.concatenate([np.array(episode["obs"]) for episode in given.play(given.expert, [seed + 5000, seed + 5001])])
    contested = given.expert(obs) != given.novice(obs)
    return np.concatenate([obs[contested], obs[~contested][: contested.sum()]])


quiz(
    "what_is_offline",
    """
    PPO learns from the batch that its newest policy has just played; DQN from a buffer of what its policies played. What is different offline?

    a) Nothing: a log is a replay buffer on a disk.
        A buffer gets new rows from the agent's own play; that is how DQN finds out where it is wrong. A log never answers.
    *b) The agent cannot try what it believes: about actions that nobody took, the log says nothing.
        Right. No new experience corrects a wrong belief, so offline methods stay close to what the log shows.
    c) Rewards are missing in a log.
        They may be there: cloning ignores them, and weighing needs them.
    """,
)

quiz(
    "better_than_shaky",
    """
    Half of the shaky operator's actions are coin flips. Why does the clone play better than its teacher?

    a) It learned from the rewards which actions were good.
        Look at `clone`: the column `rewards` does not appear in it.
    *b) It takes the most probable action, and the coins, which fall this way and that, never make up a majority.
        Right: cloning averages over rows. Mistakes without a system cancel; those of the novices have one, and stay.
    c) It saw more episodes than the expert's clone.
        Of the coin flippers it saw even more, and that did not help.
    """,
)

quiz(
    "find_the_leak",
    """
    What would have told you about the meter *before* the crane fell?

    a) Held-out episodes instead of held-out rows.
        They were held out by episodes, and the score was perfect: the column leaks in every episode alike.
    b) A smaller loss.
        It could hardly have been smaller. That was the alarm, not the success.
    *c) Asking of every column: is this number known at the moment at which the action is chosen?
        Right. And when a score is too good to be true, look first for the column that made it so.
    """,
)

quiz(
    "beyond_the_expert",
    """
    You weigh the *expert's* log by what came after each action. By how much will the clone beat the expert?

    *a) Not at all: every episode in it ends at 500, and nobody can have more.
        Right. All went equally well, so the weights say nothing about who was good: they only favour early rows. To surpass a teacher, a log must hold rows that went better than others.
    b) A little: weights always help.
        Weights tell good rows from bad ones. Where all are equally good, they only add noise.
    c) A lot: with `beta` large enough.
        A larger `beta` listens to fewer rows. None of them is better than 500.
    """,
)
