"""The judge's side of chapter 10."""

from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import exercise, expect, expect_close, expect_equal, quiz
from coursekit.exercises._samplers import expect_samplers_kept_up
from coursekit.exercises._turned import hard_turn, mean_return
from coursekit.given import ch10_actor_learner as given

SOLVED = 475  # mean return of 100 episodes at which CartPole counts as solved
SEEDS = 3  # an agent may be unlucky: the first seed that reaches SOLVED is enough
HOPELESS = 250  # so far below SOLVED, it was no bad luck


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`ray.put(x)` stores x and returns a reference. How many times must it be called for five samplers?",
        "Give the reference itself to `.set_weights.remote(...)`, not inside a list: only then does the sampler see the value.",
        "One `ray.put` of `policy.weights()` before the loop; in the loop one `.remote` for each sampler.",
    ],
)
def weight_sync(answer: Answer, rng: Generator) -> None:
    """Put the weights of this moment once, and send everybody the same reference."""
    samplers, change = int(rng.integers(3, 6)), float(rng.integers(1, 9))
    weights = {
        part: [(rng.normal(size=(4, 3)), rng.normal(size=4)), (rng.normal(size=(outputs, 4)), rng.normal(size=outputs))]
        for part, outputs in (("actor", 2), ("critic", 1))
    }
    arrived = answer.probe(given.two_syncs, weights, change, samplers)
    counts = [len(calls) for calls in arrived]
    told = f"`weight_sync` was called twice for {samplers} samplers. "
    expect(counts == [2] * samplers, told + f"`set_weights` was called {counts} times on them.")
    for turn, want in enumerate([weights, _shifted(weights, change)]):
        refs = [calls[turn]["reference"] for calls in arrived]
        in_list = any(calls[turn]["weights"] == ["ObjectRef"] for calls in arrived)
        expect(not in_list, told + "A sampler was sent a list with a reference in it: Ray does not look inside lists.")
        expect(
            all(refs),
            told + "A sampler was sent something that is not a reference: then it is packed for each of them.",
        )
        for sampler, calls in enumerate(arrived):
            got = calls[turn]["weights"]
            expect(
                isinstance(got, dict) and got.keys() == want.keys(),
                told + f"What arrived at sampler {sampler} is {_told(got)}, not what `policy.weights()` returns.",
            )
            stale = turn == 1 and _same(got, weights)
            expect(not stale, told + "The policy had learned in between, and the second time its old weights arrived.")
            expect(_same(got, want), told + f"Other weights than the policy's arrived at sampler {sampler}.")
        expect(len(set(refs)) == 1, told + f"The same weights were put into the store {len(set(refs))} times.")


def _shifted(weights: dict, change: float) -> dict:
    return {part: [(w + change, b + change) for w, b in layers] for part, layers in weights.items()}


def _same(got: Any, want: Any) -> bool:
    """Return whether two nests of dicts, lists and arrays are alike."""
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(_same(got[key], want[key]) for key in want)
    if isinstance(want, list | tuple):
        return isinstance(got, list | tuple) and len(got) == len(want) and all(map(_same, got, want))
    return np.shape(got) == np.shape(want) and bool(np.allclose(got, want))


def _told(value: Any) -> str:
    return f"a {type(value).__name__} ({value!r:.60})" if not isinstance(value, str) else f"a {value}"


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Write it with the formula's names: first `ratio`, then the clipped ratio, then the two products.",
        "`torch.exp`, `torch.clamp` and `torch.min` work on whole tensors. `torch.min(a, b)` takes the smaller, row by row.",
        "Equation 9 is to be maximised. Which sign has what an optimizer minimises? And which signs have c₁ and c₂ then?",
    ],
)
def ppo_loss(answer: Answer, rng: Generator) -> None:
    """Take the smaller of the two gains, so that going further than ε is never paid; turn the sign, since optimizers minimise."""
    for ratio, advantage, gain, slope in [
        (1.0, 1, 1.0, 1.0),
        (1.5, 1, 1.2, 0.0),
        (0.5, 1, 0.5, 0.5),
        (1.5, -1, -1.5, -1.5),
        (0.5, -1, -0.8, 0.0),
    ]:
        row = _row(ratio, advantage)
        seen = _loss(answer, row, {"epsilon": 0.2, "c1": 0.0, "c2": 0.0})
        told = f"One row, ratio {ratio}, advantage {advantage:+d}, ε 0.2, c₁ and c₂ 0: "
        expect(
            not np.isclose(seen["loss"], gain, atol=1e-6),
            told + f"the loss came out as {seen['loss']:.3g}. That is the gain, to be maximised.",
        )
        nan = " One row cannot be normalised, and need not: `train_step` does that." if np.isnan(seen["loss"]) else ""
        expect_close(seen["loss"], -gain, told + f"the loss came out as {seen['loss']:.3g}.{nan}", atol=1e-6)
        (got,) = _slope(seen, "logp")
        told += f"the loss was right, and its gradient for log π came out as {got:.3g}: {_what_is_wrong(got, -slope)}"
        expect_close(got, -slope, told, atol=1e-6)
    _judge_parts(answer)
    _judge_random(answer, rng)


def _what_is_wrong(got: float, want: float) -> str:
    """Return what a wrong slope says."""
    if want == 0:
        return "this row has gone far enough, and must not push on."
    if got == 0:
        return "this row must still push. Is something cut off?"
    return "its sign is wrong: which policy stands on top in the ratio?" if got * want < 0 else "its size is wrong."


def _row(ratio: float, advantage: float, **others: float) -> dict:
    old = -0.7
    row = {"logp": old + np.log(ratio), "old_logp": old, "advantages": advantage}
    row |= {"values": 0.0, "targets": 0.0, "entropy": 0.0} | others
    return {name: np.array([value], float) for name, value in row.items()}


def _loss(answer: Answer, rows: dict, settings: dict) -> dict:
    """Return the loss and its slopes, once it is certain that it is one number with a gradient."""
    seen = answer.probe(given.loss_and_slopes, rows, settings)
    expect(seen["kind"] == "a tensor", f"`ppo_loss` returned {seen['kind']}, not a tensor.")
    expect(np.size(seen["loss"]) == 1, f"`ppo_loss` returned a tensor of shape {seen['shape']}: average over the rows.")
    expect(
        seen["slopes"],
        "No gradient flows from the loss to the policy: something cut it off (`detach`, `item`, NumPy?).",
    )
    return seen | {"loss": float(np.ravel(seen["loss"])[0])}


def _slope(seen: dict, name: str) -> list:
    """Return a gradient, zeros where nothing flows."""
    return seen["slopes"][name] or [0.0]


def _judge_parts(answer: Answer) -> None:
    """Check the critic's part and the entropy's, each alone."""
    off = {"epsilon": 0.2, "c1": 0.0, "c2": 0.0}
    seen = _loss(answer, _row(1.0, 0.0, values=1.0, targets=4.0), off | {"c1": 0.5})
    told = f"One row, advantage 0, value 1, target 4, c₁ 0.5, c₂ 0: the loss came out as {seen['loss']:.3g}. "
    expect_close(seen["loss"], 4.5, told + "Look at the critic's part.", atol=1e-6)
    expect_close(
        _slope(seen, "values"),
        [-3.0],
        told + f"Its gradient for the value is {_slope(seen, 'values')}: the value must be pulled to its target.",
    )
    seen = _loss(answer, _row(1.0, 0.0, entropy=0.6), off | {"c2": 0.5})
    told = f"One row, advantage 0, entropy 0.6, c₁ 0, c₂ 0.5: the loss came out as {seen['loss']:.3g}. "
    expect_close(seen["loss"], -0.3, told + "More entropy must make the loss smaller.", atol=1e-6)
    expect_close(
        _slope(seen, "entropy"),
        [-0.5],
        told + f"Its gradient for the entropy is {_slope(seen, 'entropy')}: the policy must feel it.",
    )


def _judge_random(answer: Answer, rng: Generator) -> None:
    """Check the average over many rows, with and without the settings of the chapter."""
    count = int(rng.integers(20, 40))
    rows = {
        "logp": rng.normal(-1, 0.4, count),
        "old_logp": rng.normal(-1, 0.4, count),
        "advantages": rng.normal(0, 2, count),
        "values": rng.normal(0, 3, count),
        "targets": rng.normal(0, 3, count),
        "entropy": rng.uniform(0.1, 0.7, count),
    }
    usual = {"epsilon": 0.2, "c1": 0.5, "c2": 0.01}
    chosen = {
        "epsilon": float(rng.uniform(0.1, 0.4)),
        "c1": float(rng.uniform(0.2, 2)),
        "c2": float(rng.uniform(0.1, 1)),
    }
    for settings in ({}, chosen):
        want, got = _loss_of(rows, **(usual | settings)), _loss(answer, rows, settings)["loss"]
        names = ", ".join(f"{name}={value:.3g}" for name, value in settings.items()) or "the usual settings"
        expect_close(
            got, want, f"{count} random rows, {names}: the loss came out as {got:.5g}. One row alone was right."
        )


def _loss_of(rows: dict, epsilon: float = 0.2, c1: float = 0.5, c2: float = 0.01) -> float:
    """Return the loss of equation 9, in NumPy."""
    ratio = np.exp(rows["logp"] - rows["old_logp"])
    gain = np.minimum(ratio * rows["advantages"], np.clip(ratio, 1 - epsilon, 1 + epsilon) * rows["advantages"])
    return float(-np.mean(gain - c1 * (rows["values"] - rows["targets"]) ** 2 + c2 * rows["entropy"]))


@exercise(
    points=2,
    minutes=10,
    hints=[
        "How many rows has the batch? `rng.permutation(rows)` is a list of all their numbers in a new order.",
        "`order[start : start + size]` for start in steps of `size`: the last slice is shorter by itself.",
        "`{name: column[chosen] for name, column in batch.items()}` takes the same rows from every column.",
    ],
)
def minibatches(answer: Answer, rng: Generator) -> None:
    """Draw one order for all columns, and cut it into slices: every row comes once, also those of the short last slice."""
    size = int(rng.integers(6, 10))
    count = 5 * size + int(rng.integers(2, size - 1))
    numbers = rng.permutation(1000)[:count]
    rows = {"obs": np.stack([numbers, -numbers], axis=1).astype(np.float32), "actions": numbers, "logp": numbers / 8}
    seed, told = int(rng.integers(10**6)), f"{count} rows in minibatches of {size}: "
    *epochs, batch = answer.probe(given.two_epochs, rows, size, seed)
    orders = [_judge_epoch(parts, rows, size, told) for parts in epochs]
    expect(
        _same(batch, rows), "Afterwards the batch itself was another one: take rows out of it, and leave it as it is."
    )
    expect(orders[0] != numbers.tolist(), "The rows came in the order of the batch: nobody shuffled them.")
    expect(orders[0] != orders[1], "A second epoch over the same batch had the same order: draw from `rng` each time.")
    _judge_shuffle(orders[0], numbers.tolist(), size)
    again, _, _ = answer.probe(given.two_epochs, rows, size, seed)
    expect(
        _judge_epoch(again, rows, size, told) == orders[0],
        "With a generator of the same seed the order was another one: who drew it, if not `rng`?",
    )


def _judge_shuffle(order: list, numbers: list, size: int) -> None:
    """Check that neighbours in the batch were torn apart, inside the minibatches and among them."""
    places = [numbers.index(number) for number in order]
    together = sum(b == a + 1 for a, b in zip(places[:-1], places[1:], strict=True))
    expect(
        together < len(order) / 2,
        "The minibatches came in a new order, but the rows inside kept theirs: shuffle rows, not slices.",
    )
    parts = [places[start : start + size] for start in range(0, len(places), size)]
    expect(
        any(max(part) - min(part) >= len(part) for part in parts),
        "Each minibatch held neighbours of the batch, in a new order: shuffle all rows, then cut.",
    )


def _judge_epoch(parts: list, rows: dict, size: int, told: str) -> list:
    """Return the order in which the rows came, once it is certain that each came once and in one piece."""
    for part in parts:
        expect(isinstance(part, dict), told + f"a minibatch is {part}, not a dict like the batch.")
        expect_equal(sorted(part), sorted(rows), told + f"a minibatch has the columns {sorted(part)}.")
        for name, column in part.items():
            kind = type(column).__name__ if not isinstance(column, str) else column
            expect(
                isinstance(column, np.ndarray), told + f"the column `{name}` of a minibatch is a {kind}, not a tensor."
            )
        lengths = {len(column) for column in part.values()}
        expect(len(lengths) == 1, told + f"the columns of a minibatch have the lengths {sorted(lengths)}.")
    sizes = [len(part["actions"]) for part in parts]
    expect(sizes and max(sizes) <= size, told + f"yours have the sizes {sizes}.")
    came = np.concatenate([part["actions"] for part in parts]).astype(int)
    missing, twice = len(np.setdiff1d(rows["actions"], came)), len(came) - len(np.unique(came))
    expect(not missing, told + f"{missing} rows were in none of them.")
    expect(not twice, told + f"{twice} rows came more than once in one epoch.")
    for part in parts:
        fits = np.allclose(part["obs"][:, 0], part["actions"]) and np.allclose(part["logp"], part["actions"] / 8)
        expect(fits, told + "a row has the observation of one step and the action of another.")
    full = [size] * (len(came) // size)
    expect_equal(sizes[: len(full)], full, told + f"yours have the sizes {sizes}.")
    return came.tolist()


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`scores, values = policy(minibatch['obs'])`, then `likelihood(scores, minibatch['actions'])`, then your loss.",
        "Three lines of PyTorch: forget the old gradients, compute the new ones, step. In this order.",
        "`nn.utils.clip_grad_norm_(policy.parameters(), 0.5)` changes gradients that exist. Where does that belong?",
    ],
)
def train_step(answer: Answer, rng: Generator) -> None:
    """Forget the old gradients, compute the new ones, clip them together, step."""
    actor, critic = rng.normal(0, 0.3, size=(3, 3)), rng.normal(0, 0.3, size=(1, 3))
    for name, far in (("A mild minibatch", 0.05), ("A wild minibatch", 20.0)):
        rows = _minibatch(actor, critic, far, rng)
        seen = answer.probe(given.two_steps, actor.tolist(), critic.tolist(), rows)
        theta, first, second = map(np.array, seen["parameters"])
        expect(np.any(first != theta), f"{name}: after a step of `train_step` no parameter of the policy had moved.")
        want = _step(theta, rows)
        told = f"{name}, learning rate 1: the parameters moved by {np.linalg.norm(first - theta):.4f} in all"
        expect(
            far < 1 or np.linalg.norm(first - theta) < 0.51,
            told + ". The gradient's norm must be clipped to 0.5 before the step.",
        )
        expect_close(
            first,
            want,
            told + ", but not to where equation 9 leads. Are the advantages normalised, is the old log π that of the "
            "minibatch, are ε, c₁ and c₂ the usual ones, does the step go downhill?",
            rtol=1e-3,
            atol=1e-5,
        )
        expect_close(
            second,
            _step(want, rows),
            f"{name}: the first step was right, a second one on the same minibatch was not. What is left of the first?",
            rtol=1e-3,
            atol=1e-4,
        )
        losses = np.array(seen["losses"], float).ravel()
        expect_close(
            losses,
            [_loss_at(theta, rows), _loss_at(want, rows)],
            f"{name}: the steps were right, but `train_step` returned {seen['losses']} for them, not the losses.",
            rtol=1e-3,
            atol=1e-4,
        )
        kinds = set(seen["kinds"])
        expect("Tensor" not in kinds, "The steps were right. `train_step` returned a tensor for the loss, not a float.")


def _minibatch(actor: np.ndarray, critic: np.ndarray, far: float, rng: Generator) -> dict:
    """Return 24 rows whose targets lie `far` from the values, and whose old policy was another one."""
    obs, actions = rng.normal(size=(24, 3)), rng.integers(0, 3, size=24)
    logp = _log_pi(obs @ actor.T)[np.arange(24), actions] + rng.normal(0, 0.3, size=24)
    targets = (obs @ critic.T)[:, 0] + far * rng.normal(1, 0.2, size=24) * (1 if far < 1 else obs[:, 0])
    return {"obs": obs, "actions": actions, "logp": logp, "advantages": rng.normal(3, 2, size=24), "targets": targets}


def _log_pi(scores: np.ndarray) -> np.ndarray:
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def _loss_at(theta: np.ndarray, rows: dict) -> float:
    """Return the loss of a policy with these twelve parameters, nine of the actor and three of the critic."""
    log_pi = _log_pi(rows["obs"] @ theta[:9].reshape(3, 3).T)
    a = rows["advantages"]
    columns = {
        "logp": log_pi[np.arange(24), rows["actions"]],
        "old_logp": rows["logp"],
        "advantages": (a - a.mean()) / (a.std(ddof=1) + 1e-8),
        "values": rows["obs"] @ theta[9:],
        "targets": rows["targets"],
        "entropy": -(np.exp(log_pi) * log_pi).sum(-1),
    }
    return _loss_of(columns)


def _step(theta: np.ndarray, rows: dict) -> np.ndarray:
    """Return the parameters after one step: the slopes by differences, their norm at most 0.5, learning rate 1."""
    nudges = 1e-6 * np.eye(len(theta))
    slopes = np.array([_loss_at(theta + n, rows) - _loss_at(theta - n, rows) for n in nudges]) / 2e-6
    return theta - slopes * min(1.0, 0.5 / float(np.linalg.norm(slopes)))


@exercise(
    points=4,
    minutes=25,
    hints=[
        "Everything is there: `started`, `weight_sync`, `joined`, `minibatches`, `train_step`, `evaluate`. In which order does an iteration call them?",
        "`with started(make_envs, samplers, seed) as actors:` around the loop; in it `[actor.sample.remote() for actor in actors]`, then one `ray.get`.",
        "Does the mean return stay near 20? Then the samplers still play with the first weights, or the optimizer has another policy's parameters.",
        'Return `{"weights": policy.weights(), "curve": curve}`; make the environments with `make_envs`, never `cartpoles`.',
    ],
)
def solve_cartpole(answer: Answer, rng: Generator) -> None:
    """Send, play, learn, test, until a test is good enough; and test once more on episodes that nobody has seen."""
    means: list[float] = []
    for _ in range(SEEDS):
        seed, exam = (int(number) for number in rng.integers(1, 10**6, size=2))
        turn = hard_turn(rng, exam)
        with answer.watch() as seen:
            found = answer.probe(given.learn, turn.tolist(), seed)
        learned = found["learned"]
        _judge_form(learned)
        if not means:
            expect_samplers_kept_up(seen.tasks(), found["sent"])
        means.append(mean_return(partial(_choice, learned["weights"]["actor"]), turn, exam))
        if means[-1] >= SOLVED:
            return
        _judge_promise(float(learned["curve"][-1][2]), means[-1])
        if means[-1] < HOPELESS:
            break
    tests = ", ".join(f"{mean:.0f}" for mean in means)
    expect(
        False,
        f"Mean return of 100 episodes that nobody has seen, after learning with {len(means)} seed(s): {tests}. {SOLVED} is asked for.",
    )


def _judge_promise(test: float, mean: float) -> None:
    """Compare the learner's last test with ours: luck makes a difference, not one like this."""
    expect(
        mean >= HOPELESS or test < SOLVED,
        f"Your last test says {test:.0f}, and on 100 other episodes with `make_envs` the agent had a mean return of "
        f"{mean:.0f}. Do samplers and test use `make_envs`, and are these weights the ones that were tested?",
    )


def _judge_form(learned: Any) -> None:
    form = 'It must return {"weights": policy.weights(), "curve": [...]}; it returned '
    expect(isinstance(learned, dict), form + f"{type(learned).__name__}.")
    expect({"weights", "curve"} <= learned.keys(), form + f"a dict with {sorted(learned)}.")
    weights, curve = learned["weights"], learned["curve"]
    expect(isinstance(weights, dict) and "actor" in weights, form + f"weights that are {type(weights).__name__}.")
    shapes = [[np.shape(part) for part in layer] for layer in weights["actor"]]
    fits = len(shapes) > 0 and shapes[0][0][-1:] == (4,) and shapes[-1][0][:1] == (2,)
    expect(fits, form + f"an actor whose layers have the shapes {shapes}: four numbers come in, two scores go out.")
    expect(len(curve) > 0 and all(len(point) == 3 for point in curve), form + f"a curve of {len(curve)} points.")


def _choice(layers: list, obs: np.ndarray) -> np.ndarray:
    return _scores(layers, obs).argmax(-1)


def _scores(layers: list, x: np.ndarray) -> np.ndarray:
    *hidden, (weight, bias) = layers
    for w, b in hidden:
        x = np.tanh(x @ np.transpose(w) + b)
    return x @ np.transpose(weight) + bias


quiz(
    "end_of_the_clock",
    """
    Step 500 of an episode: the pole stands, and the environment says truncated. The critic says V = 90 for the observation after it. What is γV(s') in the surprise δ of this step, with γ = 0.99?

    a) 0: the episode is over.
        Over for the clock. With 0, an agent that balanced for 500 steps looks as bad as one that dropped the pole.
    *b) 89.1: it would have gone on.
        Right. Nothing about the state says that it must end, so what would have come counts. The sum of later surprises is cut all the same.
    c) The value of the next episode's first observation.
        That belongs to another episode. It is what you get when the reset's frame is taken for experience.
    """,
)

quiz(
    "sync_then_sample",
    """
    `sampler.set_weights.remote(ref)`, and in the next line `sampler.sample.remote()`, without any `ray.get` between. With which weights does it play?

    *a) With the new ones, always.
        Right: calls of one caller to one actor run in the order in which they were made. So nobody has to wait.
    b) With the old ones, if the new ones are still on their way.
        The call of `sample` stands behind that of `set_weights` in the actor's queue, and that one waits for its argument.
    c) That depends on which call arrives first.
        For two *callers* it would. One caller's calls keep their order (as long as the actor is neither asynchronous nor threaded).
    """,
)

quiz(
    "where_it_is_flat",
    """
    A row has advantage +1, and its ratio has risen to 1.5 (ε = 0.2). What does this row contribute to the gradient of L^CLIP?

    a) It pushes the ratio back towards 1.2.
        The minimum is 1.2 wherever the ratio is above it: a constant has no slope in either direction. Other rows may push it back.
    b) It pushes on, more weakly.
        Clipping is not damping. Look at the left picture to the right of the band.
    *c) Nothing.
        Right. It has been made likely enough for one batch; the next batch may go on from there.
    """,
)

quiz(
    "more_samplers",
    """
    In an iteration, one sampler plays for 20 ms, then the learner learns for 80 ms. You have a machine with many cores, and take ten samplers. How much faster is the iteration at best?

    a) Ten times.
        Only the playing is shared out; 80 ms of learning stay.
    *b) About 1.2 times.
        Right: 100 ms become 82 ms. No number of samplers gets below 80. First shorten the learning.
    c) Twice.
        100 ms would have to become 50, and the learning alone takes 80.
    """,
)
