"""The judge's side of chapter 15."""

from functools import partial

import numpy as np
from numpy.random import Generator

from coursekit.given import ch15_offline as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import best_of, expect, expect_close, expect_equal, expect_type

EPOCHS, TARGET = 8, 450  # mean return of three episodes
FLOAT32 = 1e-4  # the tolerance for weights: as learners compute them, in 32 bits too
CLOSE = 0.1  # how far the probabilities may be, on average, from the fractions in a dataset
COLUMNS = ["eps_id", "t", "obs", "actions", "rewards", "new_obs", "terminateds", "truncateds"]
Columns = tuple[np.ndarray, np.ndarray, np.ndarray]  # `eps_id`, `t` and `rewards`


@exercise(
    points=3,
    minutes=20,
    needs={"CPU": 2},
    hints=[
        "Keep one list of rows for all episodes. In the loop over the steps, `obs` is the observation that `policy` got, and `new_obs` the one that `env.step` returned.",
        "An environment may write every observation into the same array, so keep a copy: `obs.copy()`. The observation from `env.reset` needs one, too.",
        "`ray.data.from_items(rows)` splits the rows into up to 200 blocks, and each block becomes a file; `override_num_blocks=files` sets the number of blocks.",
    ],
    spare=["            over = terminated or truncated"],
)
def record(answer: Answer, rng: Generator) -> None:
    """A row holds the observation, the action, what followed, and the episode's ID."""
    # Long: the check has its own simulator, and knows every step of it.
    tape = _tape(rng)
    lengths, files = [len(episode["rewards"]) for episode in tape], int(rng.choice([2, 4]))  # not a file an episode
    seeds = [episode["seed"] for episode in tape]
    with answer.case(f"the seeds {seeds}, with episodes of {lengths} steps, to be written as {files} files"):
        got = answer.probe(given.recorded, tape, files)
        _expect_files(got, files)
        episodes = _by_name(expect_type(got["rows"], list[given.Row], "rows"), lengths)
    for own in episodes:
        episode = tape[lengths.index(len(own))]
        for step, row in enumerate(own):
            with answer.case(f"step {step} of an episode of {len(own)} steps, which was {episode['end']}"):
                _expect_row(row, step, episode, tape[-1]["obs"][-1].tolist())


def _by_name(rows: list[given.Row], lengths: list[int]) -> list[list[given.Row]]:
    """Return the rows of each episode, in order; check how many there are."""
    steps, held = sum(lengths), len(rows)
    expect(
        held == steps,
        f"Together, the episodes of these seeds have {steps} steps, so the files should have {steps} rows; they have {held}.",
    )
    episodes: dict[object, list[given.Row]] = {}
    for row in sorted(rows, key=lambda row: row["t"]):
        episodes.setdefault(row["eps_id"], []).append(row)
    counts = [len(own) for own in episodes.values()]
    expect_equal(
        sorted(counts),
        sorted(lengths),
        f"Grouped by `eps_id`, the rows form episodes of {counts} steps; the episodes of these seeds have {lengths} steps.",
    )
    return list(episodes.values())


def _tape(rng: Generator) -> list[dict]:
    """Return three episodes for the simulator, of different lengths."""
    lengths, seeds = rng.permutation([3, 5, 7]).tolist(), rng.choice(range(3, 1000), size=3, replace=False).tolist()
    ends = rng.permutation(["terminated", "truncated", "terminated and truncated"])
    return [
        {
            "seed": seed,
            "obs": (rng.permutation(3 * steps + 3) / 4 - 3).reshape(steps + 1, 3).astype(np.float32),
            "rewards": rng.uniform(0.5, 2, size=steps).round(3).tolist(),
            "end": str(end),
        }
        for steps, seed, end in zip(lengths, seeds, ends, strict=True)
    ]


def _expect_files(got: given.Recorded, files: int) -> None:
    """Check the number of Parquet files, and that they have the columns that RLlib reads."""
    count, all_files = got["files"].count(".parquet"), len(got["files"])
    expect(count > 0, f"The folder has {all_files} files, and none of them is a Parquet file.")
    expect(count == files, f"The folder has {count} Parquet files; `files` was {files}.")
    for columns in got["columns"]:
        missing, more = sorted(set(COLUMNS) - set(columns)), sorted(set(columns) - set(COLUMNS))
        expect(more or not missing, f"A file lacks these columns: {missing}.")
        expect(
            not missing,
            f"A file lacks these columns: {missing}. It has these, which aren't in the chapter's table of columns: {more}.",
        )


def _expect_row(row: given.Row, step: int, episode: dict, last_seen: list) -> None:
    """Check a row against its step; `last_seen` is what an array that was never copied holds at the end."""
    t = row["t"]
    expect_equal(t, step, f"`t` is {t} where it should be {step}: it numbers the steps of an episode from 0.")
    _expect_seen(row, episode["obs"][step : step + 2].tolist(), last_seen)
    action, reward = given.tape_action(episode["obs"][step]), episode["rewards"][step]
    expect_equal(row["actions"], action, f"The policy chose {action}; `actions` is {row['actions']}.")
    expect_close(row["rewards"], reward, f"The step earned {reward}; `rewards` is {row['rewards']}.")
    last = step == len(episode["rewards"]) - 1
    got = [row["terminateds"], row["truncateds"]]
    ends = [last and end in episode["end"] for end in ("terminated", "truncated")]
    expect_equal(got, ends, f"`terminateds` and `truncateds` are {got}; `env.step` returned {ends}.")


def _expect_seen(row: given.Row, both: list, last_seen: list) -> None:
    """Check the observations before and after a step."""
    before, after = both
    for name, got, seen in [("obs", row["obs"], before), ("new_obs", row["new_obs"], after)]:
        expect_close(
            got,
            seen,
            f"The observation was {before} before the step and {after} after it; `{name}` is {got}.",
            mistakes={
                f"`{name}` is {last_seen}, the last observation of the last episode: the row keeps the simulator's own array, "
                "not a copy, and the simulator overwrites that array at each step.": last_seen
            },
        )


@exercise(
    points=2,
    minutes=10,
    hints=[
        "First choose episodes, and then look up each row's episode: `np.isin(eps_ids, chosen)`.",
        "`np.unique` returns every ID once, sorted, whatever the order of the rows.",
    ],
    returns=np.ndarray,
)
def hold_out(answer: Answer, rng: Generator) -> None:
    """Choose episodes, not rows: test data must not come from the same episodes as training data."""
    # The products are 6.6, 2.4 and 2.5, which tell rounding from cutting off, from rounding up, and from rounding halves up.
    for episodes, share in ((20, 0.33), (20, 0.12), (10, 0.25)):
        names = rng.choice(10_000, size=episodes, replace=False)
        names = names if share == 0.33 else np.array([f"shift-{name}" for name in names])
        eps_ids = np.repeat(names, rng.integers(1, 60, size=episodes))
        seed, wanted = int(rng.integers(1000)), round(share * episodes)
        with answer.case(f"{len(eps_ids)} rows of {episodes} episodes, the first with ID {names[0]}, share={share}"):
            out = _held_out(answer, eps_ids, share, seed)
            count = len(out)
            expect(
                count == wanted,
                f"True marks the rows of {count} episodes as held out; `round({share} * {episodes})` is {wanted}.",
            )
            same = _held_out(answer, rng.permutation(eps_ids), share, seed) == out
            expect(same, "With the same rows in another order, and the same seed, you held out other episodes.")
    draws = {_held_out(answer, eps_ids, 0.4, seed + more) for more in range(1, 5)}
    expect(len(draws) > 1, "Four other seeds held out the same episodes, so `seed` makes no difference.")


def _held_out(answer: Answer, eps_ids: np.ndarray, share: float, seed: int) -> frozenset:
    """Return the episodes that are held out, each with all of its rows."""
    mask, rows = answer(eps_ids, share, seed), len(eps_ids)
    expect(
        mask.shape == (rows,) and mask.dtype == bool,
        f"Return an array of {rows} booleans, one per row; yours has the shape {mask.shape} and the dtype {mask.dtype}.",
    )
    out = frozenset(eps_ids[mask].tolist())
    split = len(out.intersection(eps_ids[~mask].tolist()))
    expect(not split, f"You split {split} episodes: some of their rows are held out, and others aren't.")
    return out


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "`for batch in dataset.iter_torch_batches(batch_size=128, local_shuffle_buffer_size=2000):` is one pass over the dataset; `batch` is a dict of tensors.",
        "For each transition, the network returns two logits, and `batch['actions']` is the index of the right one: `nn.functional.cross_entropy(logits, actions)`.",
        "For each batch, compute the loss, then call `optimizer.zero_grad()`, `loss.backward()`, and `optimizer.step()`. After the last epoch, return the network.",
    ],
    spare=['            loss = nn.functional.cross_entropy(network(batch["new_obs"]), batch["actions"])'],
)
def clone(answer: Answer, rng: Generator) -> None:
    """In each observation, raise the probability of the action that the operator took."""
    # Long: it learns from the dataset of an unknown crane, and is asked and evaluated in states that the check chooses.
    with answer.case("the dataset of an expert, on a crane that is wired differently"):
        returns = best_of(partial(_cloned, answer, rng), rng, TARGET)
        expect(
            max(returns) >= TARGET,
            f"None of three training runs reached a mean return of {TARGET}; your networks earned {returns}. "
            "`epochs` passes over the whole dataset are enough with batches of 128, Adam, and a learning rate of 0.01.",
        )
    with answer.case("a dataset whose operators disagree: four observations, each seen 402 times"):
        _expect_doubts(answer, rng)


def _cloned(answer: Answer, rng: Generator, seed: int) -> float:
    """Return the mean return of a network that does what the expert does."""
    same, earned = _trained(answer, rng, "expert", seed)
    expect(
        same >= 0.75,
        f"In states that the expert met, your network's most probable action is the expert's in {same:.0%} of them; it should be "
        "at least 75%. (In half of these states, the novice would act differently.) With `obs` as the input, the loss falls from "
        "about 0.7 to below 0.4 within a few epochs.",
    )
    return earned


def _expect_doubts(answer: Answer, rng: Generator) -> None:
    """Check that the network's probabilities are those of the actions in the dataset."""
    places, pushes = _disagreement(rng)
    said = answer.probe(given.probabilities, places, pushes, int(rng.integers(1_000_000)), EPOCHS)
    fractions, probabilities = np.round(pushes.mean(axis=1), 2).tolist(), np.round(said, 2).tolist()
    expect(
        len(said) == len(pushes) and np.abs(np.array(said) - pushes.mean(axis=1)).mean() < CLOSE,
        f"In the four observations, the operators chose action 1 with the frequencies {fractions}; your network gives it the "
        f"probabilities {probabilities}. Minimize the cross-entropy; `cross_entropy` takes the logits and applies the softmax itself.",
    )


def _disagreement(rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return four observations, and what six operators did in each: one pushed, or five did."""
    corners = rng.permutation([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], axis=1)
    places = (corners * rng.uniform(0.5, 2, size=4) * rng.choice([-1, 1], size=4)).astype(np.float32)
    pushes = np.array([[operator < count for operator in range(6)] for count in (1, 1, 5, 5)])[rng.permutation(4)]
    return places, pushes.astype(int)


@exercise(
    points=2,
    minutes=15,
    hints=[
        "Go through the transitions from the largest `t` to the smallest, with `np.argsort(-t)`. When you reach a transition, you have its next step's return-to-go.",
        "Keep each episode's latest return-to-go in a dict: `after[eps] = reward + gamma * after.get(eps, 0.0)`.",
        "The advantage is the return-to-go minus its mean, divided by its standard deviation. The weight is `np.exp(beta * advantage)`, divided by its mean.",
    ],
    returns=list[float],
    spare=["    for row in reversed(range(len(t))):"],
)
def weights(answer: Answer, rng: Generator) -> None:
    """Rate each transition by the rewards that followed in its episode; `exp` turns a better rating into a larger weight."""
    # Long: the weights that come out of five common mistakes are computed, too, so that each has its own message.
    lengths = [int(steps) for steps in rng.permutation([4, 9, 6, 2])]
    columns = _columns(rng, lengths)
    gamma, beta = (round(float(rng.uniform(*ends)), 2) for ends in [(0.6, 0.95), (0.5, 2)])
    with answer.case(f"four episodes of {lengths} steps, transitions in order, gamma {gamma}, beta {beta}"):
        want = _weighted(_discounted(columns[0], columns[2], gamma), beta)
        _expect_weights(np.array(answer(*columns, gamma, beta)), want, columns, gamma, beta)
    order = rng.permutation(sum(lengths))
    with answer.case(f"four episodes of {lengths} steps, transitions in any order, gamma {gamma}, beta {beta}"):
        again = answer(*(column[order] for column in columns), gamma, beta)
        expect_close(
            again,
            want[order],
            "With the transitions in order, your weights were right; in another order, they aren't.",
            rtol=FLOAT32,
        )
    whole = columns[2].round().astype(int)
    with answer.case(f"the same episodes with rewards of type int64, gamma {gamma}, beta {beta}"):
        expect_close(
            answer(*columns[:2], whole, gamma, beta),
            _weighted(_discounted(columns[0], whole, gamma), beta),
            "With rewards that are floats, your weights were right; with integers, they aren't: a discounted sum of integers is seldom one.",
            rtol=FLOAT32,
        )


def _columns(rng: Generator, lengths: list[int]) -> Columns:
    """Return the columns of episodes of these lengths, in order."""
    eps_ids = np.repeat(np.sort(rng.choice(1000, size=len(lengths), replace=False)), lengths)
    t = np.concatenate([np.arange(steps) for steps in lengths])
    return eps_ids, t, rng.uniform(-1, 3, size=len(t)).round(2)


def _expect_weights(got: np.ndarray, want: np.ndarray, columns: Columns, gamma: float, beta: float) -> None:
    """Check the weights of transitions in order; each of these mistakes is common."""
    rows = len(want)
    expect(got.shape == (rows,), f"{rows} transitions need {rows} weights; yours have the shape {got.shape}.")
    mean = got.mean()
    expect(abs(mean - 1) < FLOAT32, f"The mean of the weights should be 1; it is {mean:.4g}.")
    episode, t, weight, right = max(zip(*columns[:2], got, want, strict=True), key=lambda row: abs(row[2] - row[3]))
    through, from_start, whole, before, unbiased = _mistaken(*columns, gamma, beta)
    expect_close(
        got,
        want,
        f"The transition with eps_id {episode}, t {t} got the weight {weight:.4g}; its weight should be {right:.4g}.",
        rtol=FLOAT32,
        mistakes={
            "You get these weights if the return-to-go of one episode includes the next episode.": through,
            "You get these weights if the discount counts from the start of the episode instead of from the transition.": from_start,
            "You get these weights if every transition has the return of its whole episode.": whole,
            "You get these weights if you sum the rewards before a transition instead of those after it.": before,
            "You get these weights if the standard deviation divides by n - 1 instead of n.": unbiased,
        },
    )


def _mistaken(eps_ids: np.ndarray, t: np.ndarray, rewards: np.ndarray, gamma: float, beta: float) -> list[np.ndarray]:
    """Return the weights that come out of each mistake, in the order in which `_expect_weights` names them."""
    togo = _discounted(eps_ids, rewards, gamma)
    whole = np.array([rewards[eps_ids == name].sum() for name in eps_ids])
    before = _discounted(eps_ids[::-1], rewards[::-1], gamma)[::-1]
    values = [_discounted(eps_ids * 0, rewards, gamma), togo * gamma**t, whole, before]
    return [*(_weighted(value, beta) for value in values), _weighted(togo, beta, ddof=1)]


def _discounted(eps_ids: np.ndarray, rewards: np.ndarray, gamma: float) -> np.ndarray:
    """Return the return-to-go of each transition; they are in order."""
    togo = np.zeros(len(rewards))
    for row in reversed(range(len(rewards))):
        goes_on = row + 1 < len(rewards) and eps_ids[row + 1] == eps_ids[row]
        togo[row] = rewards[row] + (gamma * togo[row + 1] if goes_on else 0.0)
    return togo


def _weighted(values: np.ndarray, beta: float, ddof: int = 0) -> np.ndarray:
    weight = np.exp(beta * (values - values.mean()) / values.std(ddof=ddof))
    return np.asarray(weight / weight.mean())


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "`frame = dataset.to_pandas()` is the whole dataset as a table. `weights` takes its columns as arrays: `frame['eps_id'].to_numpy()`.",
        "Add the weights to the table as a column of float32; `ray.data.from_pandas(frame)` makes a dataset of it again.",
        "`cross_entropy(..., reduction='none')` returns one loss per transition. Multiply each by its weight, and then take the mean.",
        "The expert's 3 episodes need more weight than the novice's 250: try a `beta` of 3.",
    ],
)
def beats_the_teacher(answer: Answer, rng: Generator) -> None:
    """Give more weight to transitions that ended well, and the policy follows the few episodes that show how it's done."""
    # Long: as in `clone`.
    with answer.case(
        "a dataset with 250 episodes of the novice and 3 of the expert, mean return about 50, on a crane that is wired differently"
    ):
        returns = best_of(partial(_chosen, answer, rng), rng, TARGET)
        expect(
            max(returns) >= TARGET,
            f"None of three training runs reached a mean return of {TARGET}; your networks earned {returns}. In our solution, "
            "the expert's transitions have more than 95% of the weight, and the network is trained for `epochs` passes in batches of 128.",
        )


def _chosen(answer: Answer, rng: Generator, seed: int) -> float:
    """Return the mean return of a network that does what the expert does, and not what the novices do."""
    same, earned = _trained(answer, rng, "mixed", seed)
    expect(
        same >= 0.7,
        f"In states that the expert met, your network's most probable action is the expert's in {same:.0%} of them; it should be "
        "at least 70%. (In half of these states, the novice would act differently.)",
    )
    return earned


def _trained(answer: Answer, rng: Generator, shift: str, seed: int) -> tuple[float, float]:
    """Return how often a network, trained on a dataset, does what the expert does, and what its actions earn, taken again here."""
    asked = _states(seed)
    wiring = _wiring(rng, asked)
    got = answer.probe(given.trained, shift, wiring, seed, EPOCHS, asked)
    kind = got["returned"]
    expect(kind == "a network", f"Return the trained network; what you returned is of type {kind}.")
    scores, count = got["scores"], len(asked)
    expect(
        scores.shape == (count, 2) and scores.dtype.kind == "f",
        f"For {count} observations, the network should return logits of shape ({count}, 2); it returned {scores.shape}.",
    )
    same = scores.argmax(1) ^ wiring["swap"] == given.expert(asked)
    seeds = range(seed + 1000, seed + 1003)  # those of fewer episodes earn nothing
    earned = sum(given.replayed(actions, start) for start, actions in zip(seeds, got["played"], strict=False))
    return float(np.mean(same)), round(earned / len(seeds), 1)


def _wiring(rng: Generator, asked: np.ndarray) -> dict:
    """Return how the cables of a crane are swapped, so that a network that ignores the dataset doesn't do what the expert does."""
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
    """Return states that an expert meets, shape [B, 4]: those in which the novice acts differently, and the same number of others."""
    obs = np.concatenate([np.array(episode["obs"]) for episode in given.play(given.expert, [seed + 5000, seed + 5001])])
    contested = given.expert(obs) != given.novice(obs)
    return np.concatenate([obs[contested], obs[~contested][: contested.sum()]])


question(
    "what_is_offline",
    """
    PPO learns from the batch that its latest policy has just collected, and DQN from a replay buffer that its policies have filled. What is different in offline RL?

    a) Nothing: a dataset is a replay buffer on a disk.
        A replay buffer keeps getting transitions from the agent's own policy, and they show DQN where its values are wrong. A dataset gets no new transitions.
    *b) The agent can't try the actions that it thinks are good, and the dataset says nothing about actions that aren't in it.
        Right. No new experience corrects a wrong estimate, so offline methods stay close to what the dataset shows.
    c) Datasets contain no rewards.
        They may contain rewards: behavior cloning ignores them, and weights need them.
    """,
)

question(
    "better_than_shaky",
    """
    Half of the shaky operator's actions are coin flips. Why is the BC policy better than the operator?

    a) It learned from the rewards which actions were good.
        Look at `clone`: it doesn't use the `rewards` column.
    *b) It takes the most probable action, and coin flips, which go either way, never make the wrong action the majority.
        Right. Cloning averages over transitions. Random mistakes cancel out, but systematic mistakes, like the novice's, don't.
    c) It saw more episodes than the policy that was cloned from the expert.
        The policy that was cloned from coin flips saw even more episodes, and that didn't help.
    """,
)

question(
    "find_the_leak",
    """
    What would have revealed the problem with the meter *before* the load fell?

    a) Holding out episodes instead of rows.
        The split was by episodes, and the score was still perfect, because the column leaks in every episode.
    b) A smaller loss.
        The loss could hardly have been smaller. It was a warning sign, not a success.
    *c) Asking of every column whether its value is known when the action is chosen.
        Right. And if a score is too good to be true, first look for the column that made it so.
    """,
)

question(
    "beyond_the_expert",
    """
    You weight the transitions of the *expert's* dataset by what came after each action. By how much will the policy beat the expert?

    *a) Not at all: every episode in the dataset reaches 500, and no episode can earn more.
        Right. All episodes went equally well, so the weights don't separate good from bad: they only favor early transitions. To beat the operator, a dataset needs some transitions that went better than others.
    b) By a little: weights always help.
        Weights separate good transitions from bad ones. If all of them are equally good, weights only add noise.
    c) By a lot, if `beta` is large enough.
        A larger `beta` concentrates the weight on fewer transitions, but none of them comes from an episode that earned more than 500.
    """,
)
