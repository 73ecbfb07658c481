"""The judge's side of chapter 21."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.given import ch21_learners as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, expect, expect_close, expect_equal, expect_type


@exercise(
    points=3,
    minutes=12,
    needs={"CPU": 4},
    hints=[
        "What does `learn` receive when the driver calls `learner.learn.remote(ref_0, ref_1)`: references, or rows?",
        "`{name: np.concatenate([part[name] for part in fragments]) for name in fragments[0]}` is one batch of all fragments.",
        '`{"version": self.version, **self.agent.weights()}` is what a sampler needs; count `self.version` up once for each call of `learn`.',
    ],
)
def LearnerActor(answer: Answer, rng: Generator) -> None:
    """Let Ray turn the references into rows where the learner lives; the driver gets back a few numbers."""
    # Long: what the driver gets, what the agent learns from and what a sampler needs each have their messages.
    start, sizes = float(rng.integers(1, 50)), rng.integers(3, 9, size=(2, 3))
    turns = [[_fragment(rng, int(size)) for size in row] for row in sizes]
    with answer.case("three samplers, two iterations; the driver hands on references and never looks inside"):
        seen = answer.probe(given.iterations, start, turns)
        _expect_replies(seen["replies"], sizes)
        for weights in seen["weights"]:
            good = isinstance(weights, dict) and {"version", "w", "seen"} <= weights.keys()
            expect(
                good,
                f'`weights` must return the agent\'s weights and "version" beside them; it returned {weights!r:.80}.',
            )
        told = expect_type(seen["weights"], list[given.Weights], "what `weights` returned")
        got = told[-1]["seen"] if told else []
        updates = len(got)
        expect(
            updates == 2,
            f"In two iterations `agent.update` was called {updates} times: once with the rows of all samplers.",
        )
        for batch, want in zip(got, turns, strict=True):
            _expect_batch(batch, want)
        _expect_versions(told, start, turns)


def _fragment(rng: Generator, size: int) -> dict:
    return {"obs": rng.integers(0, 9, (size, 4)), "actions": rng.integers(0, 1000, size)}


def _expect_replies(replies: list, sizes: np.ndarray) -> None:
    for version, (reply, due) in enumerate(zip(replies, sizes.sum(axis=1).tolist(), strict=False), 1):
        good = isinstance(reply, dict) and {"version", "rows", "loss"} <= reply.keys()
        expect(good, f'`learn` must return {{"version": ..., "rows": ..., "loss": ...}}; it returned {reply!r:.80}.')
        extra = sorted(map(str, reply.keys() - {"version", "rows", "loss"}))
        expect(not extra, f"`learn` also returned {extra}: what it returns travels to the driver, so keep it small.")
        expect_equal(
            reply["version"],
            version,
            f"After call {version} of `learn` the version was {reply['version']}: it begins at 0 and grows by one.",
        )
        expect_equal(
            reply["rows"], due, f"`learn` said that it learned from {reply['rows']} rows; the samplers sent {due}."
        )
        expect_equal(reply["loss"], due, "The loss is not what `agent.update` returned.")


def _expect_batch(batch: dict[str, np.ndarray], want: list[dict]) -> None:
    columns, names = sorted(batch), sorted(want[0])
    expect_equal(columns, names, f"`agent.update` got the columns {columns}; the samplers sent {names}.")
    sent = {name: np.concatenate([part[name] for part in want]) for name in names}
    expect(
        all(batch[name].shape == sent[name].shape for name in names),
        "`agent.update` did not get the rows of all samplers.",
    )
    got, due = (Counter(map(tuple, np.column_stack([rows[name] for name in names]).tolist())) for rows in (batch, sent))
    expect(got == due, "The rows that `agent.update` got are not those that the samplers sent.")


def _expect_versions(found: list[given.Weights], start: float, turns: list) -> None:
    want = np.full(4, start)
    for version, weights in enumerate(found):
        said = weights["version"]
        expect_equal(said, version, f"After {version} calls of `learn`, `weights` said version {said}.")
        expect_close(weights["w"], want, f"The weights of version {version} are not those of the agent at that time.")
        if version < len(turns):
            want = want + sum(part["obs"].sum(0) for part in turns[version])


@exercise(
    points=4,
    minutes=20,
    hints=[
        "`parts = np.array_split(array, size)` gives a part for each learner, even where the division leaves a remainder. Make it a list of your own sums.",
        "The first half: in step s, send part `(me - s) % size` to the right, and add what comes from the left to part `(me - s - 1) % size`. After size - 1 steps, which part is complete here?",
        "The second half sends complete parts round: in step s, part `(me + 1 - s) % size` goes to the right, and what comes from the left *replaces* part `(me - s) % size`.",
    ],
)
def all_reduce(answer: Answer, rng: Generator) -> None:
    """Send parts round a ring twice: once to add them up, once to hand the sums out."""
    for size, numbers in [(3, 600), (4, 1001), (5, 603), (2, 7), (5, 3), (1, 4)]:
        arrays = rng.normal(0, 1, (size, numbers))
        with answer.case(f"learners: {size}, numbers in each array: {numbers}"):
            seen = answer.probe(given.reduced, [each.tolist() for each in arrays])
            expect(not seen["stuck"], f"{seen['stuck']} Does each of them send before it waits?")
            _expect_means(seen["results"], arrays)
            _expect_traffic(seen["messages"], size, numbers)


def _expect_means(results: list, arrays: np.ndarray) -> None:
    want, numbers = arrays.mean(0), arrays.shape[1]
    for me, got in enumerate(results):
        expect(
            isinstance(got, list | tuple | np.ndarray) and len(got) == numbers,
            f"Learner {me} ended with {got!r:.60}; each must end with an array of {numbers} numbers.",
        )
        expect_close(
            got,
            want,
            f"Learner {me} did not end with the mean over all learners.",
            rtol=1e-4,
            atol=1e-5,
            mistakes={
                f"Learner {me} ended with the sum over all learners, not with the mean.": want * len(arrays),
                f"Learner {me} ended with its own array.": arrays[me],
            },
        )
    expect(
        all(agree(got, results[0]) for got in results),
        "All learners are close to the mean, but not bit by bit equal: each added in another order, and their weights would drift apart.",
    )


def _expect_traffic(messages: list[tuple[int, int, int]], size: int, numbers: int) -> None:
    moved = Counter[tuple[str, int]]()
    for sender, receiver, count in messages:
        moved.update({("sent", sender): count, ("got", receiver): count})
    busiest = max(moved.values(), default=0)
    times, limit = busiest / numbers, 2 * (size - 1) * -(-numbers // size)
    expect(
        busiest <= limit,
        f"The busiest learner sent or received {busiest} numbers, {times:.1f} times its array; round a ring it is at most {limit}.",
    )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Go backwards as in `gae`. Equation (1) has a recursive form: what must be added to δ_t, and by what is it multiplied?",
        "`delta = rho[t] * (rewards[t] + gamma * values[t + 1] * ~terminated[t] - values[t])`, then `later = delta + gamma * c[t] * later`, where nothing later counts after an end.",
        "In the advantage v_{t+1} takes the place of V(x_{t+1}). At t = T - 1, and where an episode was truncated, no target of this episode follows: V(x_{t+1}) is all that is known.",
    ],
)
def vtrace(answer: Answer, rng: Generator) -> None:
    """Weigh each surprise by how likely the policy would have caused it, cut the trace by c, and never pass an end."""
    # Long: it computes equation (1) by itself, and names what each mistake would give.
    shape, gamma = (7, 4), float(rng.uniform(0.8, 0.95))
    none = np.zeros(shape, bool)
    case: dict[str, Any] = {"rewards": rng.normal(0, 1, shape), "values": rng.normal(0, 1, (8, 4))}
    case |= {"ratios": np.ones(shape), "terminated": none, "truncated": none, "gamma": gamma}
    _judge_vtrace(answer, "on-policy, no episode ends: all ratios are 1", case)
    case["ratios"] = np.exp(rng.normal(0, 0.8, shape))
    _judge_vtrace(answer, "ratios between 0.1 and 10, no episode ends, ρ̄ and c̄ 1", case)
    far = case | {"rho_bar": float(rng.uniform(1.6, 2.2)), "c_bar": float(rng.uniform(0.5, 0.8))}
    _judge_vtrace(answer, f"the same with ρ̄ {far['rho_bar']:.2f} and c̄ {far['c_bar']:.2f}", far)
    ends = rng.random(shape) < 0.3
    ends[2, 0], ends[3, 1], ends[-1, :2] = True, True, True
    terminated = ends & (rng.random(shape) < 0.5)
    terminated[2, 0], terminated[3, 1] = True, False
    with_ends = far | {"terminated": terminated, "truncated": ends & ~terminated}
    _judge_vtrace(answer, "the same, and some episodes are terminated or truncated", with_ends)


def _judge_vtrace(answer: Answer, text: str, case: dict) -> None:
    with answer.case(text):
        found = answer(**case)
        pair = isinstance(found, tuple | list | np.ndarray) and len(found) == 2
        expect(pair, f"It must return two arrays, (targets, advantages); it returned {found!r:.60}.")
        targets, advantages = (expect_type(each, np.ndarray, "the targets or advantages") for each in found)
        shape = case["rewards"].shape
        expect(
            targets.shape == advantages.shape == shape,
            f"For rewards of shape {shape} came targets of shape {targets.shape} and advantages of {advantages.shape}.",
        )
        right = _vtrace(case)
        swapped = case | {name: case.get(other, 1.0) for name, other in (("rho_bar", "c_bar"), ("c_bar", "rho_bar"))}
        unclipped = case | {"rho_bar": np.inf, "c_bar": np.inf}
        on_policy = case | {"ratios": np.ones(shape)}
        through = case | {"terminated": np.zeros(shape, bool), "truncated": np.zeros(shape, bool)}
        alike = case | {"terminated": case["terminated"] | case["truncated"], "truncated": np.zeros(shape, bool)}
        expect_close(
            targets,
            right[0],
            "The targets are not those of equation (1).",
            mistakes={
                "These are the targets without any ratio: the samplers' policy is taken for the learner's.": _vtrace(
                    on_policy
                )[0],
                "The ratios are not clipped: one large ratio weighs as much as all others.": _vtrace(unclipped)[0],
                "ρ̄ and c̄ have changed places.": _vtrace(swapped)[0],
                "These are the targets less V(x_t): equation (1) adds it.": right[0] - case["values"][:-1],
                "The targets look past the end of an episode.": _vtrace(through)[0],
                "A truncated episode has a state to come whose value counts; only a terminated one has none.": _vtrace(
                    alike
                )[0],
            },
        )
        values = case["values"]
        rho = np.minimum(case["ratios"], case.get("rho_bar", 1.0))
        plain = rho * (case["rewards"] + case["gamma"] * values[1:] * ~case["terminated"] - values[:-1])
        expect_close(
            advantages,
            right[1],
            "The targets are right; the advantages are not ρ_t (r_t + γ v_{t+1} - V(x_t)).",
            mistakes={
                "The advantages are without ρ_t.": right[1] / rho,
                "In the advantages stands V(x_{t+1}), where the target v_{t+1} is due.": plain,
                "These are the targets less the values; the paper's advantage has one step and then v_{t+1}.": right[0]
                - values[:-1],
            },
        )


def _vtrace(case: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return targets and advantages by the sum of equation (1), step by step, each environment for itself."""
    rewards, values, gamma = case["rewards"], case["values"], case["gamma"]
    rho, c = (np.minimum(case["ratios"], case.get(name, 1.0)) for name in ("rho_bar", "c_bar"))
    going, targets = ~case["terminated"], np.zeros_like(rewards)
    delta = rho * (rewards + gamma * values[1:] * going - values[:-1])
    last = case["terminated"] | case["truncated"]
    for start, env in np.ndindex(rewards.shape):
        total, weight = values[start, env], 1.0
        for t in range(start, len(rewards)):
            total += weight * delta[t, env]
            if last[t, env]:
                break
            weight *= gamma * c[t, env]
        targets[start, env] = total
    following = np.concatenate([targets[1:], values[-1:]])
    following = np.where(last, values[1:], following) * going
    return targets, rho * (rewards + gamma * following - values[:-1])


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        '`sampler.stream.options(num_returns="streaming").remote(count)` returns a generator at once; `next(generator)` returns the reference of its next fragment.',
        "`ray.wait` also takes generators: `ready, _ = ray.wait(list(streams))` tells from which of them `next` will not wait.",
        "A stream that is over is ready, too: `next` raises StopIteration, and you take it out of the list. Give `learn.remote` the reference itself.",
    ],
)
def stream_samples(answer: Answer, rng: Generator) -> None:
    """Wait for all streams at once, and hand each reference on as soon as it is there."""
    count = 4
    marks = (rng.permutation(900)[: 2 * count] + 1).reshape(2, count).tolist()
    slow = int(rng.integers(0, 2))
    waits: list[list] = [[], []]
    waits[slow], waits[1 - slow] = [[0, f"{1 - slow}-2"]], [[count - 1, f"{slow}-0"]]
    text = f"two samplers with {count} fragments each; number {slow} begins when three of the other's have been learned"
    with answer.case(text):
        seen = answer.probe(given.streamed, marks, count, waits)
        if seen["missed"]:
            me, other = seen["missed"]
            expect(
                False,
                f"Sampler {me} waited in vain until fragment {other} had been learned: hand each fragment on as soon as it is there, whichever stream it comes from.",
            )
        _expect_learned(seen, marks)


def _expect_learned(seen: given.Streamed, marks: list) -> None:
    kinds = ", ".join(sorted(set(seen["how"]) - {"ObjectRef"}))
    expect(
        not kinds,
        f"`learn` was called with a {kinds} in the driver: give it the reference, and the rows go from sampler to learner.",
    )
    due = sorted(mark for each in marks for mark in each)
    learned = sorted(mark for _, mark in seen["seen"])
    sent, calls, different = len(due), len(learned), len(set(learned))
    expect(learned == due, f"Of {sent} fragments the learner saw {different}, in {calls} calls.")
    found = seen["found"]
    expect(
        isinstance(found, list | tuple) and len(found) == sent,
        f"It must return a list with what `learn` returned, {sent} numbers here; it returned {found!r:.60}.",
    )
    numbers = sorted(expect_type(found, list[float], "the list"))
    expect_equal(
        numbers, [10 * mark for mark in due], "The list does not hold what `learn` returned for each fragment."
    )


@exercise(
    points=4,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "An async method waits for a future, and others run meanwhile (chapter 3): `self.waiting[sampler] = (obs, future)`, then `return await future`.",
        "Both `act` and `leave` may complete a batch. What is true then of `len(self.waiting)` and of the samplers that are still there?",
        "Take all that wait, and empty `self.waiting`, before you fill the futures; and call no network when no sampler waits: when the last sampler leaves, none of them waits.",
    ],
)
def inference_actor(answer: Answer, rng: Generator) -> None:
    """Answer when all that are still there have asked; a sampler that leaves may be the one that completes the batch."""
    lengths = [4, 2, 5, 2, 3]
    order = rng.permutation(len(lengths))
    rows = [rng.integers(-9, 9, (lengths[place], 3)).tolist() for place in order]
    matrix = rng.normal(0, 1, (3, 2))
    sizes = [sum(length > turn for length in lengths) for turn in range(max(lengths))]
    with answer.case(f"five samplers that leave after {sorted(lengths)} questions"):
        seen = answer.probe(given.asked, matrix.tolist(), rows)
        expect(not seen["kind"], f"It must return the handle of an actor that runs; it returned a {seen['kind']}.")
        if seen["late"]:
            turn, late, there = seen["late"]
            expect(
                turn in (0, 1),
                f"In turn {turn} there were {there} samplers left, and calls without an answer: {late}. Do they wait for samplers that left?",
            )
            expect(False, f"All {there} samplers asked, and calls without an answer: {late}.")
        expect_equal(
            seen["sizes"],
            sizes,
            f"The network was called with batches of {seen['sizes']}; one batch of all that are there, in each turn, is {sizes}.",
        )
        got = expect_type([row for each in seen["answers"] for row in each], np.ndarray, "the answers")
        want = np.concatenate(rows) @ matrix
        questions = len(want)
        expect(
            got.shape == want.shape,
            f"The samplers asked {questions} times for one row each, and got answers of shape {got.shape}.",
        )
        expect_close(got, want, "A sampler got the answer to the observation of another.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Four things: `policy.state_dict()`, `optimizer.state_dict()`, the number of iterations done, and the state of *both* random generators.",
        "`rng.bit_generator.state` is NumPy's, to read and to set; `torch.get_rng_state()` and `torch.set_rng_state(...)` are PyTorch's.",
        "`torch.save` into another name in the same folder, then `os.replace(new, path)`: chapter 5. `torch.load(path, weights_only=False)` reads it.",
    ],
)
def resume_training(answer: Answer, rng: Generator) -> None:
    """Save what decides about the future, both generators included, under another name, and rename."""
    # Long: five runs are compared by what they drew, so that the message can name what was forgotten.
    pushes, seed = rng.normal(0, 1, (8, 3)), int(rng.integers(1, 10**6))
    deaths = [["iterate", 3], ["save", 2], [], []]
    with answer.case("6 iterations; killed in the third, then killed while it saves, then left alone"):
        whole, killed, torn, last, after = answer.probe(given.killed_and_resumed, pushes.tolist(), seed, 6, deaths)
        drawn, weights = whole["drawn"], whole["weights"]
        calls = len(drawn)
        expect(calls == 6, f"Without a kill, `iterate` was called {calls} times; 6 were due.")
        expect(not isinstance(weights, str), f"It must return the policy; it returned {weights}.")
        expect_close(
            weights, _trained(pushes, drawn), "Without a kill, the policy is not what six iterations make of it."
        )
        expect(killed["died"], "The first run was not killed where it should have been.")
        _expect_resumed(torn, 2, drawn)
        saved = 2 + len(torn["drawn"]) - torn["died"]
        _expect_resumed(last, saved, drawn, torn=torn["died"])
        expect_equal(
            last["weights"],
            weights,
            "All draws are those of the run that was not killed, and the weights are others: what else changes from step to step?",
        )
        again = len(after["drawn"])
        expect(not again, f"When all was done it was called once more, and played {again} iterations again.")
        expect_equal(
            after["weights"], weights, "When all was done it was called once more: it returned another policy."
        )


def _expect_resumed(run: given.Ran, saved: int, drawn: list, torn: bool = False) -> None:
    """Check that a run continued after this many iterations, with the generators as they had been."""
    text, got, iterations = run["raised"], run["drawn"], len(drawn)
    played, due = len(got), iterations - saved
    expect(
        not (text and torn),
        f"The process was killed while it saved, and the next one raised {text:.90}. What did it find under `path`?",
    )
    expect(not text, f"Started again after a kill, it raised {text:.120}.")
    expect(
        got != drawn[:played] or not got,
        "After a kill it drew the numbers of the first iterations again: it began from the start.",
    )
    expect(
        run["died"] or played == due,
        f"Of {iterations} iterations {saved} had been saved, and after the kill it played {played}; {due} were left.",
    )
    for place, name in enumerate(("NumPy", "PyTorch")):
        same = all(ours[place] == theirs[place] for ours, theirs in zip(got, drawn[saved:], strict=False))
        expect(same, f"After a kill {name}'s generator drew other numbers than in the run that was not killed.")


def _trained(pushes: np.ndarray, drawn: list) -> list[float]:
    """Return the weights after these draws: gradient descent with momentum, in NumPy."""
    weights, speed = np.zeros(3), np.zeros(3)
    for first, second in drawn:
        speed = 0.9 * speed + pushes[first] + 2 * pushes[second] + 0.1 * weights
        weights = weights - 0.1 * speed
    found: list[float] = weights.tolist()
    return found


question(
    "who_holds_the_rows",
    """
    Two samplers make 5 MB of rows each. The driver calls `learner.learn.remote(ref_0, ref_1)`. Which processes hold these rows at any time?

    a) The samplers, the driver and the learner: a reference is fetched where it is used, and the driver uses it.
        Passing a reference on is not using it. The driver only knows where the rows are.
    *b) The samplers, the object store and the learner.
        Right. Ray fetches the arguments for the actor that runs the call. On several nodes they travel from the sampler's node to the learner's, and the driver may be on a third.
    c) Only the learner: the samplers run inside it.
        Each sampler is an actor with a process of its own.
    """,
)

question(
    "ring_of_many",
    """
    Gradients of 100 MB. With 4 learners, each sends 150 MB round the ring. How much does each send with 64 learners?

    a) 2,400 MB: sixteen times as much.
        Each learner talks to one neighbour, and with sixteen times the learners each part is a sixteenth as large.
    *b) About 197 MB, in 126 messages.
        Right: 2 · 63/64 of the array. The bytes hardly grow; the number of steps does, and each costs a delay. That is why many small arrays go through a tree, or are first joined to a large one.
    c) 1.6 MB, since each part is a 64th.
        Each part is a 64th, and each learner sends 126 of them.
    """,
)

question(
    "rho_or_c",
    """
    With ρ̄ = 1, an action that the learner's policy likes ten times as much as the sampler's did counts only once. What does that do to V-trace?

    *a) The values converge to those of another policy, between the sampler's and the learner's.
        Right: ρ̄ decides *what* is learned. Only with a large ρ̄ is it the learner's own policy, at the price of noise.
    b) It only slows the learning down: the values converge to the same.
        That is c̄: it decides how far a surprise travels back, and so how fast, but not what is learned.
    c) Nothing: ratios above 1 are wrong anyway.
        A ratio above 1 is as right as one below: their mean over the sampler's actions is 1.
    """,
)

question(
    "one_network_or_many",
    """
    Forty samplers on a CPU cluster, a policy of 300 MB, a simulator that needs 20 ms a step. A network in each sampler, or one inference actor on a GPU?

    a) A network in each: a question over the network costs more than the answer.
        A question costs a millisecond or less. Forty times 300 MB, read on a CPU for every single step, costs more.
    *b) One inference actor: it answers forty rows at once, and new weights go to a single place.
        Right. That is SEED's argument. With a policy of 20 kB and a simulator of 20 µs the reverse would hold.
    c) It makes no difference: the number of multiplications is the same.
        A batch reads the weights once for forty rows, and a GPU computes them at the same time.
    """,
)
