"""The judge's side of chapter 9."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer, Raised
from coursekit.exercise import agree, exercise, expect, expect_close, expect_equal, quiz
from coursekit.exercises._turned import hard_turn, mean_return
from coursekit.given import ch09_dqn as given
from coursekit.result import plural

GOAL = 195  # mean return of 100 episodes
SEEDS = 3  # an agent may be unlucky: the first seed that reaches GOAL is enough
HOPELESS = 40  # a random agent gets 22: so far below GOAL, it was no bad luck
TEST_EVERY, BATCH, GAMMA = 25, 256, 0.99
DRAWS = 100  # of each transition, on average
KEYS = ("obs", "actions", "rewards", "terminated", "truncated", "next_obs")


def _probe(answer: Answer, why: dict[str, str], probe: Callable, *args: object) -> Any:
    """Return what a probe returns; where the answer raises an error with a known mark in it, say more about it."""
    try:
        return answer.probe(probe, *args)
    except Raised as raised:
        more = [text for mark, text in why.items() if mark in str(raised).lower()]
        message = " ".join([raised.message.rstrip(".") + ".", *more]) if more else raised.message
        raise Raised(raised.kind, message, raised.where, raised.todo) from None


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Stack `obs[1:]` and `last_obs`: that is `next_obs` of every frame, shape [T, N, …]. What do you throw away after that?",
        "`column[real]` takes the rows in which `real` is True, of all frames and environments at once.",
        "Count how many were ever added. The places of new ones are `(added + np.arange(n)) % capacity`; which places hold something?",
        "`rng.integers(held, size=size)` draws rows; take the same rows from every column.",
    ],
)
def ReplayBuffer(answer: Answer, rng: Generator) -> None:
    """First give each frame its successor, then throw the resets away; places run in a ring, and only filled ones are drawn."""
    envs, frames, seed = 3, int(rng.integers(4, 7)), int(rng.integers(10**6))
    fragments, rows = _story(rng, envs, [frames] * 5)
    sizes = [len(part) for part in rows]
    capacity = sizes[-1] + sizes[-2] + int(rng.integers(3, sizes[-3] - 2))
    size = envs * frames + int(rng.integers(1, 5))  # more than there are after the first fragment
    larger = f"`sample({size})` was asked for when {sizes[0]} transitions were there: a sample may be larger than that."
    plan = [size, DRAWS * capacity // size + 1]
    found = _probe(answer, {"larger": larger}, given.keep_and_sample, capacity, seed, fragments, plan)
    expect_equal(
        len(found), len(fragments), f"{len(fragments)} fragments were added, and samples came after {len(found)}."
    )
    for number, sampled in enumerate(found):
        told = f"A buffer of {capacity} transitions, after {plural(number + 1, 'fragment')} of {frames} frames from {envs} environments: "
        _expect_form(sampled, size, told)
        batch = {name: column.reshape(-1, *column.shape[2:]) for name, column in sampled.items()}
        _expect_rows(batch, fragments[: number + 1], rows[: number + 1], told)
        _expect_kept(batch["obs"], rows[: number + 1], capacity, told)


def _story(rng: Generator, envs: int, lengths: list[int]) -> tuple[list[dict], list[list[tuple]]]:
    """Return fragments of environments that reset themselves in a frame of their own, and the transitions of each.

    An observation is [environment, episode, step], environments counted from 1. Each environment ends an episode in the last frame of the second fragment,
    in the middle of a later one, or only by being truncated.
    """
    total, second = sum(lengths), lengths[0] + lengths[1]
    ends = [
        {second: "terminated"},
        {int(rng.integers(2, 4)): "truncated", total - 2: "terminated"},
        {lengths[0] + 2: "terminated", total - lengths[-1] - 2: "truncated"},
    ]
    columns: dict[str, list] = {name: [] for name in (*KEYS, "real")}
    state = [{"episode": 0, "clock": 0, "over": False} for _ in range(envs)]
    for frame in range(1, total + 1):
        parts = [_frame(env, state[env], ends[env].get(frame, ""), rng) for env in range(envs)]
        for name, column in columns.items():
            column.append([part[name] for part in parts])
    arrays = {name: np.array(column) for name, column in columns.items()}
    arrays["obs"], arrays["next_obs"] = (arrays[name].astype(np.float32) for name in ("obs", "next_obs"))
    fragments, rows, start = [], [], 0
    for length in lengths:
        part = {name: column[start : start + length] for name, column in arrays.items()}
        spots = zip(*np.nonzero(part["real"]), strict=True)
        rows.append([tuple(part[name][t, n] for name in KEYS) for t, n in spots])
        last = part.pop("next_obs")[-1]
        fragments.append({**part, "last_obs": last})
        start += length
    return fragments, rows


def _frame(env: int, state: dict, end: str, rng: Generator) -> dict:
    """Return the next frame of one environment, and move its state on."""
    obs, real = [env + 1, state["episode"], state["clock"]], not state["over"]
    if real:
        state["clock"] += 1
    else:
        state["episode"], state["clock"] = state["episode"] + 1, 0
    state["over"] = real and bool(end)
    ended = {name: state["over"] and end == name for name in ("terminated", "truncated")}
    act, reward = int(rng.integers(2)), float(rng.integers(1, 1000)) if real else 0.0
    after = [env + 1, state["episode"], state["clock"]]
    return {"obs": obs, "actions": act, "rewards": reward, "next_obs": after, "real": real, **ended}


def _expect_form(sampled: Any, size: int, told: str) -> None:
    expect(isinstance(sampled, dict), told + f"`sample` returned {sampled}, not a dict of arrays.")
    expect_equal(sorted(sampled), sorted(KEYS), told + f"the keys of a sample are {sorted(sampled)}.")
    for name, column in sampled.items():
        shape, want = np.shape(column)[1:], (size, 3) if "obs" in name else (size,)
        expect(np.ndim(column) > 1 and shape == want, told + f"`sample({size})` has {name!r} with the shape {shape}.")
    for name, kinds, what in [
        ("actions", "iu", "whole numbers"),
        ("terminated", "b", "flags"),
        ("truncated", "b", "flags"),
    ]:
        dtype = np.asarray(sampled[name]).dtype
        text = f"{name!r} came back as {dtype}; the fragment had {what}. Keep the types of the columns."
        expect(dtype.kind in kinds, told + text)


def _name(obs: Any) -> tuple[int, int, int]:
    environment, episode, step = (int(number) for number in obs)
    return environment, episode, step


def _expect_rows(batch: dict, fragments: list[dict], rows: list[list[tuple]], told: str) -> None:
    """Check every sampled row against the transition with its observation; each message knows a mistake."""
    right = {_name(row[0]): row for part in rows for row in part}
    resets = {_name(obs) for part in fragments for obs in part["obs"][~part["real"]]}
    _, first = np.unique(
        np.concatenate([batch[name].reshape(len(batch["obs"]), -1) for name in KEYS], 1), axis=0, return_index=True
    )
    for spot in first:
        row = {name: batch[name][spot] for name in KEYS}
        name = _name(row["obs"])
        here = told + "in a sample, [environment, episode, step] = " + str(list(name)) + " "
        expect(name not in resets, here + "is the frame of a reset. Its action was ignored: no experience.")
        expect(name in right, here + "was never added. What is in the places that are still empty?")
        want = dict(zip(KEYS, right[name], strict=True))
        after = _name(row["next_obs"])
        led = here + f"leads to {list(after)}"
        expect(after[0] == name[0], led + ": that is another environment.")
        expect(after[1] == name[1], led + ": that is another episode.")
        expect(agree(row["next_obs"], want["next_obs"]), led + f", the step after {name[2]} is {name[2] + 1}.")
        for key in ("actions", "rewards", "terminated", "truncated"):
            expect(row[key] == want[key], here + f"has {key} = {row[key]}; the fragment said {want[key]}.")


def _expect_kept(sampled: np.ndarray, rows: list[list[tuple]], capacity: int, told: str) -> None:
    """Check that the newest are there, all others are not, and each is drawn as often as any other."""
    names, times = np.unique(sampled.astype(int), axis=0, return_counts=True)
    drawn = {_name(name): int(count) for name, count in zip(names, times, strict=True)}
    added, room = sum(map(len, rows)), capacity
    lost = ". There is still room for all." if added <= capacity else ". The oldest have to go, and nobody else."
    for age, part in enumerate(rows[::-1]):
        there = sum(_name(row[0]) in drawn for row in part)
        want, room = min(len(part), room), room - min(len(part), room)
        what = f"of the {len(part)} transitions of the {'newest fragment' if age == 0 else f'fragment {age} before it'}, {there} are ever drawn"
        expect(there >= want, told + what + lost)
        expect(there <= want, told + what + f": with {capacity} places there is only room for {want}.")
    free, mean = len(times) - 1, times.mean()
    far = ((times - mean) ** 2 / mean).sum()  # chi-square: `free` on average, here up to 8 standard deviations more
    text = f"of {len(sampled)} draws, one transition got {times.min()} and another {times.max()}: each must be as likely as any other."
    expect(far <= free + 8 * (2 * free) ** 0.5, told + text)


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Two steps: which action does `q_online` prefer in each row? What does `q_target` say about that action?",
        "`q_target[np.arange(B), best]` takes one number from each row.",
        "Which one of the two flags means that nothing will follow?",
    ],
)
def td_target(answer: Answer, rng: Generator) -> None:
    """The newest network chooses, the older one rates, and only a terminated end has no future."""
    both = "newest network 2 and 4, older one 10 and 6, reward 1, γ = 0.5"
    for over, late, value, look in [
        (False, False, 4.0, "Which network chooses the action, and which one says what it is worth?"),
        (True, False, 1.0, "What follows after a terminated end?"),
        (False, True, 4.0, "A clock ran out; would nothing have followed?"),
        (True, True, 1.0, "The game itself is over, whatever the clock says."),
    ]:
        flags = np.array([over]), np.array([late])
        got = answer(np.array([1.0]), *flags, np.array([[2.0, 4.0]]), np.array([[10.0, 6.0]]), 0.5)
        told = f"One row: {both}, terminated={over}, truncated={late}: "
        expect(
            np.shape(got) == (1,), told + f"the result has the shape {np.shape(got)}, one target for one row has (1,)."
        )
        for other in (0.9, 0.99, 1):
            if not over and np.isclose(np.ravel(got)[0], 1 + other * 6):
                look = f"It would be right for γ = {other}. Where does yours come from?"
        expect_close(np.ravel(got)[0], value, told + f"the target came out as {np.ravel(got)[0]:g}. {look}")
    rows, actions = int(rng.integers(8, 15)), int(rng.integers(3, 6))
    online, target = rng.normal(size=(rows, actions)), rng.normal(size=(rows, actions))
    rewards, ends = rng.normal(size=rows), rng.permutation(rows)
    terminated, truncated = ends < 3, (ends >= 2) & (ends < 6)
    gamma = float(rng.uniform(0.3, 0.9))
    best, live = rng.permutation(rows) % actions, ~terminated
    online[np.arange(rows), best] += 9  # so that not all rows prefer the same action
    want = rewards + gamma * live * target[np.arange(rows), best]
    told = f"{rows} random rows with {actions} actions, γ = {gamma:.2f}: "
    inputs = [rewards, terminated, truncated]
    got = np.asarray(answer(*inputs, online, target, gamma))
    expect(got.shape == (rows,), told + f"the result has the shape {got.shape}.")
    raised = np.asarray(answer(*inputs, online, target + 3, gamma)) - got
    expect(
        np.allclose(raised[terminated], 0),
        told + "the older network's numbers were raised by 3, and a terminated row changed.",
    )
    expect(
        np.allclose(raised[live], 3 * gamma),
        told + "the older network's numbers were raised by 3, and not all other rows by 3γ.",
    )
    spoiled = target.copy()
    spoiled[np.arange(rows), (best + 1) % actions] += 50
    same = np.allclose(answer(*inputs, online, spoiled, gamma), got)
    expect(same, told + "the older network praised an action that the newest would not choose, and the target moved.")
    expect_close(got, want, told + f"row {int(np.argmax(np.abs(got - want)))} is wrong, though single rows were right.")
    usual = answer(*inputs, online, target)
    expect_close(usual, rewards + 0.99 * (want - rewards) / gamma, told + "without a γ it must be 0.99.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "What must survive from call to call: the weights, the target network's, the optimizer, the version, the ages.",
        "`optimizer.step(self.theta, gradient)` returns nothing: it changes the array. Who else holds that very array?",
        "The age is the version *before* this step, minus the one that the gradient belongs to.",
    ],
)
def SharedAgent(answer: Answer, rng: Generator) -> None:
    """Copies of its own, one optimizer, a version that counts every step; the target is copied, not named a second time."""
    theta, every = rng.normal(size=3).astype(np.float32), int(rng.integers(2, 4))
    ages = [0, 0, 1, 0, 3, 2, *rng.integers(0, 7, size=4).tolist()]
    script = [[rng.normal(size=3).astype(np.float32), version - age] for version, age in enumerate(ages)]
    rate = float(rng.uniform(0.1, 0.5))
    for kind in ("Descent", "Adam"):
        seen = _probe(answer, {"read-only": READ_ONLY}, given.follow_script, theta, [kind, rate], every, script)
        for name, what in seen["hidden"].items():
            text = (
                f"`self.{name}` is a {what}, and hides the method `{name}`, which has the same name. Rename the {what}."
            )
            expect(False, text)
        _expect_steps(seen["seen"], [theta, *_path(theta, kind, rate, script)], every, kind)
        told = "A gradient of version 2 that arrives at version 4 is 2 old. "
        expect(isinstance(seen["ages"], list), told + "`ages()` returned nothing.")
        expect_equal(seen["ages"], ages, told + f"Gradients of ages {ages} came, and `ages()` said {seen['ages']}.")


READ_ONLY = "What comes from Ray, and so what the check hands over, is read-only: copy it before you change it."


def _path(theta: np.ndarray, kind: str, rate: float, script: list) -> list[np.ndarray]:
    """Return the weights after each step of a script."""
    optimizer = (given.Adam if kind == "Adam" else given.Descent)(rate)
    now, found = theta.copy(), []
    for gradient, _ in script:
        optimizer.step(now, gradient)
        found.append(now.copy())
    return found


def _expect_steps(seen: list, path: list, every: int, kind: str) -> None:
    for version, (now, theta) in enumerate(zip(seen, path, strict=True)):
        told = f"{kind}, target_every = {every}, after {plural(version, 'gradient')}: "
        expect(isinstance(now, dict), told + f"`parameters()` returned a {now}, not a dict.")
        expect_equal(sorted(now), ["target", "theta", "version"], told + f"its keys are {sorted(now)}.")
        expect(now["version"] == version, told + f"the version is {now['version']}.")
        moved = (
            "nothing moved"
            if version and agree(now["theta"], path[version - 1])
            else "the weights are not where the optimizer leads"
        )
        expect_close(now["theta"], theta, told + moved + ".", rtol=1e-4, atol=1e-6)
        at = version - version % every
        same = at != version and agree(now["target"], theta, 1e-4, 1e-6)
        text = "the target network is what the weights are now: is it the same array, or was it copied at the wrong version?"
        expect(not same, told + text)
        text = f"the target network must be what the weights were at version {at}, and is not."
        expect_close(now["target"], path[at], told + text, rtol=1e-4, atol=1e-6)


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Take `process_work` line by line: `handle.method(x)` becomes `handle.method.remote(x)`. That returns a reference.",
        "Where is the value used? There `ray.get` has to stand: the board's word, the parameters, the batch.",
        "`results` is no handle: its `put` stays as it is. And no goodbye at the end.",
    ],
)
def work(answer: Answer, rng: Generator) -> None:
    """Wait where a value is needed; calls of one caller to one actor keep their order, so all others need no waiting."""
    rounds = 2 * TEST_EVERY + int(rng.integers(2, 9))
    script = {
        "rounds": rounds,
        "seed": int(rng.integers(10**6)),
        "versions": np.cumsum(rng.integers(1, 4, size=5 * rounds)).tolist(),
        "resets": rng.integers(1, 9, size=10).tolist(),
        "returns": [rng.integers(9, 200, size=n).astype(float).tolist() for n in [1, 2, 0, 3, 1, 0, 2, 1, 1, 2]],
        "score": float(rng.integers(20, 60)),
    }
    log = answer.probe(given.follow_worker, script)
    told = f"The board said `go on` {rounds} times, then no more. "
    by: dict[str, list] = {
        name: [] for name in ("count", "parameters", "play", "add", "sample", "apply", "test", "offer", "put")
    }
    for name, *values in log:
        by[name].append(values)
    expect(by["count"], told + "Nobody asked it: `board.count` was never called.")
    expect(log[0][0] == "count", told + f"The first call was `{log[0][0]}`. Every round begins with `board.count`.")
    expect(len(by["play"]) == rounds, told + f"The worker played {len(by['play'])} rounds.")
    _expect_played(log, by, script, told)
    _expect_learned(by, script, told)
    _expect_reported(by, script, told)


def _expect_played(log: list, by: dict, script: dict, told: str) -> None:
    """Check that each round was played with the newest parameters, and handed in and counted once."""
    calls = fetched = turn = 0
    for name, *values in log:
        calls += name == "parameters"
        if name == "play":
            expect(calls > fetched, told + f"In round {turn} nobody asked the agent for its parameters.")
            fetched, turn = calls, turn + 1
            theta, epsilon, frames = values
            now = given.parameters_of(script, calls - 1)
            expect_close(
                theta,
                now["theta"][:4],
                told + "A round was played with other weights than `theta` of the newest parameters.",
            )
            want = max(0.05, 1 - now["version"] / 250)
            expect_close(epsilon, want, told + f"At version {now['version']} it played with ε = {epsilon:.2f}.")
            expect(frames == 4, told + f"A fragment had {frames} frames, FRAMES is 4.")
    added = [number for (number,) in by["add"]]
    expect(len(added) == len(set(added)), told + "The same fragment went into the buffer more than once.")
    missing = len(by["play"]) - len(added)
    expect(missing == 0, told + f"{plural(missing, 'fragment')} never reached the buffer.")
    names = [name for name, *_ in log]
    early = "sample" in names[: names.index("add")]
    expect(
        not early, told + "`buffer.sample` was called before the first `buffer.add`: nothing was there to draw from."
    )
    steps = [4 * given.ENVS - script["resets"][number % 10] for number in range(len(by["play"]))]
    counted = [number for (number,) in by["count"]]
    frames = [0] + [4 * given.ENVS] * len(steps)
    expect(counted != frames, told + "It counted all frames. Only those in which `real` is True are steps.")
    expect_equal(
        counted, [0, *steps], told + f"`board.count` was told {counted[:4]}…; the rounds had {steps[:3]}… real steps."
    )


def _expect_learned(by: dict, script: dict, told: str) -> None:
    """Check that every round's gradient is that of its batch at the parameters whose version it names."""
    rounds = len(by["play"])
    expect(len(by["apply"]) == rounds, told + f"`agent.apply` was called {len(by['apply'])} times in {rounds} rounds.")
    expect(
        len(by["sample"]) >= rounds, told + f"The buffer was asked for {len(by['sample'])} batches in {rounds} rounds."
    )
    expect(all(size == BATCH for (size,) in by["sample"]), told + "A batch had another size than BATCH.")
    versions = {given.parameters_of(script, call)["version"]: call for call in range(len(by["parameters"]))}
    for turn, (gradient, version) in enumerate(by["apply"]):
        here = told + f"In round {turn} the gradient was said to belong to version {version}"
        expect(version in versions, here + "; the agent never handed that one out.")
        fresh = turn == 0 or version > by["apply"][turn - 1][1]
        expect(fresh, here + ": that is no newer than in the round before.")
        now, batch = given.parameters_of(script, versions[version]), given.batch_of(script, turn, BATCH)
        want = _gradient(now, batch)
        expect(np.shape(gradient) == want.shape, here + f"; what arrived has the shape {np.shape(gradient)}.")
        text = f"; it is not the gradient of this round's batch at these parameters (its norm is {np.linalg.norm(gradient):.3g})."
        if not agree(gradient, want, 1e-3, 1e-5):
            for other, call in versions.items():
                then = given.parameters_of(script, call)
                if abs(call - versions[version]) == 1 and agree(gradient, _gradient(then, batch), 1e-3, 1e-5):
                    text = f"; it is the gradient at version {other}, which the agent handed out as well."
            expect(False, here + text)


def _gradient(now: dict, batch: dict) -> np.ndarray:
    online, target = (given.q_values(now[name], batch["next_obs"]) for name in ("theta", "target"))
    future = target[np.arange(BATCH), online.argmax(1)]
    targets = batch["rewards"] + GAMMA * future * ~batch["terminated"]
    return given.td_gradient(now["theta"], batch["obs"], batch["actions"], targets)


def _expect_reported(by: dict, script: dict, told: str) -> None:
    """Check tests, offers and reports: in rounds 0, 25 and 50, and no return lost or said twice."""
    scores = [script["score"] + number for number in (1, 2, 3)]
    expect(len(by["test"]) == 3, told + f"It tested {len(by['test'])} times. In rounds 0, 25 and 50, please.")
    offers = [score for score, _ in by["offer"]]
    expect_equal(offers, scores, told + f"The tests said {scores}, and the board was offered {offers}.")
    for (theta,), (_, offered) in zip(by["test"], by["offer"], strict=True):
        expect(agree(theta, offered), told + "The weights that were offered are not those that were tested.")
    goodbye = " One of them is None: no goodbye is needed here." if ["NoneType"] in by["put"] else ""
    expect(
        len(by["put"]) == 3,
        told + f"Three reports were due, and {plural(len(by['put']), 'thing')} arrived in the queue.{goodbye}",
    )
    said: list[float] = []
    for number, (report,) in enumerate(by["put"]):
        form = "A report is (time, process, version, score, returns)"
        expect(isinstance(report, list) and len(report) == 5, told + f"{form}; one was {report}.")
        when, process, version, score, returns = report
        expect(
            isinstance(when, float) and isinstance(process, int), told + f"{form}; one began with {when}, {process}."
        )
        claimed = by["apply"][number * TEST_EVERY][1]
        expect(
            version == claimed,
            told + f"Report {number} names version {version}; that round learned at version {claimed}.",
        )
        expect(
            score == scores[number], told + f"Report {number} has the score {score}; that test said {scores[number]}."
        )
        expect(isinstance(returns, list), told + f"{form}; the returns were {returns}.")
        said += returns
    all_of_them = [value for turn in range(2 * TEST_EVERY + 1) for value in script["returns"][turn % 10]]
    last = script["returns"][(2 * TEST_EVERY) % 10]
    fits = any(agree(said, wanted) for wanted in (all_of_them, all_of_them[: len(all_of_them) - len(last)]))
    expect(
        fits,
        told
        + f"Up to round 50, {len(all_of_them)} episodes ended, and the reports list {len(said)} returns. Each belongs in one report.",
    )


@exercise(
    points=3,
    minutes=10,
    hints=[
        "Compare `process_train`: the office, the crew, the reports, the best weights. Which of its lines only count goodbyes?",
        "`ray.get(ray_crew(...))` waits until all workers have ended. When are the reports complete?",
        "All of it belongs inside the `with` block: when it ends, the actors end.",
        "`ray.get(board.best.remote())` is (score, theta).",
    ],
)
def train(answer: Answer, rng: Generator) -> None:
    """An office, a crew, one `ray.get` for all of them; then the reports and the best weights, before the office closes."""
    means: list[float] = []
    for _ in range(SEEDS):
        seed, exam = (int(number) for number in rng.integers(1, 10**6, size=2))
        turn = hard_turn(rng, exam)
        found = _probe(answer, {"ray.kill": CLOSED}, given.learn, turn.tolist(), seed)
        _expect_result(found)
        theta = np.asarray(found["learned"]["theta"], np.float32)
        means.append(mean_return(partial(_choice, theta), turn, exam))
        if means[-1] >= GOAL:
            return
        if means[-1] < HOPELESS:
            break
    tests = ", ".join(f"{mean:.0f}" for mean in means)
    expect(
        False,
        f"In 100 episodes that nobody has seen, after learning with {len(means)} seed(s), the mean return was {tests}; {GOAL} is asked for.",
    )


CLOSED = "The office is closed when its `with` block ends: what is asked of its actors later fails like this."


def _choice(theta: np.ndarray, obs: np.ndarray) -> np.ndarray:
    return given.q_values(theta, obs).argmax(-1)


def _expect_result(found: dict) -> None:
    learned, form = found["learned"], 'It must return {"theta": the best weights, "reports": [...]}; it returned '
    expect(isinstance(learned, dict), form + f"{type(learned).__name__}.")
    expect({"theta", "reports"} <= learned.keys(), form + f"a dict with {sorted(learned)}.")
    theta, size = learned["theta"], len(given.fresh_theta(0))
    expect(isinstance(theta, np.ndarray), form + f"a `theta` that is a {type(theta).__name__}.")
    expect(theta.shape == (size,), form + f"a `theta` of shape {theta.shape}.")
    workers = found["workers"]
    expect(
        workers >= 2,
        f"{workers} workers played in the environments of `make_envs`; there must be two, at the same time.",
    )
    reports = learned["reports"]
    none = form + "0 reports. Had the workers ended when you read the queue?"
    expect(len(reports) > 0, none)
    expect(all(len(report) == 5 for report in reports), form + "reports that have not five parts.")
    processes = {report[1] for report in reports}
    expect(
        len(processes) >= 2,
        f"The reports come from {plural(len(processes), 'worker')}; both have to work, at the same time.",
    )
    told = Counter(report[1] for report in reports)
    for process, tests in Counter(process for process, _, _ in found["tests"]).items():
        text = (
            f"Process {process} tested {plural(tests, 'time')}, and {plural(told[process], 'report')} of it came back."
        )
        expect(told[process] >= tests, text + " Had all workers ended when you read the queue?")
    best = max((score for _, score, _ in found["tests"]), default=0)
    marks = [mark for _, score, mark in found["tests"] if score == best]
    text = (
        f"`theta` is not what had the best test: that one had a mean return of {best:.0f}. Who has kept those weights?"
    )
    expect(not marks or found["mark"] in marks, text)


quiz(
    "why_at_random",
    """
    Why does DQN draw its 256 transitions at random from the last 20,000, instead of simply taking the newest 256?

    a) The newest ones are not ready yet.
        They are: `add` is done before `sample` begins. Being new is not what is wrong with them.
    *b) Neighbours in time are nearly alike; a batch of them shows one corner of the world, and the network forgets the others.
        Right. Drawn from the whole buffer, a batch has good and bad moments of many episodes, and each is used several times.
    c) So that all workers get different batches, and none is learned from twice.
        Different ones, yes, but the same transition is drawn again and again: about eight times in our program. That is what a buffer is for.
    """,
)

quiz(
    "lost_or_old",
    """
    Four workers, each 40 updates. With *put* 40 to 60 are in the weights; with *apply* all 160, of gradients that are two or three updates old on average. What has become of the other hundred in the first case?

    *a) They were computed, put, and then overwritten by somebody who had not seen them.
        Right. Their weights existed for a millisecond. An old gradient still adds something; an overwritten one adds nothing.
    b) They are in the optimizers of the workers, and come in later.
        Each optimizer remembers its own gradients, but the weights that it moved are gone.
    c) Nothing is lost: the four updates were alike, so one of them is enough.
        Here the batch was the same for all, and still each was computed without knowing the others, and only one was kept. In real training all batches differ.
    """,
)

quiz(
    "who_is_quicker",
    """
    Your simulator takes 50 ms for a frame of its eight environments, and you have one machine with 32 cores. A call costs 0.2 ms with `multiprocessing` and 1 ms with Ray. Which program plays more steps a second?

    a) That with `multiprocessing`, five times as many.
        Only the calls are five times as quick, and hardly any of the time is calls.
    b) Ray's.
        Its calls cost more, on one machine. It wins elsewhere: when a worker dies, and when 32 cores are not enough.
    *c) Both about as many.
        Right: a round of four frames plays for 200 ms, and calls cost some milliseconds. Choose by what else you need.
    """,
)

quiz(
    "who_tells_you",
    """
    At night the operating system kills a worker of each program. In the morning, what do you find?

    a) Two programs that stopped with an error.
        Neither raises. `results.get()` waits for what may still come, and Ray launches the task again.
    b) Both have finished: the other worker did the rest.
        The rest of the work is done in both. But one of the two main programs still waits for a goodbye.
    *c) The one with `multiprocessing` waits for a goodbye that never comes; Ray's has finished with a worker in its place.
        Right. A queue does not know who was going to write into it; a reference knows who has to make its value.
    """,
)
