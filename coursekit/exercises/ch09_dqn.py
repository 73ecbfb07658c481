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
        "Join `obs[1:]` and `last_obs`, and you have the `next_obs` of every frame, shape [T, N, …]. What do you remove after that?",
        "`column[real]` takes the rows in which `real` is True, from all frames and environments at once.",
        "The simplest way is one list of transitions: add the new ones at its end, and cut it with `[-capacity:]`. A faster way is one array per column, used as a ring.",
        "Create `np.random.default_rng(seed)` once, in `__init__`. `rng.integers(stored, size=size)` draws rows; take the same rows from every column.",
    ],
)
def ReplayBuffer(answer: Answer, rng: Generator) -> None:
    """First give each frame its successor, and then remove the resets; positions form a ring, and only filled ones are drawn."""
    # Long: the judge knows every transition of five fragments, so that each mistake in storing them has its own message.
    fragments, rows = _story(rng)
    capacity = sum(map(len, rows[-2:])) + int(rng.integers(2, 6))  # of the third fragment from the end, some are kept
    size, seed = len(rows[0]) + int(rng.integers(1, 4)), int(rng.integers(10**6))  # more than there are at first
    table = _first_table(
        answer, capacity, seed, fragments, size
    )  # first: thousands of lists or rows would be too much for one reply
    times = DRAWS * capacity // size
    found = _samples(answer, capacity, seed, fragments, size, times)
    for number in range(1, 6):
        samples = found[(number - 1) * times : number * times]
        with answer.case(
            f"a buffer with room for {capacity} transitions, fragments added: {number}; an observation is [environment, frame], from 1"
        ):
            _judge_tables([_table_of(sample, size) for sample in samples], rows[:number], capacity)
    with answer.case(f"buffers with the seeds {seed}, {seed}, and {seed + 1}, and the same fragment"):
        again, other = (_first_table(answer, capacity, each, fragments, size) for each in (seed, seed + 1))
        _judge_seed(table, again, other)


def _samples(answer: Answer, capacity: int, seed: int, fragments: list[dict], size: int, times: int) -> list[Any]:
    """Return samples of this size, `times` of them drawn after each fragment was added."""
    found = answer.probe(given.keep_and_sample, capacity, seed, fragments, size, times)
    drawn, wanted = len(found), len(fragments) * times
    expect(drawn == wanted, f"There are {drawn} samples instead of {wanted}.")
    return found


def _first_table(answer: Answer, capacity: int, seed: int, fragments: list[dict], size: int) -> np.ndarray:
    """Return the first sample of a new buffer, which has one fragment, as a table."""
    [sample] = _samples(answer, capacity, seed, fragments[:1], size, 1)
    return _table_of(sample, size)


def _judge_seed(table: np.ndarray, again: np.ndarray, other: np.ndarray) -> None:
    """Check that the seed, and nothing else, decides what is drawn."""
    expect(
        np.array_equal(table, again),
        "Two buffers with the same seed returned different samples. Other code may use the global generators, so give each buffer a generator of its own.",
    )
    expect(not np.array_equal(table, other), "Two buffers with different seeds returned the same sample.")


def _judge_tables(tables: list[np.ndarray], rows: list[np.ndarray], capacity: int) -> None:
    """Check which transitions were drawn after these were added, and how many times."""
    drawn, times = np.unique(np.concatenate(tables), axis=0, return_counts=True)
    _expect_rows(drawn.tolist(), np.concatenate(rows).tolist())
    _expect_kept(drawn, rows, capacity)
    few, many, samples, size = times.min(), times.max(), len(tables), len(tables[0])
    expect(
        many < 2 * few,
        f"One transition was drawn {few} times and another {many} times; each must have the same probability.",
    )
    twice = any(len(np.unique(table, axis=0)) < size for table in tables)
    expect(twice, f"In {samples} samples of {size}, no transition appeared twice: draw with replacement.")


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
    expect(isinstance(sample, dict), f"`sample` returned a {kind} instead of a dict of arrays.")
    keys = [*sample]
    expect(sample.keys() == KINDS.keys(), f"The keys of a sample are {keys}, which are not the six in the docstring.")
    for name, column in sample.items():
        _expect_column(name, column, size)
    return np.column_stack([sample[name] for name in KINDS]).astype(int)


def _expect_column(name: str, column: Any, size: int) -> None:
    kind = type(column).__name__
    expect(isinstance(column, np.ndarray), f"{name!r} in a sample is a {kind} instead of an array.")
    wanted = (size, 2) if "obs" in name else (size,)
    expect(
        column.shape == wanted,
        f"In `sample({size})`, {name!r} has the shape {column.shape}; its first dimension must be the size, and the others those of one transition.",
    )
    expect(
        column.dtype.kind in KINDS[name],
        f"{name!r} came back as {column.dtype}; keep the type that it has in the fragment.",
    )


def _expect_rows(drawn: list[list], added: list[list]) -> None:
    """Check every row that was drawn against the transition with its observation; each message knows a mistake."""
    known = {tuple(row[:2]): row for row in added}
    for row in drawn:
        name, after, want = row[:2], row[2:4], known.get(tuple(row[:2]), [])
        expect(
            want or row[0] not in (1, 2, 3),
            f"[environment, frame] = {name} is a reset, in which the environment ignored the action, so it is not a transition.",
        )
        expect(
            want,
            f"[environment, frame] = {name} was never added. Only positions that already hold a transition may be drawn.",
        )
        came, rest, added_rest = want[2:4], row[4:], want[4:]
        expect(
            after == came,
            f"The `next_obs` of [environment, frame] = {name} is {after}; the next frame of that environment is {came}, and it counts even if it is a reset.",
        )
        expect(
            row == want,
            f"The action, reward, and two flags of [environment, frame] = {name} came back as {rest}; in the fragment, they are {added_rest}.",
        )


def _expect_kept(drawn: np.ndarray, rows: list[np.ndarray], capacity: int) -> None:
    """Check that the latest transitions are drawn and all others are not; those of one fragment are equally old."""
    room, names = capacity, set(map(tuple, drawn.tolist()))
    for part in reversed(rows):
        there, fragment = len(names.intersection(map(tuple, part.tolist()))), len(part)
        wanted = min(fragment, room)
        expect(
            there == wanted,
            f"One fragment has {fragment} transitions. {wanted} of them are among the latest {capacity}, but samples contained {there} of them.",
        )
        room -= wanted


@exercise(
    points=2,
    minutes=10,
    hints=[
        "It takes two steps. Which action does `q_online` prefer in each row? And what value does `q_target` give to that action?",
        "`q_target[np.arange(len(best)), best]` takes one number from each row.",
        "Which of the two flags means that no reward can follow?",
    ],
    returns=np.ndarray,
)
def td_target(answer: Answer, rng: Generator) -> None:
    """The current network chooses, the target network evaluates, and only after a termination does nothing follow."""
    _judge_flags(answer)
    rewards, (online, target) = rng.normal(size=9), rng.normal(size=(2, 9, 4))
    over, late = rng.random((2, 9)) < 0.4
    want = rewards + 0.7 * target[np.arange(9), online.argmax(1)] * ~over
    with answer.case("9 rows of random values for 4 actions, γ = 0.7"):
        got = answer(rewards, over, late, online, target, 0.7)
        expect_close(
            got,
            want,
            "The rows differ here, and some targets are wrong; yours were right when all rows had the same values.",
        )


def _judge_flags(answer: Answer) -> None:
    """Check four rows that differ by their flags alone."""
    over, late = np.array([False, True, False, True]), np.array([False, False, True, True])
    with answer.case(
        "reward 1, γ = 0.5, `q_online` 2 and 4, `q_target` 10 and 6; four rows: no end, terminated, truncated, both"
    ):
        got = answer(np.ones(4), over, late, np.array([[2.0, 4.0]] * 4), np.array([[10.0, 6.0]] * 4), 0.5)
        expect(got.shape == (4,), f"The result has the shape {got.shape}; for four transitions, it must be (4,).")
        expect_close(
            got,
            [4.0, 1.0, 4.0, 1.0],
            f"Your targets for the four rows are {got}. Compare the parts: the reward, γ, the value of the action, and the two flags.",
            mistakes={
                f"Your targets are {got}, as if `q_target` both chose and evaluated the action.": [6.0, 1.0, 6.0, 1.0],
                f"Your targets are {got}, as if `q_online` both chose and evaluated the action.": [3.0, 1.0, 3.0, 1.0],
                f"Your targets are {got}, as if `q_target` chose and `q_online` evaluated.": [2.0, 1.0, 2.0, 1.0],
                f"Your targets are {got}. In the third row, only the time ran out.": [4.0, 1.0, 1.0, 1.0],
                f"Your targets are {got}. In the second and fourth rows, the episode terminated.": [4.0, 4.0, 4.0, 4.0],
                "These targets would be right for γ = 0.99, but `gamma` is 0.5 here.": [6.94, 1.0, 6.94, 1.0],
            },
        )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "What has to be stored from call to call? The weights of both networks, the optimizer, the version, and the ages.",
        "`optimizer.step(self.theta, gradient)` returns nothing, because it changes the array. Which other names refer to the same array?",
        "Arrays that come from Ray are read-only, and so are those that the check passes in, so copy `theta` before you change it.",
        "The age is the version *before* this step, minus the version that the gradient was computed from.",
    ],
)
def SharedAgent(answer: Answer, rng: Generator) -> None:
    """Keep copies of the weights, one optimizer, and a version that counts every step; give the target network a copy, not a second name."""
    # Long: the judge steps an optimizer of its own, and tells a target that was copied late from one that never was.
    theta, every, rate = rng.normal(size=3).astype(np.float32), int(rng.integers(2, 4)), float(rng.uniform(0.1, 0.5))
    ages = [0, 0, 1, 0, 3, 2, *rng.integers(0, 7, size=4).tolist()]
    script = [[rng.normal(size=3).astype(np.float32), version - age] for version, age in enumerate(ages)]
    seen = answer.probe(given.follow_script, theta, rate, every, script)
    path = _path(theta, rate, script)
    called, needed = len(seen["parameters"]), len(path)
    expect(called == needed, f"`parameters()` was called {called} times instead of {needed} times.")
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
    expect(isinstance(now, dict), f"`parameters()` returned a {kind} instead of a dict.")
    keys = [*now]
    expect(
        now.keys() == {"theta", "target", "version"},
        f"The keys of `parameters()` are {keys}; they must be `theta`, `target`, and `version`.",
    )
    expect_equal(
        now["version"], version, f"The version is {now['version']} after {version} gradients; each of them must add 1."
    )
    _expect_theta(now, path, version)
    _expect_target(now, path, version, version - version % every)


def _expect_theta(now: dict, path: list, version: int) -> None:
    expect_close(
        now["theta"],
        path[version],
        "These are not the weights that one `optimizer.step` per gradient leads to.",
        rtol=1e-4,
        atol=1e-6,
        mistakes={"The weights are the same as before the last gradient.": path[version - 1]},
    )


def _expect_target(now: dict, path: list, version: int, at: int) -> None:
    """Check that the target network is what the weights were at a version."""
    mistaken = path[version]
    expect_close(
        now["target"],
        path[at],
        f"The target network must have the weights of version {at}, but it has others.",
        rtol=1e-4,
        atol=1e-6,
        mistakes={
            f"The target network has the current weights instead of those of version {at}: it is the same array, or it was copied at the wrong version.": mistaken
        },
    )


def _expect_ages(said: object, ages: list[int]) -> None:
    expect_equal(
        said,
        ages,
        f"The gradients had the ages {ages}, and `ages()` returned {said}. A gradient of version 2 that arrives at version 4 has the age 2.",
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "Go through `plain_work` line by line: `handle.method(x)` becomes `handle.method.remote(x)`, which returns a reference.",
        "You need `ray.get` where you use the value: for the board's answer, the parameters, and the batch.",
        "`results` is not an actor handle, so its `put` stays as it is.",
    ],
    spare=['        steps, played = fragment["real"].size, played + ended'],
)
def work(answer: Answer, rng: Generator) -> None:
    """Wait where you need a value; your calls to one ordinary actor keep their order, so you don't have to wait for the other calls."""
    # Long: an agent, a buffer, a board, and a sampler answer by a script, so that every round of a worker can be followed.
    rounds = 2 * TEST_EVERY + int(rng.integers(2, 9))
    versions = np.cumsum(rng.integers(1, 4, size=5 * rounds)).tolist()
    with answer.case(f"the board says {rounds} times to continue, and then to stop"):
        seen = answer.probe(given.follow_worker, rounds, versions)
        _expect_played(seen, rounds)
        _expect_learned(seen, rounds)
        _expect_reported(seen)


def _expect_played(seen: given.Worked, rounds: int) -> None:
    """Check that each round was collected with new parameters, added to the buffer, and counted once."""
    played, added = len(seen["play"]), len(seen["add"])
    expect(played == rounds, f"The worker collected fragments in {played} rounds instead of {rounds}.")
    versions = [version for version, _ in seen["play"]]
    late = next((turn for turn in range(1, rounds) if versions[turn] <= versions[turn - 1]), 0)
    before, now = versions[late - 1], versions[late]
    expect(
        not late,
        f"In round {late}, the fragment was collected with version {now}, and in the round before with version {before}. Get new parameters in every round.",
    )
    expect_equal(
        seen["add"],
        list(range(rounds)),
        f"{rounds} fragments were collected, and the buffer got {added}; it needs each of them once, in order.",
    )
    expect(
        seen["held"][:1] != [0],
        "In round 0, the batch was sampled before the fragment was added, so the buffer was empty.",
    )
    _expect_explored(seen["play"])
    _expect_counted(seen["count"], rounds)


def _expect_explored(played: list[tuple[float, float]]) -> None:
    """Check that the probability of a random action follows the version that collected."""
    for turn, (version, share) in enumerate(played):
        expect_close(
            share,
            max(0.05, 1 - version / 250),
            f"In round {turn}, the worker used version {version:g} with ε = {share:.3g}, which is not what `epsilon` returns for that version.",
            atol=1e-3,
        )


def _expect_counted(counted: list, rounds: int) -> None:
    frames, first = 4 * given.ENVS, counted[:4]
    expect_close(
        counted,
        [0] + [frames - number % 7 for number in range(rounds)],
        f"`board.count` was told {first}, and so on; it must be told 0 at first, and then the number of real steps in the previous round.",
        mistakes={
            "The worker counted all rows of a fragment. Only those with `real` True are steps.": [0] + [frames] * rounds
        },
    )


def _expect_learned(seen: given.Worked, rounds: int) -> None:
    """Check that every round's gradient is that of its batch at the parameters of the version that came with it."""
    first, applied = seen["sample"][:3], len(seen["apply"])
    expect_equal(
        seen["sample"][:rounds], [BATCH] * rounds, f"The first batches had {first} transitions; `BATCH` is {BATCH}."
    )
    expect(
        applied == rounds,
        f"`agent.apply` was called {applied} times in {rounds} rounds; it needs one gradient per round.",
    )
    for turn, (slope, version) in enumerate(seen["apply"]):
        _expect_slope(slope, turn, version)


def _expect_slope(slope: float, turn: int, version: float) -> None:
    # The current network says `version` everywhere, the target network -version; the batch has the reward `turn`, half of it terminates.
    expect_close(
        slope,
        version - (turn - 0.99 * version / 2),
        f"In round {turn}, `agent.apply` got version {version}, but the gradient is not that of this round's batch at that version's parameters.",
        rtol=1e-4,
        atol=1e-2,
    )


def _expect_reported(seen: given.Worked) -> None:
    """Check tests, offers, and reports: in rounds 0, 25, and 50, with no return lost or repeated."""
    tested, offered, times = seen["test"], seen["offer"], len(seen["test"])
    expect(times == 3, f"The worker tested {times} times; it must test in rounds 0, 25, and 50.")
    expect_equal(
        offered, tested, f"The [score, version] of the tests were {tested}, and the board was offered {offered}."
    )
    reports = _expect_three(seen["put"])
    told = [[score, version] for _, _, version, score, _ in reports]
    expect_equal(told, tested, f"The [score, version] of the tests were {tested}, and the reports have {told}.")
    _expect_time_and_process(reports, seen)
    _expect_each_return_once([value for *_, returns in reports for value in returns])


def _expect_time_and_process(reports: list[tuple], seen: given.Worked) -> None:
    """Check what each report starts with: when it was made, and by which process."""
    began, ended = seen["clock"]
    times, processes, process = [when for when, *_ in reports], [where for _, where, *_ in reports], seen["process"]
    expect(
        all(began <= when <= ended for when in times),
        f"The reports start with {times}, which should be times in seconds since 1970. The worker ran from {began:.1f} to {ended:.1f}.",
    )
    expect(
        processes == [process] * 3,
        f"The reports name the processes {processes}, but the worker ran in process {process}.",
    )


def _expect_three(reports: list[Any]) -> list[tuple[float, int, Any, Any, list[float]]]:
    """Return the reports, once it is certain that there are three of the form that the chapter gives them."""
    expect(
        None not in reports,
        "The queue got `None`, which isn't a report. With Ray, the worker puts only its reports there.",
    )
    forms = [isinstance(report, list | tuple) and len(report) == 5 for report in reports]
    expect(
        forms == [True] * 3,
        f"The queue must get three reports, each with (time, process, version, score, returns); it got {reports}.",
    )
    return expect_type(reports, list[tuple[float, int, Any, Any, list[float]]], "reports")


def _expect_each_return_once(returns: list[float]) -> None:
    told = len(returns)
    expect(
        returns in (list(range(50)), list(range(51))),
        f"By the end of round 50, 51 episodes had ended, but the reports list {told} returns; each return belongs in exactly one report, in order.",
    )


@exercise(
    points=3,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "Compare `process_train`: it starts the shared objects and the workers, and then it collects the reports and the best weights. Which of its lines only count `None`?",
        "`ray.get(ray_crew(...))` waits until all workers have finished. When are the reports complete?",
        "All of it belongs inside the `with` block, because the actors are killed when the block ends.",
        "`ray.get(board.best.remote())` is (score, theta).",
    ],
)
def train(answer: Answer, rng: Generator) -> None:
    """Start the actors and the workers, wait for all workers with one `ray.get`, and fetch reports and best weights before the actors are killed."""
    # Long: only weights trained here balance this pole, and two workers must have run at the same time, and been waited for.
    exam = int(rng.integers(1, 10**6))
    turn = hard_turn(rng, exam)

    def learn(seed: int) -> float:
        theta, tests = _learned(answer.probe(given.learn, turn.tolist(), seed))
        answer.keep_curve("updates", tests)
        mean = mean_return(lambda obs: given.q_values(theta, obs).argmax(-1), turn, exam)
        expect(
            mean >= HOPELESS,
            f"In 100 new episodes, the mean return of `theta` was {mean:.0f}; random actions reach about 22.",
        )
        return mean

    means = [round(mean) for mean in best_of(learn, rng, GOAL)]
    expect(
        max(means) >= GOAL,
        f"In 100 new episodes, the mean returns were {means}, one for each seed; at least one must reach {GOAL}.",
    )
    with answer.case("rewards so high that the first test ends the training; one worker takes longer for its test"):
        left = answer.probe(given.workers_left, int(rng.integers(1, 10**6)))
        expect(left == 0, f"When `train` returned, this many workers were still testing: {left}. Wait for all workers.")


def _learned(found: given.Trained) -> tuple[np.ndarray, list[tuple]]:
    """Return the weights that came back, and the version and the score of each report, if all is as it must be."""
    learned, workers = found["learned"], found["workers"]
    theta = _theta_of(learned)
    expect(
        workers >= 2,
        f"The number of workers that used the environments of `make_envs` is {workers}. There must be two of them, at the same time.",
    )
    reports: list[tuple] = expect_type(learned["reports"], list[tuple[Any, int, Any, Any, Any]], "reports")
    _expect_all_reports([process for _, process, *_ in reports], found["tests"])
    _expect_best(found)
    return np.asarray(theta, np.float32), [(version, score) for _, _, version, score, _ in reports]


def _theta_of(learned: Any) -> np.ndarray:
    """Return the weights that came back, if they have the right form."""
    kind = type(learned).__name__
    expect(isinstance(learned, dict), f"`train` must return a dict with `theta` and `reports`; it returned a {kind}.")
    keys = [*learned]
    expect(
        {"theta", "reports"} <= learned.keys(),
        f"`train` must return a dict with `theta` and `reports`; its keys are {keys}.",
    )
    theta, kind, size = learned["theta"], type(learned["theta"]).__name__, given.WEIGHTS
    expect(isinstance(theta, np.ndarray), f"`theta` must be an array with the best weights; it is a {kind}.")
    expect(theta.shape == (size,), f"`theta` has the shape {theta.shape} instead of ({size},).")
    expect(theta.dtype.kind == "f", f"`theta` has the dtype {theta.dtype}; weights are floats.")
    return theta


def _expect_all_reports(reporting: list[int], tested: list[tuple[int, float, int]]) -> None:
    """Check that there are as many reports of each process as it had made tests, or more."""
    expect(reporting, "`train` returned no reports. Fetch them from the queue once all workers have finished.")
    for process, tests in Counter(process for process, _, _ in tested).items():
        told = reporting.count(process)
        expect(
            told >= tests,
            f"Process {process} made {tests} tests, and `train` returned {told} of its reports. Fetch all of them from the queue, after all workers have finished.",
        )


def _expect_best(found: given.Trained) -> None:
    """Check by the mark of the weights that they are those with the best test."""
    best = max((score for _, score, _ in found["tests"]), default=0)
    marks = [mark for _, score, mark in found["tests"] if score == best]
    expect(
        found["mark"] in marks or not marks,
        f"`theta` doesn't hold the weights with the best test score, a mean return of {best:.0f}. The board keeps those weights.",
    )


question(
    "why_at_random",
    """
    Why does DQN sample 256 transitions at random from the last 20,000 instead of taking the latest 256?

    a) The latest ones aren't in the buffer yet.
        They are, because `add` has finished before `sample` starts. Being new isn't the problem.
    *b) Consecutive transitions are very similar, so a batch of them shows only a small part of what can happen.
        That's right. The network would forget the rest. A batch from the whole buffer has transitions from many episodes.
    c) All workers get different batches, so that no transition is used twice.
        The batches do differ, but in our program, each transition is sampled about eight times. Reusing experience is what the buffer is for.
    """,
)

question(
    "lost_or_old",
    """
    Four workers that put weights make 160 updates, and only 40 to 60 of these updates are in the weights at the end. What happened to the other hundred?

    *a) They were computed and put, and then overwritten by a worker that hadn't seen them.
        That's right. A stale gradient still contributes something, but an overwritten update contributes nothing.
    b) They're in the workers' optimizers, and they'll be applied later.
        Each optimizer remembers averages of its own gradients, but the weights that it changed are gone.
    c) Nothing is lost, because the four updates were the same, and one of them is enough.
        All workers had the same batch, but each update was computed without the others, and only one was kept. In real training, even the batches differ.
    """,
)

question(
    "who_is_quicker",
    """
    A simulator needs 50 ms for one frame of its eight environments, on a single machine with 32 cores. A call takes 0.2 ms with `multiprocessing` and 1 ms with Ray. Which program collects more steps per second?

    a) The one with `multiprocessing`, by a factor of five.
        Only its calls are five times as fast, and calls take a small part of the time.
    b) The one with Ray.
        On one machine, its calls take longer. Ray has the advantage when a worker dies, or when 32 cores aren't enough.
    *c) Both collect about the same number.
        That's right. The four frames of a round take 200 ms, and its calls take a few milliseconds at most. Base your choice on what else you need.
    """,
)

question(
    "who_tells_you",
    """
    At night, the operating system kills one worker of each program. What do you find in the morning?

    a) Both programs have stopped with an error.
        Neither raises one. `results.get()` waits for what might still come, and Ray launches the task again.
    b) Both programs have finished, because the other worker did the rest.
        In both, the work is done. But one of the main programs is still waiting for a `None`.
    *c) The program with `multiprocessing` is waiting for a `None` that never comes, and Ray's program has finished.
        That's right. A queue doesn't know which processes will write to it, but Ray knows which task has to return the value of a reference.
    """,
)
