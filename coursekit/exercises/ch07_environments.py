"""The judge's side of chapter 7."""

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Any

import gymnasium
import numpy as np
from numpy.random import Generator

from coursekit.given import ch07_environments as given
from coursekit.given.scripted import frames_of
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import Wrong, agree, expect, expect_close, expect_equal, expect_type

COLUMNS = ("obs", "actions", "rewards", "next_obs", "terminated")


@exercise(
    points=3,
    minutes=20,
    hints=[
        "`reset` begins with `super().reset(seed=seed)`: that seeds `self.np_random`, from which you draw the start.",
        "From `gymnasium.spaces`: `Box(low, high, shape, dtype)` and `Discrete(n)`. Which is the lowest square, which the highest?",
        "`step` counts, moves within 0 … length - 1, and returns five values: observation, reward, terminated, truncated, {}.",
    ],
)
def SimpleCorridor(answer: Answer, rng: Generator) -> None:
    """Keep the state in the object, draw from `self.np_random` alone, and say for which of two reasons an episode ends."""
    # Long: an environment breaks in many silent ways, and `check_env` sees few of them.
    length, seed = int(rng.integers(8, 15)), int(rng.integers(10_000))
    with answer.case(f"length={length}, max_steps=50"):
        _expect_spaces(answer.probe(given.spaces, length, 50), length)
        _expect_no_complaint(answer.probe(given.complaints, length, 50))
        _expect_starts(answer, length, seed)
    _judge_episodes(answer, rng, length, seed)


def _expect_no_complaint(complaints: list[str]) -> None:
    for complaint in complaints[:1]:
        if not any(word in complaint for word in ("bool", "unpack", "tuple", "after 1 step")):
            raise Wrong(f"Gymnasium's `check_env` says: {complaint[:400]}")
        raise Wrong(
            f"Gymnasium's `check_env` says: {complaint[:400]} (`reset` must return two values, and `step` five; two of "
            "them are terminated and truncated, each True or False: `bool(...)` makes one of NumPy's.)"
        )


def _judge_episodes(answer: Answer, rng: Generator, length: int, seed: int) -> None:
    """Check episodes that have time to arrive, then some that are cut off."""
    right, wall, there_and_back = [1] * length, [0] * (length + 2), [0, 1] * length
    mixed = rng.integers(2, size=2 * length).tolist()
    _expect_walks(answer, length, 5 * length, seed, [right, wall, mixed, right])
    _expect_walks(answer, length, length + 3, seed, [there_and_back, wall, there_and_back])


def _expect_spaces(seen: given.Spaces, length: int) -> None:
    expect(seen["is_environment"], "A corridor must be a `gymnasium.Env`: keep the first line of the class.")
    box = seen["observations"]
    expect(box["kind"] == "Box", f"`self.observation_space` must be a Box; it is a {box['kind']}.")
    expect(
        box == {"kind": "Box", "shape": [1], "low": [0], "high": [length - 1]},
        f"Your observation space goes from {box['low']} to {box['high']}, shape {box['shape']}. Which squares are there?",
    )
    actions = {"kind": "Discrete", "n": 2, "start": 0}
    expect_equal(seen["actions"], actions, "`self.action_space`: two actions, 0 and 1.")


def _expect_starts(answer: Answer, length: int, seed: int) -> None:
    """Refuse a start that is not drawn from the corridor's own random numbers."""
    seeds = [seed] + 199 * [None]  # of seven squares each comes up, but for one time in 10^12
    first, again = (answer.probe(given.starts, length, 50, seeds) for _ in range(2))
    expect(len(first) == len(again) == len(seeds), "After each `reset` there should be one square to start from.")
    _expect_seed_obeyed(first[0], again[0], seed)
    _expect_left_half(first, length)
    _expect_drawn(first, again, seed)
    _expect_every_field(first, length)


def _expect_seed_obeyed(first: float, again: float, seed: int) -> None:
    expect(
        first == again,
        f"`reset(seed={seed})` began on different squares. Draw the start from `self.np_random`, once it is seeded.",
    )


def _expect_left_half(first: list[float], length: int) -> None:
    outside = sorted(set(first) - set(range(length // 2)))
    expect(not outside, f"In 200 resets it began on the squares {outside}, which are not in the left half.")


def _expect_drawn(first: list[float], again: list[float], seed: int) -> None:
    """Check that starts without a seed differ, and come again after the same seed."""
    expect(len(set(first[1:])) > 1, f"199 times `reset()`, without a seed: it always began on square {first[1]:g}.")
    expect(
        first == again,
        f"`reset(seed={seed})`, then `reset()` 199 times, done twice: the starts differed. Seed only when a seed is given.",
    )


def _expect_every_field(first: list[float], length: int) -> None:
    last, never = length // 2 - 1, sorted(set(range(length // 2)) - set(first))
    expect(not never, f"The left half goes up to square {last}, and of 200 resets none began on {never}.")


def _expect_walks(answer: Answer, length: int, max_steps: int, seed: int, walks: list[list[int]]) -> None:
    seen = answer.probe(given.walks, length, max_steps, seed, walks)
    expect(len(seen) == len(walks), "Each `reset` should begin one episode.")
    for number, (actions, walk) in enumerate(zip(walks, seen, strict=True), 1):
        start = walk["start"]
        with answer.case(f"length={length}, max_steps={max_steps}, episode {number}, from square {start:g}, {actions}"):
            _expect_walk(walk, list(_corridor(start, length, max_steps, actions)))


def _expect_walk(walk: given.Walk, wanted: list[tuple]) -> None:
    _expect_new_arrays(walk["start"], walk["start_afterwards"])
    for step, (made, right) in enumerate(zip(walk["steps"], wanted, strict=False), 1):
        _expect_step(step, made, right)
    steps = len(wanted)
    expect(len(walk["steps"]) == steps, f"The episode should have ended after {steps} steps.")


def _expect_new_arrays(start: float, afterwards: float) -> None:
    expect(
        afterwards == start,
        f"`reset` returned [{start:g}], and when the episode had ended that array held "
        f"[{afterwards:g}]: make a new array for every observation.",
    )


def _expect_step(step: int, made: tuple, right: tuple) -> None:
    obs, earned, terminated, truncated = made
    square, reward, arrived, late = right
    expect_equal(obs, [square], f"Step {step} leads to square {square:g}; the observation is {obs}.")
    expect_close(earned, reward, f"Step {step}, to square {square:g}: reward {earned}.")
    expect(
        terminated == arrived,
        f"Step {step}, to square {square:g}: terminated={terminated}, truncated={truncated}. What does `terminated` say?",
    )
    expect(
        (arrived and late) or truncated == late,
        f"Step {step}, to square {square:g}: terminated={terminated}, truncated={truncated}. When is an episode cut off?",
    )


def _corridor(
    start: float, length: int, max_steps: int, actions: list[int]
) -> Iterator[tuple[float, float, bool, bool]]:
    """Yield square, reward, terminated and truncated of each step until the episode ends."""
    square = start
    for step, action in enumerate(actions, 1):
        square = min(max(square + (1 if action else -1), 0), length - 1)
        arrived, late = square == length - 1, step == max_steps
        yield square, 1.0 if arrived else -0.1, arrived, late
        if arrived or late:
            return


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Before the loop: one `reset`, with the seed. In the loop: choose, step, record; stop for either of the two reasons.",
        "`obs` begins with the observation of `reset`, and grows by one with every step.",
    ],
)
def rollout(answer: Answer, rng: Generator) -> None:
    """Record the observation for which the action was chosen, and leave the loop for either of the two reasons."""
    for truncated in (False, True):
        length, seed = int(rng.integers(4, 9)), int(rng.integers(10, 10_000))
        part = {"length": length, "truncated": truncated, "rewards": rng.integers(-50, 50, size=length).tolist()}
        with answer.case(f"an episode of {length} steps, truncated={truncated}, seed {seed}"):
            seen = answer.probe(given.play, part, seed)
            _expect_calls(seen["calls"], seed, length)
            _expect_episode(seen["episode"], seed, part)


def _expect_calls(calls: list[tuple[str, Any]], seed: int, length: int) -> None:
    """Check what the environment was asked: one reset, then the steps."""
    first, steps = calls[:1], sum(call == "step" for call, _ in calls)
    expect_equal(first, [("reset", seed)], f"The first call was {first}. Begin with `env.reset(seed={seed})`.")
    expect(steps == length, f"You took {steps} steps; the episode has {length}.")
    expect(len(calls) == length + 1, "`reset` was called more than once.")


def _expect_episode(episode: Any, seed: int, part: dict) -> None:
    keys = ["obs", "actions", "rewards", "terminated"]
    expect(isinstance(episode, dict), f"`rollout` returned {episode!r:.80}, not a dict.")
    found = list(episode)
    expect(set(keys) <= set(found), f"The keys are {found}; they should be {keys}.")
    _expect_choices(episode, seed, part["length"])
    rewards, terminated = episode["rewards"], episode["terminated"]
    expect_equal(rewards, part["rewards"], f"The rewards came out as {rewards}.")
    expect_equal(terminated, not part["truncated"], f"`terminated` came out as {terminated}.")


def _expect_choices(episode: dict, seed: int, length: int) -> None:
    """Check what was observed, and what the policy chose for it."""
    obs, seen = [[seed, 0, step] for step in range(length + 1)], expect_type(episode["obs"], list, "obs")
    count = len(seen)
    expect(
        count == len(obs),
        f"{count} observations for {length} steps: the first one and the last one belong in the list, too.",
    )
    expect_equal(seen, obs, "The observations are not those that the environment gave.")
    actions = [given.chooses(observation) for observation in obs[:-1]]
    expect_equal(episode["actions"], actions, "The actions are not the policy's for these observations.")


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Which of the returns is easiest to write down? The last one: its reward, and gamma times what comes after.",
        "Walk backwards through the rewards: the return of a step is its reward plus gamma times the return of the next.",
    ],
)
def discounted_returns(answer: Answer, rng: Generator) -> None:
    """Walk backwards: each return is its reward plus gamma times the return of the step after it."""
    _expect_by_hand(answer)
    count, gamma = int(rng.integers(5, 9)), float(rng.uniform(0.8, 0.99))
    rewards = rng.integers(-9, 9, size=count).tolist()
    for bootstrap in (0.0, float(rng.uniform(5, 9))):
        want = _returns([*rewards, bootstrap], gamma)
        expect_close(answer(rewards, gamma, bootstrap), want, "With these rewards the returns are wrong.")
    _expect_limits(answer, rewards)


def _expect_by_hand(answer: Answer) -> None:
    """Check numbers that a learner can follow on paper."""
    expect_close(answer([1, 2, 3], 0.5), [2.75, 3.5, 3], "One return for each step, counted from that step on.")
    expect_close(
        answer([1, 2, 3], 0.5, 8),
        [3.75, 5.5, 7],
        "What comes after the last step is worth `bootstrap`, and counts as one more reward would.",
    )


def _returns(future: list[float], gamma: float) -> list[float]:
    """Return the discounted sum from each reward on; the last of `future` is what comes after them."""
    return [sum(gamma**k * reward for k, reward in enumerate(future[t:])) for t in range(len(future) - 1)]


def _expect_limits(answer: Answer, rewards: list[int]) -> None:
    """Check the largest and the smallest gamma."""
    sums = np.cumsum(rewards[::-1])[::-1].tolist()
    expect_close(answer(rewards, 1.0), sums, "With gamma = 1, nothing is discounted.")
    expect_close(answer(np.array(rewards, float), 0.0), rewards, "With gamma = 0, only the step's own reward counts.")


@exercise(
    points=2,
    minutes=15,
    hints=[
        "A pole that leans to the right falls to the right. Where must the cart go to get below it?",
        "The angle alone comes too late: when it changes sign, the pole is swinging already. Which number says how fast it swings?",
        "Push to the side to which the pole leans *or will lean soon*: angle + (some time) · angular velocity.",
    ],
    returns=int,
)
def cartpole_policy(answer: Answer, rng: Generator) -> None:
    """Look a little ahead: the angle plus some of the angular velocity says where the pole will lean soon."""
    env = gymnasium.make("CartPole-v1")
    for episode in range(1, 21):
        _expect_balance(answer, env, episode, int(rng.integers(1_000_000)))


def _expect_balance(answer: Answer, env: gymnasium.Env, episode: int, seed: int) -> None:
    obs, _ = env.reset(seed=seed)
    for step in range(1, 201):
        obs, _, terminated, _, _ = env.step(_action(answer, obs))
        angle, position = np.degrees(obs[2]), obs[0]
        expect(
            not terminated,
            f"Start {episode} of 20 (seed {seed}): the episode ended after {step} steps, "
            f"angle {angle:.0f}°, position {position:.1f}.",
        )


def _action(answer: Answer, obs: np.ndarray) -> int:
    action = answer(obs)
    expect(action in (0, 1), f"`cartpole_policy` returned {action}. An action is the integer 0 or 1.")
    return int(action)


@exercise(
    points=3,
    minutes=20,
    hints=[
        "In which frames does the environment ignore your action? Look at the table again: what happened one frame earlier?",
        "Keep an array `real`, True for each environment at first; after each step it is `~(terminated | truncated)`.",
        "Record `obs[real]`, `actions[real]` and so on *before* you update `real`; join the pieces at the end.",
    ],
)
def vector_rollout(answer: Answer, rng: Generator) -> None:
    """The frame after an end is a reset: its action was ignored and its reward invented, so leave it out."""
    # Long: 40 lines are the scripted environment, which chapter 8 uses too.
    steps, seed = 24, int(rng.integers(10, 10_000))
    scripts = _scripts(rng, steps)
    with answer.case(f"{len(scripts)} environments, {steps} steps each, seed {seed}"):
        rows = _rows(answer.probe(given.play_together, scripts, steps, seed))
        _expect_transitions(rows, _transitions(scripts, steps, seed), seed)


def _scripts(rng: Generator, steps: int) -> list[list[dict]]:
    """Return the episodes of four environments: three that meet both kinds of end, and one that never ends."""
    ends = [[False, True], [True, False], [False, True]]
    scripts: list[list[dict]] = [
        [{"length": int(rng.integers(3, 8)), "truncated": end} for end in pair] for pair in ends
    ]
    scripts.append([{"length": 10 * steps, "truncated": False}])
    for part in sum(scripts, []):
        part["rewards"] = [*rng.integers(1, 50, size=part["length"] - 2).tolist(), 0, 7]  # a real step may earn nothing
    return scripts


def _rows(got: Any) -> list[tuple]:
    """Return the transitions of what `vector_rollout` returned, one row for each."""
    expect(isinstance(got, dict), f"`vector_rollout` returned {got!r:.80}, not a dict.")
    found = list(got)
    expect(set(COLUMNS) <= set(found), f"The keys are {found}; they should be {COLUMNS}.")
    columns = {key: expect_type(got[key], np.ndarray, key) for key in COLUMNS}
    lengths = {key: len(column) for key, column in columns.items()}
    expect(len(set(lengths.values())) == 1, f"All columns must have the same length; yours have {lengths}.")
    obs = columns["obs"], columns["next_obs"]
    expect(
        all(each.shape[1:] == (3,) and each.dtype.kind in "fiu" for each in obs), "One row for each transition, please."
    )
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


def _expect_transitions(rows: list, wanted: list, seed: int) -> None:
    seeds, count = {want[0][0] for want in wanted}, len(rows)
    expect({row[0][0] for row in rows} <= seeds, "Reset the environments with the seed, once, at the start.")
    resets = sum(row[3][1] != row[0][1] for row in rows)
    expect(resets == 0, f"Of your {count} transitions, {resets} lead from one episode into the next.")
    happened, zeros = len(wanted), sum(row[2] == 0 for row in rows)
    expect(count == happened or zeros, "A real step may earn 0: those that earned nothing are missing.")
    expect(count == happened, f"{happened} transitions really happened; you have {count}.")
    for row, want in zip(sorted(rows, key=itemgetter(0)), sorted(wanted, key=itemgetter(0)), strict=True):
        _expect_transition(row, want, seed)


def _expect_transition(row: tuple, want: tuple, seed: int) -> None:
    number, episode, clock = want[0]
    env, step = number - seed, clock + 1
    for name, mine, right in zip(COLUMNS, row, want, strict=True):
        expect(agree(mine, right), f"Environment {env}, episode {episode}, step {step}: `{name}` came out as {mine}.")


def _transitions(scripts: list[list[dict]], steps: int, seed: int) -> list[tuple]:
    """Return the transitions that really happen; in the frame between two episodes none does."""
    frames = frames_of(scripts, steps, seed).tolist()
    rows = []
    for before, after in pairwise(frames):
        for (number, episode, clock, length, truncated), following in zip(before, after, strict=True):
            if clock < length:
                script, obs = scripts[number - seed], [number, episode, clock]
                reward, terminated = script[episode % len(script)]["rewards"][clock], clock + 1 == length
                rows.append((obs, given.chooses(obs), reward, following[:3], terminated and not truncated))
    return rows


question(
    "seed_every_episode",
    """
    A training loop calls `env.reset(seed=0)` before every episode. What does the agent learn from?

    a) From different episodes: the seed only makes the run repeatable.
        It starts each *episode* the same way. Seed the first reset, and let the generator continue from there.
    *b) From the same start and the same random numbers, over and over.
        Right: each reset rewinds the random numbers. Pass a seed once, and none after that.
    c) Nothing changes, since a seed is only for tests.
        A seed rewinds the environment's random numbers, wherever you pass it.
    """,
)

question(
    "time_is_up",
    """
    CartPole-v1 has been balanced for 500 steps, 1 point each; the last `step` says terminated=False, truncated=True. With gamma = 0.99, what belongs after the last step, as G_T?

    a) 0: the episode is over.
        That is what the old flag `done` led people to write. But the pole still stands: only our patience has ended.
    *b) About 100: it would have continued, and 1 + 0.99 + 0.99² + … is 100.
        Right. After `truncated` there is a future that we did not see; after `terminated` there is none.
    c) 500, the rewards so far.
        The past does not count: a return only looks ahead.
    """,
)

question(
    "autoreset_frame",
    """
    Gymnasium's default (next step): environment 2 has just returned terminated=True. What comes back for it from the next `envs.step(actions)`?

    a) An exception: its episode is over.
        That is the mode DISABLED. By default, vector environments reset themselves.
    b) The first step of the new episode, with your action.
        You have not seen its first observation yet, so you could not choose an action for it. A reset comes first.
    *c) The first observation of a new episode, reward 0, and your action is ignored.
        Right. It is a frame, but not experience: no action led from one observation to the other.
    """,
)

question(
    "sixteen_cores",
    """
    A step of your environment takes 10 µs, and your machine has 16 cores. You put 16 copies into an `AsyncVectorEnv`. Steps a second?

    a) About 16 times as many.
        Only if a message to a process and its answer took no time. You have measured what they take.
    *b) Fewer than from one environment in a plain loop.
        Right, most likely: a message to a process and back costs several steps of such an environment, for each copy.
    c) As many: the cores do not matter.
        They matter when a step takes long. Here the messages take longer than the steps.
    """,
)
