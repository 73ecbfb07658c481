"""The judge's side of chapter 15."""

from functools import partial

import numpy as np
from numpy.random import Generator

from coursekit.given import ch15_offline as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import best_of, expect, expect_close, expect_equal, expect_type

EPOCHS, TARGET = 8, 450  # mean return of three episodes
COLUMNS = ["eps_id", "t", "obs", "actions", "rewards", "new_obs", "terminateds", "truncateds"]
Log = tuple[np.ndarray, np.ndarray, np.ndarray]  # the columns `eps_id`, `t` and `rewards`


@exercise(
    points=3,
    minutes=20,
    needs={"CPU": 2},
    hints=[
        "Keep one list of rows for all episodes. Inside the loop over the steps, which observation belongs in the row as `obs`, which as `new_obs`?",
        "An environment may write each observation into the same array. Keep a copy: `obs.copy()`.",
        "`ray.data.from_items(rows)` cuts the rows into up to 200 blocks, and each becomes a file; `override_num_blocks=files` sets the number.",
    ],
)
def record(answer: Answer, rng: Generator) -> None:
    """A row says what was seen, what was done, what came of it, and which episode it was in."""
    # Long: the judge brings a simulator of its own, whose every step it knows.
    tape = _tape(rng)
    lengths, files = [len(episode["rewards"]) for episode in tape], int(rng.choice([2, 4]))  # not a file an episode
    with answer.case(f"three episodes of {lengths} steps, to be written as {files} files"):
        got = answer.probe(given.recorded, tape, files)
        _expect_files(got, files)
        episodes = _by_name(expect_type(got["rows"], list[given.Row], "rows"), lengths)
    for own in episodes:
        episode = tape[lengths.index(len(own))]
        for step, row in enumerate(own):
            with answer.case(f"step {step} of an episode of {len(own)} steps that was {episode['end']}"):
                _expect_row(row, step, episode, tape[-1]["obs"][-1].tolist())


def _by_name(rows: list[given.Row], lengths: list[int]) -> list[list[given.Row]]:
    """Return the rows of each episode, in order; check how many there are."""
    steps, held = sum(lengths), len(rows)
    expect(held == steps, f"{steps} steps make {steps} rows; the files hold {held}.")
    episodes: dict[object, list[given.Row]] = {}
    for row in sorted(rows, key=lambda row: row["t"]):
        episodes.setdefault(row["eps_id"], []).append(row)
    counts = [len(own) for own in episodes.values()]
    expect_equal(sorted(counts), sorted(lengths), f"Going by `eps_id`, the log has episodes of {counts} steps.")
    return list(episodes.values())


def _tape(rng: Generator) -> list[dict]:
    """Return three episodes for the simulator, of different lengths."""
    lengths, ends = rng.permutation([3, 5, 7]).tolist(), rng.permutation(["terminated", "truncated", "terminated"])
    return [
        {
            "obs": (rng.permutation(3 * steps + 3) / 4 - 3).reshape(steps + 1, 3).astype(np.float32),
            "rewards": rng.uniform(0.5, 2, size=steps).round(3).tolist(),
            "end": str(end),
        }
        for steps, end in zip(lengths, ends, strict=True)
    ]


def _expect_files(got: given.Recorded, files: int) -> None:
    """Check the number of Parquet files, and that they have the columns that RLlib reads."""
    count, all_files = got["files"].count(".parquet"), len(got["files"])
    expect(count > 0, f"The folder holds {all_files} files, and none of them is a Parquet file.")
    expect(count == files, f"There are {count} Parquet files.")
    for columns in got["columns"]:
        missing, more = sorted(set(COLUMNS) - set(columns)), sorted(set(columns) - set(COLUMNS))
        expect(
            not missing, f"A file lacks these columns: {missing}. It has these, which the table does not name: {more}."
        )


def _expect_row(row: given.Row, step: int, episode: dict, last_seen: list) -> None:
    """Check a row against the step that it tells of; `last_seen` is what an array that was never copied holds at the end."""
    expect_equal(row["t"], step, f"`t` is {row['t']}; the first step of an episode is 0.")
    _expect_seen(row, episode["obs"][step : step + 2].tolist(), last_seen)
    action, reward = given.tape_action(episode["obs"][step]), episode["rewards"][step]
    expect_equal(row["actions"], action, f"The operator chose {action}; `actions` is {row['actions']}.")
    expect_close(row["rewards"], reward, f"It earned {reward}; `rewards` is {row['rewards']}.")
    last = step == len(episode["rewards"]) - 1
    got = [row["terminateds"], row["truncateds"]]
    ends = [last and episode["end"] == end for end in ("terminated", "truncated")]
    expect_equal(got, ends, f"`terminateds` and `truncateds` are {got}.")


def _expect_seen(row: given.Row, both: list, last_seen: list) -> None:
    """Check the observations before and after a step."""
    before, after = both
    for name, got, seen in [("obs", row["obs"], before), ("new_obs", row["new_obs"], after)]:
        expect_close(
            got,
            seen,
            f"The operator saw {before}, and then {after}. `{name}` is {got}.",
            mistakes={
                f"`{name}` is {last_seen}, the last observation of all: is it the simulator's own array, or a copy?": last_seen
            },
        )


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Draw episodes first, then look up each row's episode: `np.isin(eps_ids, chosen)`.",
        "`np.unique` gives every episode once, sorted, whatever the order of the rows.",
    ],
    returns=np.ndarray,
)
def hold_out(answer: Answer, rng: Generator) -> None:
    """Draw episodes, not rows: what you test on must not be a neighbour of what you learned from."""
    for share in (0.25, 0.33, 0.12, 0.5):  # of 20: 6.6 and 2.4 tell rounding from cutting off, and from rounding up
        eps_ids = np.repeat(rng.choice(10_000, size=20, replace=False), rng.integers(1, 60, size=20))
        seed, wanted = int(rng.integers(1000)), round(share * 20)
        with answer.case(f"{len(eps_ids)} rows of 20 episodes, share={share}"):
            out = _held_out(answer, eps_ids, share, seed)
            count = len(out)
            expect(count == wanted, f"You held out {count} episodes instead of {wanted}.")
            same = _held_out(answer, rng.permutation(eps_ids), share, seed) == out
            expect(same, "The same rows came in another order, with the same seed, and you held out other episodes.")
    draws = {_held_out(answer, eps_ids, 0.4, seed + more) for more in range(1, 5)}
    expect(len(draws) > 1, "Four other seeds held out the same episodes: `seed` must make a difference.")


def _held_out(answer: Answer, eps_ids: np.ndarray, share: float, seed: int) -> frozenset:
    """Return the episodes that are held out, each with all of its rows."""
    mask, rows = answer(eps_ids, share, seed), len(eps_ids)
    expect(
        mask.shape == (rows,) and mask.dtype == bool,
        f"Return an array of {rows} truth values (dtype bool), one for each row.",
    )
    out = frozenset(eps_ids[mask].tolist())
    split = len(out.intersection(eps_ids[~mask].tolist()))
    expect(not split, f"Your split cuts {split} episodes in two: some of their rows are held out, others are not.")
    return out


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "`for batch in rows.iter_torch_batches(batch_size=128, local_shuffle_buffer_size=2000):` is one time through the log; `batch` is a dict of tensors.",
        "You have two scores for each row, and the number of the right one: give both to `nn.functional.cross_entropy(scores, actions)`.",
        "Each batch: loss, `optimiser.zero_grad()`, `loss.backward()`, `optimiser.step()`. After the last epoch, return the network.",
    ],
)
def clone(answer: Answer, rng: Generator) -> None:
    """Ask the network what the teacher would do, and move it towards what the teacher did."""
    # Long: it learns from the log of an unknown crane, and is asked and played in states that the judge chooses.
    with answer.case("the log of an expert, on a crane that is wired differently"):
        returns = best_of(partial(_cloned, answer, rng), rng, TARGET)
        expect(
            max(returns) >= TARGET,
            f"The mean return should be {TARGET} or more, and none of three trainings reached it; your networks had {returns}. "
            "Did each go through the whole log as often as `epochs` says, in batches of 128 rows, with Adam and a learning rate of 0.01?",
        )
    with answer.case("a log whose operators do not agree: four observations, each seen 400 times"):
        _expect_doubts(answer, rng)


def _cloned(answer: Answer, rng: Generator, seed: int) -> float:
    """Return the mean return of a network that does what the expert does."""
    same, earned = _trained(answer, rng, "expert", seed)
    expect(
        same >= 0.75,
        f"In states that the expert met, your network does what the expert does in {same:.0%} of them. "
        "(Half of these are chosen so that a novice would do something else.) Print the loss of each epoch: does it fall?",
    )
    return earned


def _expect_doubts(answer: Answer, rng: Generator) -> None:
    """Check that the network is no surer than the shares of the actions in the log allow."""
    places, pushes = _disagreement(rng)
    said = answer.probe(given.probabilities, places, pushes, int(rng.integers(1_000_000)), EPOCHS)
    shares, probabilities = pushes.mean(axis=1).tolist(), np.round(said, 2).tolist()
    expect(
        len(said) == len(shares) and np.abs(np.array(said) - 0.5).mean() < 0.25 + 0.12,
        f"In the log, action 1 has the shares {shares}; your network gives it the probabilities "
        f"{probabilities}: it is too sure. What does `cross_entropy` expect as its first argument?",
    )


def _disagreement(rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return four observations, and what four operators did in each: one pushed, or three did."""
    corners = rng.permutation([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], axis=1)
    places = (corners * rng.uniform(0.5, 2, size=4) * rng.choice([-1, 1], size=4)).astype(np.float32)
    pushes = np.array([place % 4 < (1 if place < 8 else 3) for place in range(16)]).reshape(4, 4)[rng.permutation(4)]
    return places, pushes.astype(int)


@exercise(
    points=2,
    minutes=15,
    hints=[
        "Go through the rows from the largest `t` to the smallest: `np.argsort(-t)`. By the time you reach a row, you know what comes after it.",
        "A dict keeps for each episode what its later rows earned: `after[eps] = reward + gamma * after.get(eps, 0.0)`.",
        "Advantage: return-to-go minus its mean, divided by its standard deviation. Weight: `np.exp(beta * advantage)`, divided by the mean weight.",
    ],
    returns=list[float],
)
def weights(answer: Answer, rng: Generator) -> None:
    """What an action led to is the sum of what came after it, in its own episode; `exp` turns better into more."""
    # Long: the weights that come out of five common mistakes are computed, too, so that each has a message of its own.
    lengths = [int(steps) for steps in rng.permutation([4, 9, 6, 2])]
    log = _log(rng, lengths)
    gamma, beta = (round(float(rng.uniform(*ends)), 2) for ends in [(0.6, 0.95), (0.5, 2)])
    with answer.case(f"four episodes of {lengths} steps, rows in order, gamma {gamma}, beta {beta}"):
        want = _weigh(_discounted(log[0], log[2], gamma), beta)
        _expect_weights(np.array(answer(*log, gamma, beta)), want, log, gamma, beta)
    order = rng.permutation(sum(lengths))
    with answer.case(f"four episodes of {lengths} steps, rows in any order, gamma {gamma}, beta {beta}"):
        again = answer(*(column[order] for column in log), gamma, beta)
        expect_close(
            again,
            want[order],
            "With the rows in order, your weights were right; in another order they are not.",
            rtol=1e-6,
            atol=1e-9,
        )


def _log(rng: Generator, lengths: list[int]) -> Log:
    """Return the log of episodes of these lengths, in order."""
    eps_ids = np.repeat(np.sort(rng.choice(1000, size=len(lengths), replace=False)), lengths)
    t = np.concatenate([np.arange(steps) for steps in lengths])
    return eps_ids, t, rng.uniform(-1, 3, size=len(t)).round(2)


def _expect_weights(got: np.ndarray, want: np.ndarray, log: Log, gamma: float, beta: float) -> None:
    """Check the weights of rows in order; each of these mistakes is common."""
    rows = len(want)
    expect(len(got) == rows, f"{rows} rows need {rows} weights; yours have the shape {got.shape}.")
    mean = got.mean()
    expect(abs(mean - 1) < 1e-6, f"The mean of the weights should be 1; it is {mean:.4g}.")
    episode, t, weight, right = max(zip(log[0], log[1], got, want, strict=True), key=lambda row: abs(row[2] - row[3]))
    through, from_start, whole, before, unbiased = _mistaken(*log, gamma, beta)
    expect_close(
        got,
        want,
        f"The row with eps_id {episode}, t {t} got the weight {weight:.4g}, and should have {right:.4g}.",
        rtol=1e-6,
        atol=1e-9,
        mistakes={
            "You get these weights when one episode runs on into the next.": through,
            "You get these weights when the discount counts from the start of the episode instead of from the row.": from_start,
            "You get these weights when every row has the return of its whole episode.": whole,
            "You get these weights when a row has what came before it.": before,
            "You get these weights when the standard deviation divides by one row less.": unbiased,
        },
    )


def _mistaken(eps_ids: np.ndarray, t: np.ndarray, rewards: np.ndarray, gamma: float, beta: float) -> list[np.ndarray]:
    """Return the weights that come out of each mistake, in the order in which `_expect_weights` names them."""
    togo = _discounted(eps_ids, rewards, gamma)
    whole = np.array([rewards[eps_ids == name].sum() for name in eps_ids])
    before = _discounted(eps_ids[::-1], rewards[::-1], gamma)[::-1]
    values = [_discounted(eps_ids * 0, rewards, gamma), togo * gamma**t, whole, before]
    return [*(_weigh(value, beta) for value in values), _weigh(togo, beta, ddof=1)]


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


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "`frame = rows.to_pandas()` is the whole log. `weights(...)` wants columns of it as arrays: `frame['eps_id'].to_numpy()`.",
        "Put the weights into the frame as a column; `ray.data.from_pandas(frame)` is a dataset again.",
        "`cross_entropy(..., reduction='none')` gives one loss for each row. Multiply them by the weights, then take the mean.",
        "Make the weights strong enough to outvote 250 novices: try a `beta` of 3.",
    ],
)
def beats_the_teacher(answer: Answer, rng: Generator) -> None:
    """Imitate what ended well more than what did not: the clone then follows the few operators who can do it."""
    # Long: as in `clone`.
    with answer.case(
        "the log of 250 novices and 3 episodes of an expert, mean return about 50, on a crane that is wired differently"
    ):
        returns = best_of(partial(_chosen, answer, rng), rng, TARGET)
        expect(
            max(returns) >= TARGET,
            f"The mean return should be {TARGET} or more, and none of three trainings reached it; your networks had {returns}. "
            "Do the expert's rows outvote those of the 250 novices, clearly? Did the network go through the log as often as `epochs` says?",
        )


def _chosen(answer: Answer, rng: Generator, seed: int) -> float:
    """Return the mean return of a network that does what the expert does, and not what the novices do."""
    same, earned = _trained(answer, rng, "mixed", seed)
    expect(
        same >= 0.7,
        f"In states that the expert met, your network does what the expert does in {same:.0%} of them. "
        "(Half of these are chosen so that a novice would do something else.) "
        "Does it follow the 250 novices or the 3 episodes of the expert? "
        "Print the share of the weight that each group has, and how often the network is updated.",
    )
    return earned


def _trained(answer: Answer, rng: Generator, shift: str, seed: int) -> tuple[float, float]:
    """Return how often a network, trained on a log, does what the expert does, and its mean return, its actions played again here."""
    asked = _states(seed)
    wiring = _wiring(rng, asked)
    got = answer.probe(given.trained, shift, wiring, seed, EPOCHS, asked)
    kind = got["returned"]
    expect(kind == "a network", f"Return the trained network; what came back is of type {kind}.")
    scores, count = got["scores"], len(asked)
    expect(
        scores.shape == (count, 2) and scores.dtype.kind == "f",
        f"For {count} observations the network gave scores {scores.shape}.",
    )
    same = scores.argmax(1) ^ wiring["swap"] == given.expert(asked)
    seeds = range(seed + 1000, seed + 1003)  # those of fewer episodes earn nothing
    earned = sum(given.replayed(actions, start) for start, actions in zip(seeds, got["played"], strict=False))
    return float(np.mean(same)), round(earned / len(seeds), 1)


def _wiring(rng: Generator, asked: np.ndarray) -> dict:
    """Return how the cables of a crane are swapped: so that a network that ignores the log does not do what the expert does."""
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


question(
    "what_is_offline",
    """
    PPO learns from the batch that its newest policy has just played; DQN from a buffer of what its policies played. What is different offline?

    a) Nothing: a log is a replay buffer on a disk.
        A buffer gets new rows from the agent's own play; that is how DQN finds out where it is wrong. A log never answers.
    *b) The agent cannot try what it believes: about actions that are not in it, the log says nothing.
        Right. No new experience corrects a wrong belief, so offline methods stay close to what the log shows.
    c) Rewards are missing in a log.
        They may be there: cloning ignores them, and weights need them.
    """,
)

question(
    "better_than_shaky",
    """
    Half of the shaky operator's actions are coin flips. Why does the clone play better than its teacher?

    a) It learned from the rewards which actions were good.
        Look at `clone`: the column `rewards` does not appear in it.
    *b) It takes the most probable action, and coins, which fall both ways, make no majority for the wrong one.
        Right: cloning averages over rows. Random mistakes cancel; the novices' systematic ones stay.
    c) It saw more episodes than the expert's clone.
        The coin flippers' clone saw even more, and that did not help.
    """,
)

question(
    "find_the_leak",
    """
    What would have told you about the meter *before* the crane fell?

    a) Held-out episodes instead of held-out rows.
        The split was by episodes, and the score was perfect: the column leaks in every episode alike.
    b) A smaller loss.
        It could hardly have been smaller. That was the alarm, not the success.
    *c) Asking of every column: is this number known at the moment of choosing the action?
        Right. And when a score is too good to be true, look first for the column that made it so.
    """,
)

question(
    "beyond_the_expert",
    """
    You weigh the *expert's* log by what came after each action. By how much will the clone beat the expert?

    *a) Not at all: every episode in it ends at 500, and no episode can earn more.
        Right. All episodes went equally well, so the weights do not tell good from bad: they only favour early rows. To surpass a teacher, a log must hold rows that went better than others.
    b) A little: weights always help.
        Weights tell good rows from bad ones. Where all are equally good, they only add noise.
    c) A lot: with `beta` large enough.
        A larger `beta` listens to fewer rows, and none of them comes from an episode that earned more than 500.
    """,
)
