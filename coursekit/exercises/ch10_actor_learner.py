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
STOP, LIMIT = 490, 200_000  # a training run ends at this mean return, or after this many steps
HOPELESS = 250  # this far below SOLVED, it was not bad luck
ROWS = 30  # of a batch at random
SAMPLERS = 4  # not the number that the stub has


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 2},
    launches=False,
    hints=[
        "`ray.put(x)` stores x and returns a reference. How many times do you need to call it for five samplers?",
        "Pass the reference itself to `.set_weights.remote(...)`, not a list that contains it: only then does the sampler get the weights.",
        "Call `ray.put(policy.weights())` once before the loop, and in the loop, call `.set_weights.remote` on each sampler.",
    ],
)
def weight_sync(answer: Answer, rng: Generator) -> None:
    """Put the current weights into the store once, and send every sampler the same reference."""
    # Long: each way to send something else than the weights has its own message.
    samplers, change = int(rng.integers(3, 6)), float(rng.integers(1, 9))
    weights = {part: [(rng.normal(size=(4, 3)), rng.normal(size=4))] for part in ("actor", "critic")}
    learned = {part: [(w + change, b + change)] for part, ((w, b),) in weights.items()}
    with answer.case(f"two calls with {samplers} samplers; the policy's weights changed in between"):
        arrived = answer.probe(given.two_syncs, [weights, learned], samplers)
        counts = [len(calls) for calls in arrived]
        expect(
            counts == [2] * samplers,
            f"In two calls of `weight_sync`, the samplers' `set_weights` methods were called this often: {counts}. Each sampler needs one call per `weight_sync`.",
        )
        for want, calls in zip((weights, learned), zip(*arrived, strict=True), strict=True):
            _expect_sent(calls, want, weights)


def _expect_sent(calls: tuple[given.Call, ...], want: dict, old: dict) -> None:
    """Check what all samplers were sent in one call of `weight_sync`."""
    puts = len({call["reference"] for call in calls})
    for sampler, call in enumerate(calls):
        got = call["weights"]
        expect(
            not call["listed"],
            "A sampler was sent a list with a reference in it. Ray doesn't look inside lists, so the reference arrives, not the weights.",
        )
        expect(
            call["reference"],
            "A sampler was sent a value, not a reference, so Ray has to serialize it again for each sampler.",
        )
        expect(
            call["put"],
            "A sampler was sent a reference to a task's result. `ray.put` stores the weights without a task.",
        )
        kind = got if isinstance(got, str) else "dict"
        expect(
            kind != "Weighted", f"Sampler {sampler} was sent the policy itself: send what `policy.weights()` returns."
        )
        expect(
            kind != "method",
            f"Sampler {sampler} was sent the method `policy.weights` itself: call it, and send what it returns.",
        )
        expect(
            kind == "dict",
            f"Sampler {sampler} was sent an object of type {kind}, not the dict that `policy.weights()` returned.",
        )
        keys, wanted = list(got), list(want)
        expect(
            {*keys} == {*wanted},
            f"Sampler {sampler} was sent a dict with the keys {keys}; `policy.weights()` returned one with the keys {wanted}.",
        )
        differing = [part for part in want if not agree(got[part], want[part], rtol=1e-5, atol=1e-8)]
        expect_close(
            got,
            want,
            f"Under the keys {differing}, the dict that sampler {sampler} was sent has other values than the one that `policy.weights()` returned.",
            mistakes={
                "The policy's weights changed between the two calls, but the second call sent the old ones.": old
            },
        )
    expect(puts == 1, f"The same weights were put into the store {puts} times. One copy serves all samplers.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Use the formula's names: first compute `ratio`, then the clipped ratio, and then the two products.",
        "`torch.exp`, `torch.clamp`, and `torch.min` work on whole tensors. `torch.min(a, b)` returns the smaller value of each row.",
        "PPO maximizes equation 9, and an optimizer minimizes. Which sign does that give the whole expression, and which signs do c₁ and c₂ get?",
    ],
    spare=["    ratio = logp - old_logp", "    l_clip = clipped * advantages"],
)
def ppo_loss(answer: Answer, rng: Generator) -> None:
    """Take the smaller of the two products, so that going beyond 1 ± ε gains nothing; flip the sign, because optimizers minimize."""
    # Long: five rows tell the two sides of clipping apart, and slopes in NumPy find what was cut off from the gradient.
    _expect_clipped(answer)
    _expect_parts(answer)
    _expect_mean(answer, rng)


def _expect_clipped(answer: Answer) -> None:
    for ratio, advantage, gain in [(1.0, 1, 1.0), (1.5, 1, 1.2), (0.5, 1, 0.5), (1.5, -1, -1.5), (0.5, -1, -0.8)]:
        with answer.case(f"one row: ratio {ratio}, advantage {advantage:+d}; ε = 0.2, c₁ = c₂ = 0"):
            loss = _loss(answer, _row(ratio, advantage), {"epsilon": 0.2, "c1": 0.0, "c2": 0.0})
            expect_close(
                loss,
                -gain,
                f"The loss came out as {loss:.3g}. With c₁ = c₂ = 0, it should be the negative of the row's min(…).",
                atol=1e-6,
                mistakes={
                    f"The loss came out as {loss:.3g}. That's the objective, which PPO maximizes; the loss is to be minimized.": gain,
                    "The loss is NaN, not a number. A single row must give a number, too; normalizing the advantages is the job of `train_step`.": np.nan,
                },
            )


def _expect_parts(answer: Answer) -> None:
    """Check the critic's part and the entropy's, each alone."""
    with answer.case("one row: advantage 0, value 1, target 4; c₁ = 0.5, c₂ = 0"):
        loss = _loss(answer, _row(1.0, 0, values=1, targets=4), {"epsilon": 0.2, "c1": 0.5, "c2": 0.0})
        expect_close(
            loss,
            4.5,
            f"The loss came out as {loss:.3g}. Only the critic's term isn't 0 here, and a larger error must raise the loss.",
        )
    with answer.case("one row: advantage 0, entropy 0.6; c₁ = 0, c₂ = 0.5"):
        loss = _loss(answer, _row(1.0, 0, entropy=0.6), {"epsilon": 0.2, "c1": 0.0, "c2": 0.5})
        expect_close(
            loss,
            -0.3,
            f"The loss came out as {loss:.3g}. Only the entropy bonus isn't 0 here, and more entropy must lower the loss.",
        )


def _expect_mean(answer: Answer, rng: Generator) -> None:
    """Check the average over many rows, with the defaults and with other settings."""
    rows = _random_rows(rng)
    chosen = dict(zip(("epsilon", "c1", "c2"), rng.uniform([0.1, 0.6, 0.1], [0.18, 2, 1]).tolist(), strict=True))
    named = ", ".join(f"{name} = {value:.3g}" for name, value in chosen.items())
    for settings, told in (({}, "the default settings"), (chosen, named)):
        with answer.case(f"{ROWS} random rows; {told}"):
            loss, want = _loss(answer, rows, settings), _loss_of(rows, **settings)
            expect_close(
                loss,
                want,
                f"The loss came out as {loss:.5g}, not {want:.5g}. The single rows, with ε = 0.2, were right. "
                "Is each of the three parts a mean over the rows, and are ε, c₁, and c₂ the arguments?",
            )
    slopes = answer.probe(given.loss_and_slopes, rows, {})["slopes"]
    for name in ("logp", "values", "entropy"):
        with answer.case(f"{ROWS} random rows, gradient of the loss with respect to {name}"):
            expect_close(
                slopes.get(name),
                _slopes_of(rows, name),
                "The loss is right, but this part of its gradient isn't: `detach`, `item`, and NumPy cut off the gradient of what passes through them.",
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
    expect(
        len(seen["loss"]) == 1, f"`ppo_loss` returned a tensor of shape {seen['shape']}. Return the mean over the rows."
    )
    for name in seen["cut_off"]:
        raise Wrong(
            f"No gradient flows from the loss to {name}: either the loss doesn't use it, or something like `detach`, `item`, or NumPy cuts it off."
        )
    return seen["loss"][0] + 0.0  # no "-0" in a message


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
        "How many rows does the batch have? `rng.permutation(rows)` returns the indices of all rows in a new order.",
        "Take `order[start : start + size]`, where `start` grows in steps of `size`. The last slice is automatically shorter if it has to be.",
        "`{name: column[chosen] for name, column in batch.items()}` selects the same rows from every column.",
    ],
    spare=["        chosen = rng.permutation(rows)[:size]"],
)
def minibatches(answer: Answer, rng: Generator) -> None:
    """Sample one order for all columns, and cut it into slices: every row comes once, even those of the short last slice."""
    # Long: a shuffle can fail in six ways that all return every row once.
    size = int(rng.integers(6, 10))
    for count in (5 * size + int(rng.integers(2, size - 1)), 3 * size):
        _expect_two_epochs(answer, rng, count, size)


def _expect_two_epochs(answer: Answer, rng: Generator, count: int, size: int) -> None:
    numbers, seed = rng.permutation(1000)[:count], int(rng.integers(10**6))
    rows = {"obs": np.stack([numbers, -numbers], axis=1).astype(np.float32), "actions": numbers, "logp": numbers / 8}
    with answer.case(f"{count} rows in minibatches of {size}"):
        first, second, kinds, batch = answer.probe(given.two_epochs, rows, size, seed)
        orders = [_order_of(parts, rows, size) for parts in (first, second)]
        expect(
            kinds == ["Tensor"],
            f"The columns of the minibatches are of the types {kinds}. They must stay tensors, as in the batch.",
        )
        expect(agree(batch, rows), "Afterward, the batch itself had changed. Select rows from it, but don't modify it.")
        _expect_shuffled(orders, numbers.tolist(), size)
        expect(
            sum(orders[1], []) != numbers.tolist(),
            "A second epoch had the order of the batch. Each call must sample a new one from `rng`.",
        )
        expect(
            orders[0] != orders[1],
            "A second epoch over the same batch had the same order. Each call must sample a new one from `rng`.",
        )
        again = answer.probe(given.two_epochs, rows, size, seed)[0]
        expect(
            _order_of(again, rows, size) == orders[0],
            "Two generators with the same seed gave different orders, so something other than `rng` shuffles.",
        )


def _expect_shuffled(orders: list[list], numbers: list, size: int) -> None:
    """Check that the first epoch separated neighbors in the batch, and that both epochs have minibatches of `size` rows."""
    parts = [[numbers.index(number) for number in part] for part in orders[0]]
    places = sum(parts, [])
    expect(places != sorted(places), "The rows came in the order of the batch, so nothing shuffled them.")
    together = sum(b == a + 1 for a, b in pairwise(places))
    expect(
        together < len(places) / 2,
        "The minibatches came in a new order, but the rows inside them kept their order. Shuffle rows, not slices.",
    )
    for sizes in [[len(part) for part in order] for order in orders]:
        expect(
            all(each == size for each in sizes[:-1]),
            f"Only the last minibatch may be smaller, but yours have the sizes {sizes}. `size` was {size}, the number of rows in each.",
        )
    expect(
        any(max(part) - min(part) >= len(part) for part in parts),
        "Each minibatch held consecutive rows of the batch, in a new order. Shuffle all rows first, and then cut them into slices.",
    )


def _columns_of(part: Any, rows: dict) -> dict[str, np.ndarray]:
    """Return a minibatch, once it is certain that it has rows of numbers in the columns of the batch."""
    expect(
        isinstance(part, dict),
        f"Going through what `minibatches` returned gave {part!r:.60}, not a dict like the batch.",
    )
    names, columns = [*part], expect_type(part, dict[str, np.ndarray], "minibatch")
    expect(part.keys() == rows.keys(), f"A minibatch has the columns {names}; the batch has {[*rows]}.")
    lengths = sorted({len(column) for column in columns.values()})
    expect(len(lengths) == 1, f"The columns of one minibatch have different lengths: {lengths}.")
    for name, column in columns.items():
        expect(
            column.shape[1:] == rows[name].shape[1:] and column.dtype == rows[name].dtype,
            f"A minibatch's {name!r} column has shape {column.shape} and dtype {column.dtype}. Select rows of the batch's column.",
        )
    return columns


def _order_of(minibatches: list[Any], rows: dict, size: int) -> list[list]:
    """Return the rows of each minibatch, once it is certain that each came once and in one piece."""
    parts = [_columns_of(each, rows) for each in minibatches]
    sizes = [len(part["actions"]) for part in parts]
    expect(sizes and max(sizes) <= size, f"Your minibatches have the sizes {sizes}; `size` was {size}.")
    expect(min(sizes) > 0, f"Your minibatches have the sizes {sizes}: the loss of an empty one would be NaN.")
    obs, came, logp = (np.concatenate([part[name] for part in parts]) for name in ("obs", "actions", "logp"))
    count, missing = len(rows["actions"]), len(np.setdiff1d(rows["actions"], came))
    twice = len(came) - len(np.unique(came))
    expect(not missing, f"Of the batch's {count} rows, the minibatches lacked {missing}.")
    expect(not twice, f"Some rows came more than once in one epoch, which had {twice} too many.")
    strange = np.setdiff1d(came, rows["actions"]).tolist()
    expect(not strange, f"Some rows aren't in the batch: those with the actions {strange}.")
    fits = np.allclose(obs[:, 0], came) and np.allclose(logp, came / 8)
    expect(fits, "A row has the observation of one step and the action, or the log π, of another.")
    return [part["actions"].tolist() for part in parts]


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Call `logits, values = policy(minibatch['obs'])`, then `likelihood(logits, minibatch['actions'])`, and then your loss.",
        "Three lines of PyTorch, in this order, clear the old gradients, compute the new ones, and take the step.",
        "`nn.utils.clip_grad_norm_(policy.parameters(), 0.5)` changes the gradients that exist when you call it. Where does that call belong?",
    ],
    spare=["    nn.utils.clip_grad_value_(policy.parameters(), 0.5)"],
)
def train_step(answer: Answer, rng: Generator) -> None:
    """Clear the old gradients, compute the new ones, clip them together, and take the step."""
    # Long: it computes the step that equation 9 asks for by itself, in NumPy.
    actor, critic = rng.normal(0, 0.3, size=(3, 3)), rng.normal(0, 0.3, size=(1, 3))
    for tried, far in (
        ("two steps on a minibatch with small gradients; learning rate 1", 0.05),
        ("two steps on a minibatch with large gradients; learning rate 1", 20.0),
    ):
        rows = _minibatch(actor, critic, far, rng)
        with answer.case(tried):
            _expect_steps(answer.probe(given.two_steps, actor.tolist(), critic.tolist(), rows), rows)


def _expect_steps(seen: given.Steps, rows: dict) -> None:
    theta, first, second = map(np.array, seen["parameters"])
    counts = [len(theta), len(first), len(second)]
    expect(counts == [12] * 3, f"The policy has 12 parameters; before and after the steps, there were {counts}.")
    one_step = [_step(theta, rows, ddof) for ddof in (0, 1)]  # PyTorch's own `std` divides by B - 1: as good
    ddof = int(np.argmin([np.linalg.norm(first - each) for each in one_step]))
    want = one_step[ddof]
    _expect_first_step(np.linalg.norm(first - theta), first, want)
    expect_close(
        second,
        _step(first, rows, ddof),  # not from `want`: a last digit can carry a ratio over the edge of the clipping
        "The first step was right, but the second one, on the same minibatch, wasn't: something was left over from the first.",
        rtol=1e-3,
        atol=1e-4,
    )
    _expect_losses(seen["losses"], [_loss_at(theta, rows, ddof), _loss_at(first, rows, ddof)])


def _expect_first_step(moved: np.floating, first: np.ndarray, want: np.ndarray) -> None:
    expect(
        moved > 0,
        "After a call of `train_step`, no parameter of the policy had changed: either the given optimizer took no step, or when it did, the parameters had no gradients, or only zeros.",
    )
    expect(
        moved < 0.51,
        f"All parameters together moved by {moved:.4f}. With learning rate 1 and the gradient's norm clipped to 0.5, one step moves them by at most 0.5.",
    )
    expect_close(
        first,
        want,
        "The parameters changed, but not as one step of the given optimizer would change them. That step depends on normalized "
        "advantages, the minibatch's old log π and targets as they are, the default ε, c₁, and c₂, and one gradient, clipped as a whole.",
        rtol=1e-3,
        atol=1e-5,
    )


def _expect_losses(losses: list, want: list) -> None:
    told = [float(f"{loss:.4g}") if isinstance(loss, float) else loss for loss in losses]
    expect_close(
        losses,
        want,
        f"The steps were right, but two calls of `train_step` returned {told}, which are not the losses from before each step.",
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
        "An iteration calls `weight_sync`, `joined`, `minibatches`, `train_step`, and `evaluate`, in this order. Which of them do you call once per iteration, and which inside an inner loop?",
        "Put `with started(make_envs, samplers, seed) as actors:` around the loop. In the loop, make the list `[actor.sample.remote() for actor in actors]`, and then call `ray.get` once.",
        "If the mean return stays low, check whether the samplers get the new weights in every iteration, and whether the optimizer has the parameters of the policy that you train.",
        'Return `{"weights": policy.weights(), "curve": curve}`, and pass `make_envs`, not `cartpoles`, to `started` and `evaluate`.',
    ],
)
def solve_cartpole(answer: Answer, rng: Generator) -> None:
    """Send the weights, collect, learn, and test until a test is good enough; new episodes then show whether it was luck."""
    # Long: environments that no agent from elsewhere can balance, Ray's records of who sampled with which weights, and the curve.

    def train(seed: int, lucky: int = 0) -> float:
        exam = int(rng.integers(1, 10**6))
        turn = hard_turn(rng, exam)
        with answer.watch() as seen:
            found = answer.probe(given.learn, turn.tolist(), seed, SAMPLERS)
        learned = found["learned"]
        expect(
            isinstance(learned, dict) and {"weights", "curve"} <= learned.keys(),
            f'`solve_cartpole` must return {{"weights": policy.weights(), "curve": [...]}}, but it returned {learned!r:.80}.',
        )
        curve, layers = _curve_of(learned["curve"]), _actor_of(learned["weights"])
        tasks, seeds = seen.tasks(), found["seeds"]
        sampling = {
            task["actor_id"] for task in tasks if task["kind"] == "actor_call" and task["name"].endswith("sample")
        }
        players = len(sampling)
        if not players and curve[-1][0] == 0 and lucky < 2:  # one new policy in twenty balances without having learned
            return train(seed, lucky + 1)
        expect(
            players == SAMPLERS,
            f"`solve_cartpole` was called with samplers={SAMPLERS}, but in Ray's records, this many actors ran `sample`: {players}.",
        )
        expect_samplers_kept_up(tasks, found["sent"])
        mean = mean_return(partial(_choice, layers), turn, exam)
        answer.keep_curve("steps", [(steps, test) for steps, _, test in curve])
        _expect_hope(curve[-1][2], mean)
        _expect_whole(curve)
        resets, different = len(seeds), len(set(seeds))
        expect(
            different >= resets / 2,
            f"How often your program reset environments for a test: {resets}; with how many different seeds: {different}. "
            "With the same seed, a test repeats the same episodes.",
        )
        return mean

    with answer.case(
        f"CartPoles that only an agent trained on them can balance; {SAMPLERS} samplers; up to three seeds"
    ):
        means = best_of(train, rng, SOLVED)
        tests, seeds = [round(mean) for mean in means], len(means)
        expect(
            means[-1] >= SOLVED,
            f"On 100 new episodes, the agents of {seeds} seeds had the mean returns {tests}. One of them must reach {SOLVED}.",
        )


def _curve_of(curve: Any) -> list[tuple[float, float, float]]:
    rows = curve if isinstance(curve, list | tuple | np.ndarray) else []
    expect(len(rows) > 0, f"`curve` must be a list of (steps, seconds, mean return) tuples; it is {curve!r:.80}.")
    return expect_type(rows, list[tuple[float, float, float]], "curve")


def _expect_whole(curve: list[tuple[float, float, float]]) -> None:
    """Check that a curve holds totals, and that it ends where training may end."""
    steps, seconds, tests = np.transpose(curve)
    last_steps, last_seconds = steps[-3:].tolist(), seconds[-3:].tolist()
    more = np.all(np.diff(steps) > 0)
    expect(
        more,
        f"In `curve`, the steps must be totals so far, each larger than the one before; they end with {last_steps}.",
    )
    rising = np.all(np.diff(seconds) >= 0)
    expect(rising, f"In `curve`, the seconds must be totals so far; they end with {last_seconds}.")
    whole = tests[-1] >= STOP or steps[-1] >= LIMIT
    expect(
        whole or tests[-1] < SOLVED,
        f"`curve` ends after {steps[-1]:.0f} steps with a test result of {tests[-1]:.0f}. Train until a test says {STOP}, "
        f"or for {LIMIT} steps: a first test just above {SOLVED} may be luck.",
    )
    expect(
        whole,
        f"`curve` ends after {steps[-1]:.0f} steps with a test result of {tests[-1]:.0f}. Train until a test says {STOP}, "
        f"or for {LIMIT} steps.",
    )


def _actor_of(weights: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the layers that choose the actions, if they map 4 numbers to 2."""
    layers = expect_type(weights, given.Layers, "weights")["actor"]
    shapes = [(weight.shape, bias.shape) for weight, bias in layers]
    sizes = [4, *(len(bias) for _, bias in layers)]
    wanted = [((outputs, inputs), (outputs,)) for inputs, outputs in pairwise(sizes)]
    expect(
        sizes[1:] and sizes[-1] == 2 and shapes == wanted,
        f"The weights and biases of the returned actor have the shapes {shapes}; they must map 4 numbers to 2 logits.",
    )
    numbers = all(part.dtype.kind in "iuf" for layer in layers for part in layer)
    expect(numbers, "Not all weights and biases of the returned actor are arrays of numbers.")
    return layers


def _expect_hope(test: float, mean: float) -> None:
    """Compare our test with the learner's last one: luck makes a difference, not one like this."""
    expect(
        mean >= HOPELESS or test < SOLVED,
        f"Your last test says {test:.0f}, but in 100 new episodes with `make_envs`, the agent had a mean return of {mean:.0f}. "
        "The samplers and the test must use `make_envs`, and the weights must be the ones that were tested.",
    )
    expect(
        mean >= HOPELESS,
        f"In 100 new episodes with `make_envs`, the agent had a mean return of {mean:.0f}; it must reach {SOLVED}.",
    )


def _choice(layers: list, obs: np.ndarray) -> np.ndarray:
    return _logits(layers, obs).argmax(-1)


def _logits(layers: list, x: np.ndarray) -> np.ndarray:
    *hidden, (weight, bias) = layers
    for w, b in hidden:
        x = np.tanh(x @ np.transpose(w) + b)
    return x @ np.transpose(weight) + bias


question(
    "sync_then_sample",
    """
    You call `sampler.set_weights.remote(ref)` and, in the next line, `sampler.sample.remote()`, without a `ray.get` in between. Which weights does `sample` use?

    *a) The new ones, if the sampler is an ordinary actor and no call is retried.
        Right. Such an actor runs your calls in the order in which you made them, so you don't have to wait in between.
    b) The old ones, if the new ones are still on their way.
        In the actor's queue, the call of `sample` comes after the call of `set_weights`, which waits for its argument.
    c) It depends on which call arrives first.
        It would with two *callers*, or if the actor were async, threaded, or allowed to run calls out of order. Here, your calls keep their order.
    """,
)

question(
    "where_it_is_flat",
    """
    A row has advantage +1, and its ratio has risen to 1.5 (ε = 0.2). What does this row contribute to the gradient of L^CLIP?

    a) It pushes the ratio back toward 1.2.
        Wherever the ratio is above 1.2, the minimum is 1.2, and a constant has no slope. Only other rows can push this ratio back.
    b) It pushes the ratio further up, but more weakly.
        Clipping doesn't weaken the push; it removes it. Look at the left plot, to the right of the band.
    *c) Nothing.
        Right. The action has become likely enough for this batch, and the next batch may continue from there.
    """,
)

question(
    "more_samplers",
    """
    In each iteration, one sampler collects for 20 ms, and then the learner learns for 80 ms. On a machine with many cores, you use ten samplers instead. At best, how many times as fast is an iteration?

    a) Ten times.
        The samplers divide only the 20 ms among themselves. The 80 ms of learning remain.
    *b) About 1.2 times.
        Right. The iteration shrinks from 100 ms to 82 ms, and no number of samplers gets it below 80 ms. Speed up the learning first.
    c) Twice.
        For that, an iteration would have to take 50 ms, but the learning alone takes 80 ms.
    """,
)
