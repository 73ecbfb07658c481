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
        "When the driver calls `learner.learn.remote(ref_0, ref_1)`, what does `learn` get: references, or rows?",
        "`{name: np.concatenate([part[name] for part in fragments]) for name in fragments[0]}` joins all fragments into one batch.",
        '`{"version": self.version, **self.agent.weights()}` is what a sampler needs; add 1 to `self.version` once per call to `learn`.',
    ],
)
def LearnerActor(answer: Answer, rng: Generator) -> None:
    """Let Ray turn the references into rows in the learner's process, and return only a few numbers to the driver."""
    # Long: what the agent learns from, what the driver gets, and what a sampler needs each have their messages.
    start, sizes = float(rng.integers(1, 50)), rng.integers(3, 9, size=(2, 3))
    turns = [[_fragment(rng, int(size)) for size in row] for row in sizes]
    with answer.case("three samplers, two iterations; the driver passes references"):
        seen = answer.probe(given.iterations, start, turns)
        for weights in seen["weights"]:
            good = isinstance(weights, dict) and {"version", "w", "seen"} <= weights.keys()
            expect(
                good,
                f'`weights` must return the agent\'s dict of weights with one more key, "version"; it returned {weights!r:.80}.',
            )
        told = expect_type(seen["weights"], list[given.Weights], "what `weights` returned")
        got = told[-1]["seen"] if told else []
        updates = len(got)
        expect(
            updates == 2,
            f"Two iterations need two calls to `agent.update`, each with the rows of all samplers; the number of calls was {updates}.",
        )
        for batch, want in zip(got, turns, strict=True):
            _expect_batch(batch, want)
        _expect_replies(seen["replies"], sizes, [float(np.mean(batch["obs"])) for batch in got])
        _expect_versions(told, start, turns)


def _fragment(rng: Generator, size: int) -> dict:
    return {"obs": rng.integers(0, 9, (size, 4)), "actions": rng.integers(0, 1000, size)}


def _expect_replies(replies: list, sizes: np.ndarray, losses: list[float]) -> None:
    rows = sizes.sum(axis=1).tolist()
    for version, (reply, due, loss) in enumerate(zip(replies, rows, losses, strict=False), 1):
        good = isinstance(reply, dict) and {"version", "rows", "loss"} <= reply.keys()
        expect(good, f'`learn` must return {{"version": ..., "rows": ..., "loss": ...}}; it returned {reply!r:.80}.')
        extra = sorted(map(str, reply.keys() - {"version", "rows", "loss"}))
        expect(not extra, f"`learn` also returned {extra}. What it returns goes to the driver, so keep it small.")
        expect_equal(
            reply["version"],
            version,
            f"Call {version} to `learn` returned version {reply['version']!r:.40}. The version starts at 0, and each call adds 1.",
        )
        expect_equal(
            reply["rows"],
            due,
            f"`learn` returned {reply['rows']!r:.40} as the number of rows; the samplers sent {due}.",
        )
        expect_equal(
            reply["loss"],
            loss,
            f"Call {version} to `learn` returned the loss {reply['loss']!r:.40}; `agent.update` returned {loss:.4g}.",
        )


def _expect_batch(batch: dict[str, np.ndarray], want: list[dict]) -> None:
    columns, names = sorted(batch), sorted(want[0])
    expect_equal(columns, names, f"`agent.update` got the keys {columns}; the fragments have {names}.")
    sent = {name: np.concatenate([part[name] for part in want]) for name in names}
    expect(
        all(batch[name].shape == sent[name].shape for name in names),
        "The arrays that `agent.update` got don't have the length or the shape of all fragments joined.",
    )
    got, due = (Counter(map(tuple, np.column_stack([rows[name] for name in names]).tolist())) for rows in (batch, sent))
    expect(got == due, "The rows that `agent.update` got aren't those that the samplers sent.")


def _expect_versions(found: list[given.Weights], start: float, turns: list) -> None:
    want = np.full(4, start)
    for version, weights in enumerate(found):
        said = weights["version"]
        expect_equal(said, version, f"After {version} calls to `learn`, `weights` returned version {said!r:.40}.")
        expect_close(
            weights["w"],
            want,
            f"At version {version}, `weights` didn't return the weights that the agent had at that time.",
        )
        if version < len(turns):
            want = want + sum(part["obs"].sum(0) for part in turns[version])


@exercise(
    points=4,
    minutes=20,
    hints=[
        "`parts = list(np.array_split(array, size))` has one part per learner, even if the division leaves a remainder. The parts are read-only, so replace `parts[i]` instead of adding in place.",
        "First round, step s: send part `(me - s) % size` to the right, and add what comes from the left to part `(me - s - 1) % size`. After size - 1 steps, which part is complete in this learner?",
        "Second round, step s: the complete part `(me + 1 - s) % size` goes to the right, and what comes from the left *replaces* part `(me - s) % size`.",
    ],
    spare=["        parts[mine] += receive(left)"],
)
def all_reduce(answer: Answer, rng: Generator) -> None:
    """Send the parts around the ring twice: once to sum them, and once to distribute the sums."""
    # Long: what each learner returns and what it sends have their own messages.
    for size, numbers in [(3, 600), (4, 1001), (5, 603), (2, 7), (5, 3), (1, 4)]:
        arrays = rng.normal(0, 1, (size, numbers))
        with answer.case(f"learners: {size}; numbers in each array: {numbers}"):
            seen = answer.probe(given.reduced, [each.tolist() for each in arrays])
            expect(
                not seen["stuck"],
                f"{seen['stuck']} Each `receive` takes one message, which the other learner has to send, and if all learners receive before they send, none of them ever sends.",
            )
            _expect_means(seen["results"], arrays)
            _expect_traffic(seen["messages"], size, numbers)


def _expect_means(results: list, arrays: np.ndarray) -> None:
    want, numbers = arrays.mean(0), arrays.shape[1]
    for me, got in enumerate(results):
        length = len(got) if isinstance(got, list | tuple | np.ndarray) else None
        expect(
            length == numbers,
            f"Learner {me} returned {got!r:.60} (length: {length}); each learner must return an array of {numbers} numbers.",
        )
        expect_close(
            got,
            want,
            f"Learner {me} didn't return the mean of all arrays.",
            rtol=1e-4,
            atol=1e-5,
            mistakes={
                f"Learner {me} returned the sum of all arrays instead of the mean.": want * len(arrays),
                f"Learner {me} returned its own array.": arrays[me],
            },
        )
    expect(
        all(agree(got, results[0]) for got in results),
        "All results are close to the mean, but they differ in their last bits, so the learners' weights would drift apart. Sums in different orders round differently.",
    )


def _expect_traffic(messages: list[tuple[int, int, int]], size: int, numbers: int) -> None:
    moved = Counter[tuple[str, int]]()
    for sender, receiver, count in messages:
        moved.update({("sent", sender): count, ("got", receiver): count})
    busiest = max(range(size), key=lambda me: max(moved["sent", me], moved["got", me]))
    sent, got, limit = moved["sent", busiest], moved["got", busiest], 2 * (size - 1) * -(-numbers // size)
    expect(
        max(sent, got) <= limit,
        f"Learner {busiest} sent {sent} numbers and received {got}. In a ring, each learner sends at most {limit} and receives at most {limit}.",
    )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Go backward in time, as in `gae`. In the recursion (remark 1), what do you add to δ_t, and by what do you multiply it?",
        "`delta = rho[t] * (rewards[t] + gamma * values[t + 1] * (1.0 - terminated[t]) - values[t])`, then `later = delta + gamma * c[t] * later`, where the old `later` counts as 0 if the episode ended at t.",
        "In the advantage, v_{t+1} takes the place of V(x_{t+1}). After the last step of an episode or of the fragment, there is no v_{t+1}, so V(x_{t+1}) stays.",
    ],
    spare=["        later = delta + gamma * c[t] * later"],
)
def vtrace(answer: Answer, rng: Generator) -> None:
    """Weight each TD error by ρ, limit how far it reaches back with c, and never continue a sum into the next episode."""
    # Long: it computes equation (1) in another way, and names what each mistake would give.
    shape, gamma = (7, 4), float(rng.uniform(0.8, 0.95))
    none = np.zeros(shape, bool)
    case: dict[str, Any] = {"rewards": rng.integers(-3, 4, shape), "values": rng.normal(0, 1, (8, 4))}
    case |= {"ratios": np.ones(shape), "terminated": none, "truncated": none, "gamma": gamma}
    _judge_vtrace(answer, "on-policy, no episode ends: all ratios are 1, the rewards are integers", case)
    case |= {"ratios": np.exp(rng.normal(0, 0.8, shape)), "rewards": rng.normal(0, 1, shape)}
    _judge_vtrace(answer, "ratios between 0.1 and 10, no episode ends, ρ̄ and c̄ 1", case)
    far = case | {"rho_bar": float(rng.uniform(1.6, 2.2)), "c_bar": float(rng.uniform(0.5, 0.8))}
    _judge_vtrace(answer, f"the same with ρ̄ {far['rho_bar']:.2f} and c̄ {far['c_bar']:.2f}", far)
    ends = rng.random(shape) < 0.3
    terminated = ends & (rng.random(shape) < 0.5)
    truncated = ends & ~terminated
    terminated[[2, 3, 4, -1], [0, 1, 2, 0]], truncated[[2, 3, 4, -1], [0, 1, 2, 0]] = (
        [True, False, True, True],
        [False, True, True, False],
    )
    with_ends = far | {"terminated": terminated, "truncated": truncated}
    _judge_vtrace(answer, "the same, and some episodes are terminated, truncated, or both", with_ends)


def _judge_vtrace(answer: Answer, text: str, case: dict) -> None:
    with answer.case(text):
        found = answer(**case)
        pair = isinstance(found, tuple | list | np.ndarray) and len(found) == 2
        expect(pair, f"It must return two arrays, (targets, advantages); it returned {found!r:.60}.")
        targets, advantages = (expect_type(each, np.ndarray, "the targets or advantages") for each in found)
        shape = case["rewards"].shape
        expect(
            targets.shape == advantages.shape == shape,
            f"For rewards of shape {shape}, it returned targets of shape {targets.shape} and advantages of shape {advantages.shape}.",
        )
        expect(
            targets.dtype.kind == advantages.dtype.kind == "f",
            "The targets or the advantages are integers, so their fractions are lost. An array that `np.zeros_like` creates from integer rewards holds integers, too.",
        )
        right, going, both = _vtrace(case), ~case["terminated"], case["terminated"] & case["truncated"]
        swapped = case | {name: case.get(other, 1.0) for name, other in (("rho_bar", "c_bar"), ("c_bar", "rho_bar"))}
        unclipped = case | {"rho_bar": np.inf, "c_bar": np.inf}
        on_policy = case | {"ratios": np.ones(shape)}
        through = case | {"terminated": np.zeros(shape, bool), "truncated": np.zeros(shape, bool)}
        alike = case | {"terminated": case["terminated"] | case["truncated"], "truncated": np.zeros(shape, bool)}
        cut = case | {"terminated": case["terminated"] & ~both}
        expect_close(
            targets,
            right[0],
            "The targets aren't those of equation (1).",
            mistakes={
                "The first array holds the targets with all ratios 1, as if the samplers' policy were the learner's.": _vtrace(
                    on_policy
                )[0],
                "The TD errors lack the factor ρ_t.": _vtrace(case, weighted=False)[0],
                "The ratios have no limits, so a single large ratio can outweigh all others.": _vtrace(unclipped)[0],
                "ρ̄ and c̄ are swapped.": _vtrace(swapped)[0],
                "The first array holds the targets minus V(x_t), which equation (1) adds.": right[0]
                - case["values"][:-1],
                "The sums continue past the end of an episode.": _vtrace(through)[0],
                "A truncated episode would have continued, so V(x_{t+1}) counts; only after a terminated one is it 0.": _vtrace(
                    alike
                )[0],
                "If both flags are set, the episode has terminated, so V(x_{t+1}) counts as 0.": _vtrace(cut)[0],
            },
        )
        values = case["values"]
        rho = np.minimum(case["ratios"], case.get("rho_bar", 1.0))
        plain = rho * (case["rewards"] + case["gamma"] * values[1:] * going - values[:-1])
        later = np.concatenate([right[0][1:], values[-1:]])
        expect_close(
            advantages,
            right[1],
            "The targets are right, but the advantages aren't ρ_t (r_t + γ v_{t+1} - V(x_t)), or they're wrong after the last step of an episode or of the fragment.",
            mistakes={
                "The advantages lack the factor ρ_t.": right[1] / rho,
                "The advantages use V(x_{t+1}) in every step, instead of the target v_{t+1}.": plain,
                "The second array holds the targets minus the values; the paper's advantage looks one step ahead and then uses v_{t+1}.": right[
                    0
                ]
                - values[:-1],
                "After a truncated step, the advantages use the target of the next episode.": rho
                * (case["rewards"] + case["gamma"] * later * going - values[:-1]),
            },
        )


def _vtrace(case: dict, weighted: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return targets and advantages by the sum of equation (1), one environment after the other, perhaps with unweighted TD errors."""
    rewards, values, gamma = case["rewards"], case["values"], case["gamma"]
    rho, c = (np.minimum(case["ratios"], case.get(name, 1.0)) for name in ("rho_bar", "c_bar"))
    going, targets = ~case["terminated"], np.zeros(rewards.shape)
    delta = (rho if weighted else 1.0) * (rewards + gamma * values[1:] * going - values[:-1])
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
        '`sampler.stream.options(num_returns="streaming").remote(count)` returns a generator at once, and `next(generator)` returns the reference of its next fragment.',
        "`[ready], _ = ray.wait(streams, num_returns=1)` returns a generator whose `next` won't wait.",
        "A stream that has ended is ready, too: its `next` raises `StopIteration`, and you remove it from the list. Pass the reference itself to `learn.remote`.",
    ],
    spare=["            learned.append(learner.learn.remote(ray.get(next(stream))))"],
)
def stream_samples(answer: Answer, rng: Generator) -> None:
    """Wait for all streams at once, and pass on each reference as soon as it arrives."""
    count = 4
    marks = (rng.permutation(900)[: 2 * count] + 1).reshape(2, count).tolist()
    slow = int(rng.integers(0, 2))
    waits: list[list] = [[], []]
    waits[slow], waits[1 - slow] = [[0, f"{1 - slow}-2"]], [[count - 1, f"{slow}-0"]]
    text = f"two samplers with {count} fragments each; sampler {slow} starts when the learner has three of the other's"
    with answer.case(text):
        seen = answer.probe(given.streamed, marks, count, waits)
        if seen["missed"]:
            me, other = seen["missed"]
            expect(
                False,
                f"Sampler {me} waited in vain for the learner to get fragment {other} (sampler-number). Stream {count} fragments from each sampler in one call, and pass on each one as soon as it arrives, whichever stream it comes from.",
            )
        _expect_learned(seen, marks)


def _expect_learned(seen: given.Streamed, marks: list) -> None:
    kinds = ", ".join(sorted(set(seen["how"]) - {"ObjectRef"}))
    expect(
        not kinds,
        f"The driver called `learn` with {kinds}. If you pass the reference itself, the rows go from sampler to learner.",
    )
    due = sorted(mark for each in marks for mark in each)
    learned = sorted(mark for _, mark in seen["seen"])
    sent, calls, different = len(due), len(learned), len(set(learned))
    expect(learned == due, f"Of {sent} different fragments, the learner got {different}, in {calls} calls.")
    found = seen["found"]
    expect(
        isinstance(found, list | tuple) and len(found) == sent,
        f"It must return a list of what `learn` returned, here {sent} numbers; it returned {found!r:.60}.",
    )
    numbers = sorted(expect_type(found, list[float], "the list"))
    expect_equal(
        numbers, [10 * mark for mark in due], "The list doesn't contain what `learn` returned for each fragment."
    )


@exercise(
    points=4,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "While an async method awaits a future, other calls run (Chapter 3): `self.waiting[sampler] = (obs, future)`, then `return await future`.",
        "Both `act` and `leave` may complete a batch. When it's complete, what do you know about the keys of `self.waiting` and the samplers that haven't left?",
        "Empty `self.waiting` before you set the futures' results. And don't call the network if nobody waits: that's so when the last sampler leaves.",
    ],
)
def inference_actor(answer: Answer, rng: Generator) -> None:
    """Call the network when all remaining samplers have asked; a sampler that leaves may complete the batch."""
    lengths = [4, 2, 5, 2, 3]
    order = rng.permutation(len(lengths))
    rows = [rng.integers(-9, 9, (lengths[place], 3)).tolist() for place in order]
    numbers = rng.permutation(90)[: len(lengths)].tolist()
    matrix = rng.normal(0, 1, (3, 2))
    sizes = [sum(length > turn for length in lengths) for turn in range(max(lengths))]
    with answer.case(f"five samplers, numbers {numbers}, that leave after {sorted(lengths)} observations"):
        seen = answer.probe(given.asked, matrix.tolist(), numbers, rows)
        expect(
            not seen["kind"],
            f"It must return the handle of an actor that has been started; it returned: {seen['kind']}.",
        )
        if seen["late"]:
            before, late, there = seen["late"]
            turn = before + 1
            expect(
                before < min(lengths),
                f"In round {turn}, the {there} remaining samplers asked, and then those that were done left. Of the {there} calls to `act`, {late} never returned (the check waited at least 10 seconds). A batch is complete when all samplers that haven't left have asked, and `leave` may be the call that completes it.",
            )
            expect(
                False,
                f"All {there} samplers asked, and {late} of these calls to `act` never returned (the check waited at least 10 seconds). A call that waits must let the others run, and the last one completes the batch.",
            )
        expect_equal(
            seen["sizes"],
            sizes,
            f"The network was called with batches of {seen['sizes']} rows; one batch per round, of all remaining samplers, would be {sizes}.",
        )
        got = expect_type([row for each in seen["answers"] for row in each], np.ndarray, "what `act` returned")
        want = np.concatenate(rows) @ matrix
        questions = len(want)
        expect(
            got.shape == want.shape,
            f"The samplers asked {questions} times, for a row of two numbers each; put together, what `act` returned has the shape {got.shape}.",
        )
        expect_close(got, want, "A call to `act` returned something other than the network's row for its observation.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "A checkpoint needs `policy.state_dict()`, `optimizer.state_dict()`, the number of iterations done, and the state of *both* random generators.",
        "NumPy: read and set `rng.bit_generator.state`. PyTorch: `torch.get_rng_state()` and `torch.set_rng_state(...)`.",
        "As in Chapter 5, save under another name in the same folder with `torch.save(state, new)`, and then call `os.replace(new, path)`. `torch.load(path)` reads the file.",
    ],
    spare=['        state = {"policy": policy.state_dict(), "version": version}'],
)
def resume_training(answer: Answer, rng: Generator) -> None:
    """Save everything that affects how the run continues, generators included, under another name; then rename the file."""
    # Long: five runs are compared by their random numbers, so that the message can name what was forgotten.
    pushes, seed = rng.normal(0, 1, (8, 3)), int(rng.integers(1, 10**6))
    deaths = [["iterate", 3], ["save", 2], [], []]
    with answer.case("6 iterations; killed in the third, resumed and killed during a save, resumed and left alone"):
        whole, killed, torn, last, after = answer.probe(given.killed_and_resumed, pushes.tolist(), seed, 6, deaths)
        drawn, weights = whole["drawn"], whole["weights"]
        calls = len(drawn)
        expect(calls == 6, f"Without a kill, `iterate` was called {calls} times instead of 6.")
        expect(not isinstance(weights, str), f"It must return the policy; it returned {weights}.")
        expect_close(
            weights,
            _trained(pushes, drawn),
            "Without a kill, the weights of the returned policy aren't those after six iterations.",
        )
        expect(killed["died"], "The first run should have been killed in its third iteration, but it never got there.")
        _expect_resumed(torn, 2, drawn)
        saved = 2 + len(torn["drawn"]) - torn["died"]
        _expect_resumed(last, saved, drawn, torn=torn["died"])
        expect_equal(
            last["weights"],
            weights,
            "The resumed run used the same random numbers as the undisturbed one, but its weights are different, so something else that changes in each iteration wasn't restored.",
        )
        again = len(after["drawn"])
        expect(
            not again,
            f"Called again after all 6 iterations, it called `iterate` {again} times; nothing was left to do.",
        )
        expect_equal(
            after["weights"],
            weights,
            "Called again after all 6 iterations, it returned a policy with different weights.",
        )


def _expect_resumed(run: given.Ran, saved: int, drawn: list, torn: bool = False) -> None:
    """Check that a run continued after this many iterations, with the generators in their last state."""
    text, got, iterations = run["raised"], run["drawn"], len(drawn)
    done, due = len(got), iterations - saved
    expect(
        not (text and torn),
        f"The process was killed during a save, and the next attempt raised {text:.90}. A kill can leave a file that is only partly written.",
    )
    expect(not text, f"Called again after a kill, it raised {text:.120}.")
    expect(
        got != drawn[:done] or not got,
        "After a kill, it used the random numbers of the first iterations again, so both generators started over.",
    )
    expect(
        run["died"] or done == due,
        f"Before a kill, the state after {saved} of {iterations} iterations should have been saved, so {due} were left; after the kill, it called `iterate` {done} times.",
    )
    for place, name in enumerate(("NumPy", "PyTorch")):
        same = all(ours[place] == theirs[place] for ours, theirs in zip(got, drawn[saved:], strict=False))
        expect(same, f"After a kill, {name}'s generator returned different numbers than in the undisturbed run.")


def _trained(pushes: np.ndarray, drawn: list) -> list[float]:
    """Return the weights after iterations with these random numbers: gradient descent with momentum, in NumPy."""
    weights, speed = np.zeros(3), np.zeros(3)
    for first, second in drawn:
        speed = 0.9 * speed + pushes[first] + 2 * pushes[second] + 0.1 * weights
        weights = weights - 0.1 * speed
    found: list[float] = weights.tolist()
    return found


question(
    "who_holds_the_rows",
    """
    Two samplers return 5 MB of rows each. The driver calls `learner.learn.remote(ref_0, ref_1)`. Which places do these rows pass through?

    a) The samplers, the driver, and the learner, because the driver uses the references.
        Passing a reference on doesn't fetch its object. The driver only knows where the rows are.
    *b) The samplers, the object store, and the learner.
        Right. Ray fetches the arguments for the actor that runs the call. In a cluster, they go from the sampler's node to the learner's, and the driver may be on a third.
    c) Only the learner, because the samplers run inside it.
        Each sampler is an actor with its own process.
    """,
)

question(
    "ring_of_many",
    """
    The gradients take 100 MB. With 4 learners, each learner sends 150 MB around the ring. How much does each one send with 64 learners?

    a) 2,400 MB, which is sixteen times as much.
        There are more parts to send, but with sixteen times as many learners, each part is a sixteenth as large.
    *b) About 197 MB, in 126 messages.
        Right: it's 2 · 63/64 of the array. The bytes hardly grow, but the number of messages does, and each one adds a delay. That's why small arrays go through a tree, or are joined into a large one first.
    c) 1.6 MB, because each part is a 64th.
        Each part is a 64th, but each learner sends 126 of them.
    """,
)

question(
    "rho_or_c",
    """
    An action is ten times as likely under the learner's policy as under the sampler's. With ρ̄ = 1, it still counts only once. What does that do to V-trace?

    *a) The values converge to those of a policy between the sampler's and the learner's.
        Right. ρ̄ decides *what* the critic learns. Only with a large ρ̄ are the values those of the learner's own policy, but then they're noisier.
    b) It only slows down learning, and the values converge to the same ones.
        That's what c̄ does: it decides how far a TD error reaches back, and so how fast the critic learns, but not what it learns.
    c) Nothing, because ratios above 1 are wrong anyway.
        A ratio above 1 is just as valid as one below. Averaged over the sampler's actions, the ratios are 1.
    """,
)

question(
    "one_network_or_many",
    """
    Forty samplers run on a CPU cluster, the policy takes 300 MB, and the simulator needs 20 ms per step. What's better: a network in each sampler, or one inference actor on a GPU?

    a) A network in each sampler, because a remote call costs more than computing the action.
        A call takes about a millisecond. Reading 300 MB on a CPU for every single step takes longer, in each of forty samplers.
    *b) One inference actor, because it computes forty rows at once, and new weights go to one place.
        Right. That's SEED's argument. With a policy of 20 kB and a simulator that needs 20 µs, a network in each sampler would be better.
    c) Neither, because the number of multiplications is the same.
        A batch reads the weights once for forty rows, and a GPU computes the rows in parallel.
    """,
)
