"""The judge's side of chapter 9."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.exercises._turned import hard_turn, mean_return
from coursekit.given import ch09_dqn as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import best_of, expect, expect_close, expect_equal, expect_type

GOAL = 195  # mean return of 100 episodes
HOPELESS = 40  # a random agent gets 22: this far below GOAL, it was not bad luck
TEST_EVERY, BATCH = 25, 256
DRAWS = 200  # of each transition, on average
KINDS = {"obs": "f", "next_obs": "f", "actions": "iu", "rewards": "f", "terminated": "b", "truncated": "b"}  # of dtypes


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Stack `obs[1:]` and `last_obs`: that is `next_obs` of every frame, shape [T, N, …]. What do you throw away after that?",
        "`column[real]` takes the rows in which `real` is True, of all frames and environments at once.",
        "Simplest: one list of transitions, the new ones at its end, cut with `[-capacity:]`. Quicker: an array for each column, used as a ring.",
        "`rng.integers(held, size=size)` draws rows; take the same rows of every column.",
    ],
)
def ReplayBuffer(answer: Answer, rng: Generator) -> None:
    """First give each frame its successor, then throw the resets away; places form a ring, and only filled ones are drawn."""
    # Long: the judge knows every transition of five fragments, so that each mistake in keeping them has its own message.
    fragments, rows = _story(rng)
    capacity = sum(map(len, rows[-2:])) + int(rng.integers(2, 6))  # of the third newest fragment, some are kept
    size, seed = len(rows[0]) + int(rng.integers(1, 4)), int(rng.integers(10**6))  # more than there are at first
    for sample in answer.probe(given.keep_and_sample, capacity, seed, fragments[:1], size, 1):
        _table_of(sample, size)  # thousands of lists or rows would be too much for one reply
    times = DRAWS * capacity // size
    found = answer.probe(given.keep_and_sample, capacity, seed, fragments, size, times)
    drawn, wanted = len(found), 5 * times
    expect(drawn == wanted, f"{drawn} samples were drawn, not {wanted}.")
    for number in range(1, 6):
        samples = found[(number - 1) * times : number * times]
        with answer.case(f"a buffer of {capacity} transitions, fragments added: {number}"):
            _judge_tables([_table_of(sample, size) for sample in samples], rows[:number], capacity)


def _judge_tables(tables: list[np.ndarray], rows: list[np.ndarray], capacity: int) -> None:
    """Check which transitions were drawn after these were added, and how often."""
    drawn, times = np.unique(np.concatenate(tables), axis=0, return_counts=True)
    _expect_rows(drawn.tolist(), np.concatenate(rows).tolist())
    _expect_kept(drawn, rows, capacity)
    few, many, samples, size = times.min(), times.max(), len(tables), len(tables[0])
    expect(many < 2 * few, f"One was drawn {few} times, another {many} times: each must be equally likely.")
    twice = any(len(np.unique(table, axis=0)) < size for table in tables)
    expect(twice, f"In {samples} samples of {size}, none came twice: put back what you have drawn.")


def _story(rng: Generator) -> tuple[list[dict], list[np.ndarray]]:
    """Return five fragments of three environments, and the transitions of each; an observation is [environment, frame], from 1."""
    frame, period = np.arange(1, 27)[:, None], rng.permutation([3, 5, 7])  # how often an environment resets itself
    obs = np.stack(np.broadcast_arrays([1, 2, 3], frame), axis=-1).astype(np.float32)
    over, late = (frame[:-1] + 1) % period == 0, rng.random((25, 3)) < 0.5
    columns = {
        **{"obs": obs[:-1], "next_obs": obs[1:], "actions": rng.integers(2, size=(25, 3))},
        **{"rewards": rng.integers(1, 999, size=(25, 3)) * 1.0, "terminated": over & ~late, "truncated": over & late},
        "real": frame[:-1] % period > 0,
    }
    parts = [{name: column[start : start + 5] for name, column in columns.items()} for start in range(0, 25, 5)]
    rows = [np.column_stack([part[name][part["real"]] for name in KINDS]).astype(int) for part in parts]
    return [{"last_obs": part.pop("next_obs")[-1], **part} for part in parts], rows


def _table_of(sample: Any, size: int) -> np.ndarray:
    """Return a sample as a table: a row for each transition, with its columns in the order of KINDS."""
    kind = type(sample).__name__
    expect(isinstance(sample, dict), f"`sample` returned a {kind}, not a dict of arrays.")
    keys = [*sample]
    expect(sample.keys() == KINDS.keys(), f"The keys of a sample are {keys}.")
    for name, column in sample.items():
        _expect_column(name, column, size)
    return np.column_stack([sample[name] for name in KINDS]).astype(int)


def _expect_column(name: str, column: Any, size: int) -> None:
    kind = type(column).__name__
    expect(isinstance(column, np.ndarray), f"{name!r} of a sample is a {kind}, not an array.")
    wanted = (size, 2) if "obs" in name else (size,)
    expect(column.shape == wanted, f"`sample({size})` has {name!r} with the shape {column.shape}.")
    expect(column.dtype.kind in KINDS[name], f"{name!r} came back as {column.dtype}. Keep the columns' types.")


def _expect_rows(drawn: list[list], added: list[list]) -> None:
    """Check every row that was drawn against the transition with its observation; each message knows a mistake."""
    known = {tuple(row[:2]): row for row in added}
    for row in drawn:
        name, after, want = row[:2], row[2:4], known.get(tuple(row[:2]), [])
        expect(
            want or row[0] not in (1, 2, 3),
            f"[environment, frame] = {name} is the frame of a reset. Its action was ignored: no experience.",
        )
        expect(want, f"[environment, frame] = {name} was never added. What is in the places that are still empty?")
        came, rest, added_rest = want[2:4], row[4:], want[4:]
        expect(
            after == came,
            f"[environment, frame] = {name} leads to {after}; {came} came next, whether it was a reset or not.",
        )
        expect(row == want, f"The action, reward and flags of {name} are {rest}; in the fragment, {added_rest}.")


def _expect_kept(drawn: np.ndarray, rows: list[np.ndarray], capacity: int) -> None:
    """Check that the newest transitions are drawn and all others are not; those of one fragment are equally old."""
    room, names = capacity, set(map(tuple, drawn.tolist()))
    for part in reversed(rows):
        there, fragment = len(names.intersection(map(tuple, part.tolist()))), len(part)
        wanted = min(fragment, room)
        expect(
            there == wanted,
            f"Of the {fragment} transitions of one fragment, {there} are ever drawn; {wanted} are among the newest {capacity}.",
        )
        room -= wanted


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Two steps: which action does `q_online` prefer in each row? What does `q_target` say of that action?",
        "`q_target[np.arange(B), best]` takes one number from each row.",
        "Which of the two flags means that nothing will follow?",
    ],
    returns=np.ndarray,
)
def td_target(answer: Answer, rng: Generator) -> None:
    """The newest network chooses, the older one rates, and only a terminated end has no future."""
    _judge_flags(answer)
    rewards, (online, target) = rng.normal(size=9), rng.normal(size=(2, 9, 4))
    over, late = rng.random((2, 9)) < 0.4
    want = rewards + 0.7 * target[np.arange(9), online.argmax(1)] * ~over
    with answer.case("9 rows of random numbers for 4 actions, γ = 0.7"):
        got = answer(rewards, over, late, online, target, 0.7)
        expect_close(
            got,
            want,
            "These targets are wrong, though yours were right where all rows were alike. Does each row use its own action?",
        )


def _judge_flags(answer: Answer) -> None:
    """Check four rows that differ by their flags alone."""
    over, late = np.array([False, True, False, True]), np.array([False, False, True, True])
    with answer.case(
        "reward 1, γ = 0.5, newest 2 and 4, older 10 and 6; four rows: no end, terminated, truncated, both"
    ):
        got = answer(np.ones(4), over, late, np.array([[2.0, 4.0]] * 4), np.array([[10.0, 6.0]] * 4), 0.5)
        expect(got.shape == (4,), f"The result has the shape {got.shape}; four rows need four targets: (4,).")
        expect_close(
            got,
            [4.0, 1.0, 4.0, 1.0],
            f"The targets came out as {got}. Which network chooses the action, and which one says what it is worth?",
            mistakes={
                f"The targets came out as {got}. If only time ran out, does nothing follow?": [4.0, 1.0, 1.0, 1.0],
                f"The targets came out as {got}. What follows after a terminated end?": [4.0, 4.0, 4.0, 4.0],
                "These would be right for γ = 0.99. Where does your γ come from?": [6.94, 1.0, 6.94, 1.0],
            },
        )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "What must survive from call to call? Both networks' weights, the optimizer, the version, the ages.",
        "`optimizer.step(self.theta, gradient)` returns nothing: it changes the array. What else refers to that very array?",
        "What comes from Ray is read-only, and so is what the check passes in: copy it before you change it.",
        "The age is the version *before* this step, minus the one that the gradient belongs to.",
    ],
)
def SharedAgent(answer: Answer, rng: Generator) -> None:
    """Keep copies of your own, one optimizer, and a version that counts every step; copy the target, do not name it a second time."""
    # Long: the judge steps an optimizer of its own, and tells a target that was copied late from one that never was.
    theta, every, rate = rng.normal(size=3).astype(np.float32), int(rng.integers(2, 4)), float(rng.uniform(0.1, 0.5))
    ages = [0, 0, 1, 0, 3, 2, *rng.integers(0, 7, size=4).tolist()]
    script = [[rng.normal(size=3).astype(np.float32), version - age] for version, age in enumerate(ages)]
    seen = answer.probe(given.follow_script, theta, rate, every, script)
    path = _path(theta, rate, script)
    called, needed = len(seen["parameters"]), len(path)
    expect(called == needed, f"`parameters()` was called {called} times, not {needed} times.")
    for version, now in enumerate(seen["parameters"]):
        with answer.case(f"target_every = {every}, gradients so far: {version}"):
            _expect_parameters(now, path, version, every)
    _expect_ages(seen["ages"], ages)


def _path(theta: np.ndarray, rate: float, script: list) -> list[np.ndarray]:
    """Return the weights at the beginning, and after each step of a script."""
    optimizer, path = given.Adam(rate), [theta]
    for gradient, _ in script:
        path.append(path[-1].copy())
        optimizer.step(path[-1], gradient)
    return path


def _expect_parameters(now: Any, path: list, version: int, every: int) -> None:
    kind = type(now).__name__
    expect(isinstance(now, dict), f"`parameters()` returned a {kind}, not a dict.")
    keys = [*now]
    expect(now.keys() == {"theta", "target", "version"}, f"The keys of `parameters()` are {keys}.")
    expect_equal(now["version"], version, f"The version is {now['version']}.")
    _expect_theta(now, path, version)
    _expect_target(now, path, version, version - version % every)


def _expect_theta(now: dict, path: list, version: int) -> None:
    expect_close(
        now["theta"],
        path[version],
        "The weights are not where the optimizer leads.",
        rtol=1e-4,
        atol=1e-6,
        mistakes={"The weights have not moved.": path[version - 1]},
    )


def _expect_target(now: dict, path: list, version: int, at: int) -> None:
    """Check that the target network is what the weights were at a version."""
    mistaken = path[version]
    expect_close(
        now["target"],
        path[at],
        f"The target network must be what the weights were at version {at}, and is not.",
        rtol=1e-4,
        atol=1e-6,
        mistakes={
            "The target network is what the weights are now: is it the same array, or did you copy it at the wrong version?": mistaken
        },
    )


def _expect_ages(said: object, ages: list[int]) -> None:
    expect_equal(
        said,
        ages,
        f"Gradients of ages {ages} came, and `ages()` said {said}. A gradient of version 2 that arrives at version 4 has the age 2.",
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "Take `process_work` line by line: `handle.method(x)` becomes `handle.method.remote(x)`. That returns a reference.",
        "Where do you use the value? There you need `ray.get`: the board's answer, the parameters, the batch.",
        "`results` is not a handle: its `put` stays as it is. And leave out the goodbye.",
    ],
)
def work(answer: Answer, rng: Generator) -> None:
    """Wait where you need a value; your calls to one ordinary actor keep their order, so the others need no waiting."""
    # Long: an agent, a buffer, a board and a sampler answer by a script, so that every round of a worker can be told.
    rounds = 2 * TEST_EVERY + int(rng.integers(2, 9))
    versions = np.cumsum(rng.integers(1, 4, size=5 * rounds)).tolist()
    with answer.case(f"the board said `go on` {rounds} times, then no more"):
        seen = answer.probe(given.follow_worker, rounds, versions)
        _expect_played(seen, rounds)
        _expect_learned(seen, rounds)
        _expect_reported(seen)


def _expect_played(seen: given.Worked, rounds: int) -> None:
    """Check that each round was played with new parameters, added to the buffer and counted once."""
    played, added = len(seen["play"]), len(seen["add"])
    expect(played == rounds, f"The worker played {played} rounds.")
    versions = [version for version, _ in seen["play"]]
    first = versions[:3]
    expect(np.all(np.diff(versions) > 0), f"It played with the versions {first}…: get new parameters every round.")
    expect_equal(seen["add"], list(range(rounds)), f"{rounds} fragments were played, and {added} reached the buffer.")
    expect(
        seen["held"][:1] != [0], "In round 0 the batch was drawn before the fragment was added: the buffer was empty."
    )
    _expect_explored(seen["play"])
    _expect_counted(seen["count"], rounds)


def _expect_explored(played: list[tuple[float, float]]) -> None:
    """Check that the share of random actions follows the version that played."""
    for turn, (version, share) in enumerate(played):
        expect_close(
            share,
            max(0.05, 1 - version / 250),
            f"In round {turn} it played version {version:g} with ε = {share:.3g}. What does `epsilon` say of that version?",
            atol=1e-3,
        )


def _expect_counted(counted: list, rounds: int) -> None:
    frames, first = 4 * given.ENVS, counted[:4]
    expect_close(
        counted,
        [0] + [frames - number % 7 for number in range(rounds)],
        f"`board.count` was told {first}…: at first 0, then the real steps of the round before.",
        mistakes={"It counted all frames. Only those in which `real` is True are steps.": [0] + [frames] * rounds},
    )


def _expect_learned(seen: given.Worked, rounds: int) -> None:
    """Check that every round's gradient is that of its batch at the parameters whose version it names."""
    first, applied = seen["sample"][:3], len(seen["apply"])
    expect_equal(
        seen["sample"][:rounds], [BATCH] * rounds, f"In {rounds} rounds it drew batches of {first}… transitions."
    )
    expect(applied == rounds, f"`agent.apply` was called {applied} times in {rounds} rounds.")
    for turn, (slope, version) in enumerate(seen["apply"]):
        _expect_slope(slope, turn, version)


def _expect_slope(slope: float, turn: int, version: float) -> None:
    # The newest network says `version` everywhere, the older one -version; the batch has the reward `turn`, half of it terminates.
    expect_close(
        slope,
        version - (turn - 0.99 * version / 2),
        f"In round {turn}, the gradient that came with version {version} is not that of this round's batch at these parameters.",
        rtol=1e-4,
        atol=1e-2,
    )


def _expect_reported(seen: given.Worked) -> None:
    """Check tests, offers and reports: in rounds 0, 25 and 50, with no return lost or repeated."""
    tested, offered, times = seen["test"], seen["offer"], len(seen["test"])
    expect(times == 3, f"It tested {times} times; in rounds 0, 25 and 50 it should.")
    expect_equal(offered, tested, f"[score, version] of the tests were {tested}, and the board was offered {offered}.")
    reports = _expect_three(seen["put"])
    told = [[score, version] for _, _, version, score, _ in reports]
    expect_equal(told, tested, f"[score, version] of the tests were {tested}, and the reports say {told}.")
    _expect_each_return_once([value for *_, returns in reports for value in returns])


def _expect_three(reports: list[Any]) -> list[tuple[Any, Any, Any, Any, list[float]]]:
    """Return the reports, once it is certain that there are three of the form that the chapter gives them."""
    expect(None not in reports, "None arrived in the queue: this program needs no goodbye.")
    forms = [isinstance(report, list | tuple) and len(report) == 5 for report in reports]
    expect(
        forms == [True] * 3,
        f"Three reports of (time, process, version, score, returns) should have come; these did: {reports}.",
    )
    return expect_type(reports, list[tuple[Any, Any, Any, Any, list[float]]], "reports")


def _expect_each_return_once(returns: list[float]) -> None:
    told = len(returns)
    expect(
        returns in (list(range(50)), list(range(51))),
        f"Up to round 50, 51 episodes ended, and the reports list {told} returns. Each belongs in one report.",
    )


@exercise(
    points=3,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "Compare `process_train`: the office, the crew, the reports, the best weights. Which of its lines only count goodbyes?",
        "`ray.get(ray_crew(...))` waits until all workers have ended. When are the reports complete?",
        "All of it belongs inside the `with` block: when it ends, the actors end.",
        "`ray.get(board.best.remote())` is (score, theta).",
    ],
)
def train(answer: Answer, rng: Generator) -> None:
    """Open an office, start a crew, wait for all with one `ray.get`; fetch reports and best weights before the office closes."""
    # Long: only weights learned here balance this pole, and two workers must have met, and been waited for.
    exam = int(rng.integers(1, 10**6))
    turn = hard_turn(rng, exam)

    def learn(seed: int) -> float:
        theta = _learned(answer.probe(given.learn, turn.tolist(), seed))
        mean = mean_return(lambda obs: given.q_values(theta, obs).argmax(-1), turn, exam)
        expect(
            mean >= HOPELESS,
            f"In 100 new episodes the mean return was {mean:.0f}: `theta` has hardly learned.",
        )
        return mean

    means = [round(mean) for mean in best_of(learn, rng, GOAL)]
    expect(
        max(means) >= GOAL,
        f"In 100 new episodes the mean returns were {means}, by seed; one of up to three seeds must reach {GOAL}.",
    )


def _learned(found: given.Trained) -> np.ndarray:
    """Return the weights that came back, if all is as it must be."""
    learned, workers = found["learned"], found["workers"]
    theta = _theta_of(learned)
    expect(
        workers >= 2,
        f"Workers that played in the environments of `make_envs`: {workers}. Two must, at the same time.",
    )
    reports: list[tuple] = expect_type(learned["reports"], list[tuple[Any, int, Any, Any, Any]], "reports")
    _expect_all_reports([process for _, process, *_ in reports], found["tests"])
    _expect_best(found)
    return np.asarray(theta, np.float32)


def _theta_of(learned: Any) -> np.ndarray:
    """Return the weights that came back, if they have the right form."""
    kind = type(learned).__name__
    expect(isinstance(learned, dict), f"It must return a dict with `theta` and `reports`, not a {kind}.")
    keys = [*learned]
    expect({"theta", "reports"} <= learned.keys(), f"It must return a dict with `theta` and `reports`, not {keys}.")
    theta, kind, size = learned["theta"], type(learned["theta"]).__name__, given.WEIGHTS
    expect(isinstance(theta, np.ndarray), f"`theta` must be an array: the best weights. It is a {kind}.")
    expect(theta.shape == (size,), f"`theta` has the shape {theta.shape}; there are {size} weights.")
    expect(theta.dtype.kind == "f", f"`theta` is an array of {theta.dtype}; weights are floats.")
    return theta


def _expect_all_reports(reporting: list[int], tested: list[tuple[int, float, int]]) -> None:
    """Check that there are as many reports of each process as it had made tests, or more."""
    expect(reporting, "There are no reports. Had the workers ended before you read the queue?")
    for process, tests in Counter(process for process, _, _ in tested).items():
        told = reporting.count(process)
        expect(
            told >= tests,
            f"Tests of process {process}: {tests}; reports of it that came back: {told}. Had all workers ended before you read the queue?",
        )


def _expect_best(found: given.Trained) -> None:
    """Check by the mark of the weights that they are those with the best test."""
    best = max((score for _, score, _ in found["tests"]), default=0)
    marks = [mark for _, score, mark in found["tests"] if score == best]
    expect(
        found["mark"] in marks or not marks,
        f"`theta` did not have the best test: the best one had a mean return of {best:.0f}. Which actor keeps those weights?",
    )


question(
    "why_at_random",
    """
    Why does DQN draw its 256 transitions at random from the last 20,000, instead of simply taking the newest 256?

    a) The newest ones are not ready yet.
        They are: `add` is done before `sample` begins. Newness is not the problem.
    *b) Neighbours in time are nearly alike; a batch of them shows one corner of the world, and the network forgets the rest.
        Right. A batch from the whole buffer has good and bad moments of many episodes, and each is used several times.
    c) So that all workers get different batches, and none is learned from twice.
        The batches differ, yes, but each transition is drawn about eight times in our program. That is what a buffer is for.
    """,
)

question(
    "lost_or_old",
    """
    Four workers, each 40 updates. With *put* 40 to 60 are in the weights; with *apply* all 160, of gradients that are one to three updates old on average. What has become of the other hundred in the first case?

    *a) They were computed, put, and then overwritten by a worker that had not seen them.
        Right. Their weights existed for a moment. An old gradient still adds something; an overwritten one adds nothing.
    b) They are in the workers' optimizers, and come in later.
        Each optimizer remembers its own gradients, but the weights that it changed are gone.
    c) Nothing is lost: the four updates were alike, so one of them is enough.
        The batch was the same for all, but each update was computed without the others, and only one was kept. In real training even the batches differ.
    """,
)

question(
    "who_is_quicker",
    """
    Your simulator takes 50 ms for a frame of its eight environments, and you have one machine with 32 cores. A call costs 0.2 ms with `multiprocessing` and 1 ms with Ray. Which program plays more steps a second?

    a) The one with `multiprocessing`, five times as many.
        Only the calls are five times as quick, and they take hardly any of the time.
    b) Ray's.
        Its calls cost more, on one machine. It wins elsewhere: when a worker dies, and when 32 cores are not enough.
    *c) Both about as many.
        Right: a round of four frames plays for 200 ms, and its calls cost some milliseconds. Choose by what else you need.
    """,
)

question(
    "who_tells_you",
    """
    At night the operating system kills a worker of each program. In the morning, what do you find?

    a) Two programs that stopped with an error.
        Neither raises. `results.get()` waits for what might still come, and Ray launches the task again.
    b) Both have finished: the other worker did the rest.
        The work is done in both. But one of the two main programs still waits for a goodbye.
    *c) The one with `multiprocessing` waits for a goodbye that never comes; Ray's has finished with a worker in its place.
        Right. A queue does not know which processes were going to write to it; Ray knows which task makes a reference's value.
    """,
)
