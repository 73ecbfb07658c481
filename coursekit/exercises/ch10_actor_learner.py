"""The judge's side of chapter 10."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.exercises._samplers import expect_samplers_kept_up
from coursekit.exercises._turned import hard_turn, mean_return
from coursekit.given import ch10_actor_learner as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import Wrong, agree, best_of, expect, expect_close, expect_type

SOLVED = 475  # mean return of 100 episodes at which CartPole counts as solved
HOPELESS = 250  # this far below SOLVED, it was not bad luck
ROWS = 30  # of a batch at random


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 2},
    hints=[
        "`ray.put(x)` stores x and returns a reference. How many times must it be called for five samplers?",
        "Give the reference itself to `.set_weights.remote(...)`, not inside a list: only then does the sampler see the value.",
        "One `ray.put` of `policy.weights()` before the loop; in the loop one `.remote` for each sampler.",
    ],
)
def weight_sync(answer: Answer, rng: Generator) -> None:
    """Put the current weights once, and send every sampler the same reference."""
    samplers, change = int(rng.integers(3, 6)), float(rng.integers(1, 9))
    weights = {part: [(rng.normal(size=(4, 3)), rng.normal(size=4))] for part in ("actor", "critic")}
    learned = {part: [(w + change, b + change)] for part, ((w, b),) in weights.items()}
    with answer.case(f"two calls for {samplers} samplers; the policy learned in between"):
        arrived = answer.probe(given.two_syncs, [weights, learned], samplers)
        counts = [len(calls) for calls in arrived]
        expect(
            counts == [2] * samplers,
            f"`set_weights` was called {counts} times on the samplers; it should be twice on each.",
        )
        for want, calls in zip((weights, learned), zip(*arrived, strict=True), strict=True):
            _expect_sent(calls, want, weights)


def _expect_sent(calls: tuple[given.Call, ...], want: dict, old: dict) -> None:
    """Check what all samplers were sent in one turn."""
    puts = len({call["reference"] for call in calls})
    for sampler, call in enumerate(calls):
        got, in_list = call["weights"], not call["reference"] and call["weights"] == "list"
        expect(not in_list, "A sampler was sent a list with a reference in it: Ray does not look inside lists.")
        expect(
            call["reference"],
            "A sampler was sent something that is not a reference: then it is packed for each of them.",
        )
        expect(
            call["put"],
            "A sampler was sent a reference to a task's result. Use `ray.put`: it stores the weights without a task.",
        )
        expect_close(
            got,
            want,
            f"What arrived at sampler {sampler} is not what `policy.weights()` returned: {got!r:.60}.",
            mistakes={"The policy learned in between, and the second time its old weights arrived.": old},
        )
    expect(puts == 1, f"The same weights were put into the store {puts} times.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Write it with the formula's names: first `ratio`, then the clipped ratio, then the two products.",
        "`torch.exp`, `torch.clamp` and `torch.min` work on whole tensors. `torch.min(a, b)` takes the smaller, row by row.",
        "Equation 9 is to be maximised, and an optimizer minimises. Which sign does that give the whole, and which signs c₁ and c₂?",
    ],
)
def ppo_loss(answer: Answer, rng: Generator) -> None:
    """Take the smaller of the two gains, so that going beyond ε never pays; turn the sign, since optimizers minimise."""
    # Long: five rows tell the two sides of clipping apart, and slopes in NumPy find what was cut off from the gradient.
    _expect_clipped(answer)
    _expect_parts(answer)
    _expect_mean(answer, rng)


def _expect_clipped(answer: Answer) -> None:
    for ratio, advantage, gain in [(1.0, 1, 1.0), (1.5, 1, 1.2), (0.5, 1, 0.5), (1.5, -1, -1.5), (0.5, -1, -0.8)]:
        with answer.case(f"one row: ratio {ratio}, advantage {advantage:+d}; ε 0.2, c₁ and c₂ 0"):
            loss = _loss(answer, _row(ratio, advantage), {"epsilon": 0.2, "c1": 0.0, "c2": 0.0})
            expect_close(
                loss,
                -gain,
                f"The loss came out as {loss:.3g}.",
                atol=1e-6,
                mistakes={
                    f"The loss came out as {loss:.3g}. That is the gain, to be maximised.": gain,
                    "The loss is not a number (NaN). You cannot normalise one row, and need not: `train_step` normalises.": np.nan,
                },
            )


def _expect_parts(answer: Answer) -> None:
    """Check the critic's part and the entropy's, each alone."""
    with answer.case("one row: advantage 0, value 1, target 4; c₁ 0.5, c₂ 0"):
        loss = _loss(answer, _row(1.0, 0, values=1, targets=4), {"epsilon": 0.2, "c1": 0.5, "c2": 0.0})
        expect_close(loss, 4.5, f"The loss came out as {loss:.3g}. Look at the critic's part.")
    with answer.case("one row: advantage 0, entropy 0.6; c₁ 0, c₂ 0.5"):
        loss = _loss(answer, _row(1.0, 0, entropy=0.6), {"epsilon": 0.2, "c1": 0.0, "c2": 0.5})
        expect_close(loss, -0.3, f"The loss came out as {loss:.3g}. More entropy must make the loss smaller.")


def _expect_mean(answer: Answer, rng: Generator) -> None:
    """Check the average over many rows, with and without the settings of the chapter."""
    rows = _random_rows(rng)
    chosen = dict(zip(("epsilon", "c1", "c2"), rng.uniform([0.1, 0.6, 0.1], [0.18, 2, 1]).tolist(), strict=True))
    for settings in ({}, chosen):
        with answer.case(f"{ROWS} random rows, other settings than the usual ones: {settings}"):
            loss, want = _loss(answer, rows, settings), _loss_of(rows, **settings)
            expect_close(loss, want, f"The loss came out as {loss:.5g}. One row alone was right.")
    slopes = answer.probe(given.loss_and_slopes, rows, {})["slopes"]
    for name in ("logp", "values", "entropy"):
        with answer.case(f"{ROWS} random rows, the loss's gradient along {name}"):
            expect_close(
                slopes.get(name),
                _slopes_of(rows, name),
                "The loss is right, and this part of its gradient is not: did `detach`, `item` or NumPy cut some of it off?",
                rtol=1e-3,
                atol=1e-5,
            )


def _random_rows(rng: Generator) -> dict:
    means = {"logp": -1, "old_logp": -1, "advantages": 0, "values": 0, "targets": 0, "entropy": 0.4}
    widths = {"logp": 0.4, "old_logp": 0.4, "advantages": 2, "values": 3, "targets": 3, "entropy": 0.1}
    return {name: rng.normal(mean, widths[name], ROWS) for name, mean in means.items()}


def _row(ratio: float, advantage: float, values: float = 0, targets: float = 0, entropy: float = 0) -> dict:
    row = {"logp": -0.7 + np.log(ratio), "old_logp": -0.7, "advantages": advantage}
    row |= {"values": values, "targets": targets, "entropy": entropy}
    return {name: np.array([value], float) for name, value in row.items()}


def _loss(answer: Answer, rows: dict, settings: dict) -> float:
    """Return the loss, once it is certain that it is one number with a gradient."""
    seen = answer.probe(given.loss_and_slopes, rows, settings)
    expect(seen["kind"] == "Tensor", f"`ppo_loss` returned a {seen['kind']}, not a tensor.")
    expect(len(seen["loss"]) == 1, f"`ppo_loss` returned a tensor of shape {seen['shape']}: average over the rows.")
    for name in seen["cut_off"]:
        raise Wrong(f"No gradient flows from the loss to {name}: did `detach`, `item` or NumPy cut it off?")
    return seen["loss"][0]


def _loss_of(rows: dict, epsilon: float = 0.2, c1: float = 0.5, c2: float = 0.01) -> float:
    """Return the loss of equation 9, in NumPy."""
    ratio = np.exp(rows["logp"] - rows["old_logp"])
    gain = np.minimum(ratio * rows["advantages"], np.clip(ratio, 1 - epsilon, 1 + epsilon) * rows["advantages"])
    return float(-np.mean(gain - c1 * (rows["values"] - rows["targets"]) ** 2 + c2 * rows["entropy"]))


def _slopes_of(rows: dict, name: str) -> np.ndarray:
    """Return by how much the loss of equation 9 changes with each number of a column."""
    nudges = 1e-6 * np.eye(ROWS)
    ends = [[_loss_of(rows | {name: rows[name] + nudge}) for nudge in (n, -n)] for n in nudges]
    return np.diff(ends, axis=1)[:, 0] / -2e-6


@exercise(
    points=2,
    minutes=10,
    hints=[
        "How many rows does the batch have? `rng.permutation(rows)` is an array of all their numbers in a new order.",
        "`order[start : start + size]` for start in steps of `size`: the last slice is shorter by itself.",
        "`{name: column[chosen] for name, column in batch.items()}` takes the same rows from every column.",
    ],
)
def minibatches(answer: Answer, rng: Generator) -> None:
    """Draw one order for all columns, and cut it into slices: every row comes once, even those of the short last slice."""
    # Long: a shuffle can fail in five ways that all return every row once.
    size = int(rng.integers(6, 10))
    count = 5 * size + int(rng.integers(2, size - 1))
    numbers, seed = rng.permutation(1000)[:count], int(rng.integers(10**6))
    rows = {"obs": np.stack([numbers, -numbers], axis=1).astype(np.float32), "actions": numbers, "logp": numbers / 8}
    with answer.case(f"{count} rows in minibatches of {size}"):
        first, second, batch = answer.probe(given.two_epochs, rows, size, seed)
        orders = [_order_of(parts, rows, size) for parts in (first, second)]
        expect(
            agree(batch, rows), "Afterwards the batch itself had changed: take rows out of it, and leave it as it is."
        )
        _expect_shuffled(orders[0], numbers.tolist(), size)
        expect(
            orders[0] != orders[1], "A second epoch over the same batch had the same order: draw from `rng` each time."
        )
        again = answer.probe(given.two_epochs, rows, size, seed)[0]
        expect(
            _order_of(again, rows, size) == orders[0],
            "With a generator of the same seed the order was different: what drew it, if not `rng`?",
        )


def _expect_shuffled(order: list, numbers: list, size: int) -> None:
    """Check that neighbours in the batch were separated, inside the minibatches and among them."""
    expect(order != numbers, "The rows came in the order of the batch: nothing shuffled them.")
    places = [numbers.index(number) for number in order]
    together = sum(b == a + 1 for a, b in pairwise(places))
    expect(
        together < len(order) / 2,
        "The minibatches came in a new order, but the rows inside kept theirs: shuffle rows, not slices.",
    )
    parts = [places[start : start + size] for start in range(0, len(places), size)]
    expect(
        any(max(part) - min(part) >= len(part) for part in parts),
        "Each minibatch held neighbours of the batch, in a new order: shuffle all rows first, then cut.",
    )


def _columns_of(part: Any, rows: dict) -> dict[str, np.ndarray]:
    """Return a minibatch, once it is certain that it has rows of numbers in the columns of the batch."""
    expect(isinstance(part, dict), f"A minibatch is {part!r:.60}, not a dict like the batch.")
    names, columns = [*part], expect_type(part, dict[str, np.ndarray], "minibatch")
    expect(part.keys() == rows.keys(), f"A minibatch has the columns {names}.")
    lengths = sorted({len(column) for column in columns.values()})
    expect(len(lengths) == 1, f"The columns of a minibatch have the lengths {lengths}.")
    for name, column in columns.items():
        expect(
            column.shape[1:] == rows[name].shape[1:] and column.dtype.kind in "iuf",
            f"A minibatch has {column.dtype} of the shape {column.shape} in its column {name!r}. Take rows of the batch's.",
        )
    return columns


def _order_of(minibatches: list[Any], rows: dict, size: int) -> list:
    """Return the order in which the rows came, once it is certain that each came once and in one piece."""
    parts = [_columns_of(each, rows) for each in minibatches]
    sizes = [len(part["actions"]) for part in parts]
    expect(sizes and max(sizes) <= size, f"Yours have the sizes {sizes}.")
    obs, came, logp = (np.concatenate([part[name] for part in parts]) for name in ("obs", "actions", "logp"))
    missing, twice = len(np.setdiff1d(rows["actions"], came)), len(came) - len(np.unique(came))
    expect(not missing, f"Rows that were in none of them: {missing}.")
    expect(not twice, f"Rows that came more than once in one epoch: {twice}.")
    strange = np.setdiff1d(came, rows["actions"]).tolist()
    expect(not strange, f"Rows that are not in the batch: those with the actions {strange}.")
    fits = np.allclose(obs[:, 0], came) and np.allclose(logp, came / 8)
    expect(fits, "A row has the observation of one step and the action of another.")
    expect(all(each == size for each in sizes[:-1]), f"Yours have the sizes {sizes}.")
    return came.tolist()


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`scores, values = policy(minibatch['obs'])`, then `likelihood(scores, minibatch['actions'])`, then your loss.",
        "Three lines of PyTorch, in this order: forget the old gradients, compute the new ones, step.",
        "`nn.utils.clip_grad_norm_(policy.parameters(), 0.5)` changes gradients that exist. Where does that belong?",
    ],
)
def train_step(answer: Answer, rng: Generator) -> None:
    """Forget the old gradients, compute the new ones, clip them together, step."""
    # Long: it computes the step that equation 9 asks for by itself, in NumPy.
    actor, critic = rng.normal(0, 0.3, size=(3, 3)), rng.normal(0, 0.3, size=(1, 3))
    for name, far in (("mild", 0.05), ("wild", 20.0)):
        rows = _minibatch(actor, critic, far, rng)
        with answer.case(f"a {name} minibatch, learning rate 1, two steps"):
            _expect_steps(answer.probe(given.two_steps, actor.tolist(), critic.tolist(), rows), rows)


def _expect_steps(seen: given.Steps, rows: dict) -> None:
    theta, first, second = map(np.array, seen["parameters"])
    counts = [len(theta), len(first), len(second)]
    expect(counts == [12] * 3, f"The policy has 12 parameters; before and after the steps there were {counts}.")
    ddof = int(
        agree(first, _step(theta, rows, 1), rtol=1e-3, atol=1e-5)
    )  # PyTorch's own `std` divides by B - 1: as good
    want = _step(theta, rows, ddof)
    _expect_first_step(np.linalg.norm(first - theta), first, want)
    expect_close(
        second,
        _step(want, rows, ddof),
        "The first step was right, a second one on the same minibatch was not. What is left over from the first?",
        rtol=1e-3,
        atol=1e-4,
    )
    _expect_losses(seen["losses"], [_loss_at(theta, rows, ddof), _loss_at(want, rows, ddof)])


def _expect_first_step(moved: np.floating, first: np.ndarray, want: np.ndarray) -> None:
    expect(moved > 0, "After a step of `train_step` no parameter of the policy had moved.")
    expect(
        moved < 0.51,
        f"The parameters moved by {moved:.4f} in all. The gradient's norm must be clipped to 0.5 before the step.",
    )
    expect_close(
        first,
        want,
        "The parameters moved, but not to where equation 9 leads. Are the advantages normalised, "
        "is the old log π that of the minibatch, are ε, c₁ and c₂ the usual ones, does the step go downhill?",
        rtol=1e-3,
        atol=1e-5,
    )


def _expect_losses(losses: object, want: list) -> None:
    expect_close(
        losses,
        want,
        f"The steps were right, but `train_step` returned {losses} for them, not the losses.",
        rtol=1e-3,
        atol=1e-4,
    )


def _minibatch(actor: np.ndarray, critic: np.ndarray, far: float, rng: Generator) -> dict:
    """Return 24 rows whose targets lie `far` from the values, and whose old policy was another one."""
    obs, actions = rng.normal(size=(24, 3)), rng.integers(0, 3, size=24)
    logp = _log_pi(obs @ actor.T)[np.arange(24), actions] + rng.normal(0, 0.3, size=24)
    targets = (obs @ critic.T)[:, 0] + far * rng.normal(1, 0.2, size=24) * (1 if far < 1 else obs[:, 0])
    return {"obs": obs, "actions": actions, "logp": logp, "advantages": rng.normal(3, 2, size=24), "targets": targets}


def _log_pi(scores: np.ndarray) -> np.ndarray:
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def _loss_at(theta: np.ndarray, rows: dict, ddof: int) -> float:
    """Return the loss of a policy with these twelve parameters, nine of the actor and three of the critic."""
    log_pi = _log_pi(rows["obs"] @ theta[:9].reshape(3, 3).T)
    a = rows["advantages"]
    columns = {
        "logp": log_pi[np.arange(24), rows["actions"]],
        "old_logp": rows["logp"],
        "advantages": (a - a.mean()) / (a.std(ddof=ddof) + 1e-8),
        "values": rows["obs"] @ theta[9:],
        "targets": rows["targets"],
        "entropy": -(np.exp(log_pi) * log_pi).sum(-1),
    }
    return _loss_of(columns)


def _step(theta: np.ndarray, rows: dict, ddof: int) -> np.ndarray:
    """Return the parameters after one step: the slopes by differences, their norm at most 0.5, learning rate 1."""
    nudges = 1e-6 * np.eye(len(theta))
    slopes = np.array([_loss_at(theta + n, rows, ddof) - _loss_at(theta - n, rows, ddof) for n in nudges]) / 2e-6
    return theta - slopes * min(1.0, 0.5 / float(np.linalg.norm(slopes)))


@exercise(
    points=4,
    minutes=25,
    needs={"CPU": 2},
    hints=[
        "An iteration calls `weight_sync`, `joined`, `minibatches`, `train_step` and `evaluate` in this order. Which of them only once, and which inside a loop?",
        "`with started(make_envs, samplers, seed) as actors:` around the loop; in it `[actor.sample.remote() for actor in actors]`, then one `ray.get`.",
        "Does the mean return stay near 20? Then the samplers still play with the first weights, or the optimizer has another policy's parameters.",
        'Return `{"weights": policy.weights(), "curve": curve}`; make the environments with `make_envs`, never `cartpoles`.',
    ],
)
def solve_cartpole(answer: Answer, rng: Generator) -> None:
    """Send, play, learn and test until a test is good enough; then new episodes show whether it was luck."""
    # Long: a world of its own, so that no agent from elsewhere passes, and Ray's records tell who played with which weights.

    def train(seed: int) -> float:
        exam = int(rng.integers(1, 10**6))
        turn = hard_turn(rng, exam)
        with answer.watch() as seen:
            found = answer.probe(given.learn, turn.tolist(), seed)
        learned = found["learned"]
        expect(
            isinstance(learned, dict) and {"weights", "curve"} <= learned.keys(),
            f'It must return {{"weights": policy.weights(), "curve": [...]}}; it returned {learned!r:.80}.',
        )
        test, layers = _last_test(learned["curve"]), _actor_of(learned["weights"])
        expect_samplers_kept_up(seen.tasks(), found["sent"])
        mean = mean_return(partial(_choice, layers), turn, exam)
        _expect_hope(test, mean)
        return mean

    with answer.case("CartPoles that only an agent trained on them can balance, up to three seeds"):
        means = best_of(train, rng, SOLVED)
        tests = [round(mean) for mean in means]
        expect(
            means[-1] >= SOLVED,
            f"Mean returns of 100 new episodes, by seed: {tests}. One must reach {SOLVED}.",
        )


def _last_test(curve: Any) -> float:
    rows = curve if isinstance(curve, list | tuple | np.ndarray) else []
    expect(len(rows) > 0, f"`curve` must be a list of (steps, seconds, mean return); it is {curve!r:.80}.")
    *_, (_, _, mean) = expect_type(rows, list[tuple[float, float, float]], "curve")
    return mean


def _actor_of(weights: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the layers that choose the actions, if they map 4 numbers to 2."""
    layers = expect_type(weights, given.Layers, "weights")["actor"]
    shapes = [(weight.shape, bias.shape) for weight, bias in layers]
    sizes = [4, *(len(bias) for _, bias in layers)]
    wanted = [((outputs, inputs), (outputs,)) for inputs, outputs in pairwise(sizes)]
    expect(
        sizes[1:] and sizes[-1] == 2 and shapes == wanted,
        f"The weights and biases of its actor have the shapes {shapes}; a policy maps 4 numbers to 2 scores.",
    )
    numbers = all(part.dtype.kind in "iuf" for layer in layers for part in layer)
    expect(numbers, "The weights and biases of its actor are not all arrays of numbers.")
    return layers


def _expect_hope(test: float, mean: float) -> None:
    """Compare our test with the learner's last one: luck makes a difference, not one like this."""
    expect(
        mean >= HOPELESS or test < SOLVED,
        f"Your last test says {test:.0f}, and on 100 other episodes with `make_envs` the agent had a mean return of "
        f"{mean:.0f}. Do samplers and test use `make_envs`, and are these weights the ones that were tested?",
    )
    expect(
        mean >= HOPELESS,
        f"Mean return of 100 new episodes: {mean:.0f}. It must reach {SOLVED}.",
    )


def _choice(layers: list, obs: np.ndarray) -> np.ndarray:
    return _scores(layers, obs).argmax(-1)


def _scores(layers: list, x: np.ndarray) -> np.ndarray:
    *hidden, (weight, bias) = layers
    for w, b in hidden:
        x = np.tanh(x @ np.transpose(w) + b)
    return x @ np.transpose(weight) + bias


question(
    "sync_then_sample",
    """
    `sampler.set_weights.remote(ref)`, and in the next line `sampler.sample.remote()`, without any `ray.get` between. With which weights does it play?

    *a) With the new ones, as long as it is an ordinary actor and no call is retried.
        Right: such an actor runs your calls in the order you made them, so you need not wait in between.
    b) With the old ones, if the new ones are still on their way.
        The call of `sample` comes after `set_weights` in the actor's queue, and that one waits for its argument.
    c) That depends on which call arrives first.
        With two *callers* it would, or if the actor were async, threaded, or allowed to run calls out of order. Here your calls keep their order.
    """,
)

question(
    "where_it_is_flat",
    """
    A row has advantage +1, and its ratio has risen to 1.5 (ε = 0.2). What does this row contribute to the gradient of L^CLIP?

    a) It pushes the ratio back towards 1.2.
        The minimum is 1.2 wherever the ratio is above it: a constant has no slope in either direction. Only other rows may push it back.
    b) It pushes on, more weakly.
        Clipping is not damping. Look at the left picture to the right of the band.
    *c) Nothing.
        Right. The action is likely enough for one batch; the next batch may continue from there.
    """,
)

question(
    "more_samplers",
    """
    In an iteration, one sampler plays for 20 ms, then the learner learns for 80 ms. You have a machine with many cores, and take ten samplers. How much faster is the iteration at best?

    a) Ten times.
        Only the playing is shared out; 80 ms of learning stay.
    *b) About 1.2 times.
        Right: 100 ms become 82 ms. No number of samplers gets it below 80. Shorten the learning first.
    c) Twice.
        100 ms would have to become 50, and the learning alone takes 80.
    """,
)
