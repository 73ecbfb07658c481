"""The judge's side of chapter 7."""

from collections.abc import Iterable, Iterator
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
        "`reset` starts with `super().reset(seed=seed)`, which seeds `self.np_random`. Then draw the starting square from it.",
        "You need `Box(low, high, shape, dtype)` and `Discrete(n)` from `gymnasium.spaces`. What are the lowest and the highest square?",
        "`step` counts the step, moves within 0 … length - 1, and returns the observation, the reward, both flags, and `{}`.",
    ],
)
def SimpleCorridor(answer: Answer, rng: Generator) -> None:
    """Keep the state in the object, draw only from `self.np_random`, and report which of the two reasons ended the episode."""
    # Long: an environment breaks in many silent ways, and `check_env` sees few of them.
    length = int(rng.integers(8, 15))
    for squares in (length, length + 1):  # one of them is odd: the half is rounded down
        with answer.case(f"length={squares}, max_steps=50"):
            _expect_spaces(answer.probe(given.spaces, squares, 50), squares)
            _expect_no_complaint(answer.probe(given.complaints, squares, 50))
            _expect_starts(answer, squares, rng.integers(10_000, size=12).tolist())
    _judge_episodes(answer, rng, length, int(rng.integers(10_000)))


def _expect_no_complaint(complaints: list[str]) -> None:
    for complaint in complaints[:1]:
        if not any(word in complaint for word in ("bool", "unpack", "tuple", "after 1 step")):
            raise Wrong(f"Gymnasium's `check_env` says: {complaint[:400]}")
        raise Wrong(
            f"Gymnasium's `check_env` says: {complaint[:400]} (`reset` must return two values, and `step` five. Two of "
            "the five are terminated and truncated, each a Python True or False: `bool(...)` converts a NumPy boolean.)"
        )


def _judge_episodes(answer: Answer, rng: Generator, length: int, seed: int) -> None:
    """Check episodes that have time to arrive, some that are truncated, and one that arrives in the last step it has."""
    right, wall, there_and_back = [1] * length, [0] * (length + 2), [0, 1] * length
    mixed = rng.integers(2, size=2 * length).tolist()
    [start] = answer.probe(given.starts, length, 50, [seed])
    _expect_walks(answer, length, 5 * length, seed, [right, wall, mixed, right])
    _expect_walks(answer, length, length + 3, seed, [there_and_back, wall, there_and_back])
    _expect_walks(answer, length, length - 1 - int(start), seed, [right])


def _expect_spaces(seen: given.Spaces, length: int) -> None:
    expect(seen["is_environment"], "The corridor must be a `gymnasium.Env`, so keep the first line of the class.")
    box = seen["observations"]
    expect(box["kind"] == "Box", f"`self.observation_space` must be a Box, but it's a {box['kind']}.")
    expect(
        box == {"kind": "Box", "dtype": "float32", "shape": [1], "low": [0], "high": [length - 1]},
        f"In a corridor of {length} squares, your observation space goes from {box['low']} to {box['high']}, with shape "
        f"{box['shape']} and type {box['dtype']}. Compare all four with the rules.",
    )
    actions = {"kind": "Discrete", "n": 2, "start": 0}
    expect_equal(seen["actions"], actions, "`self.action_space` must contain two actions, 0 and 1.")


def _expect_starts(answer: Answer, length: int, seeds: list[int]) -> None:
    """Refuse a start that is not drawn from the corridor's own random numbers."""
    once = [seeds[0]] + 199 * [None]  # of seven squares each comes up, but for one time in 10^12
    squares = answer.probe(given.starts, length, 50, [*seeds, *seeds, *once, *once])
    count = len(seeds)
    expect(len(squares) == 2 * count + 400, "After each `reset`, there should be one square to start from.")
    _expect_seeds_obeyed(seeds, squares[:count], squares[count : 2 * count])
    _expect_drawn(seeds[0], squares[-400:-200], squares[-200:])
    _expect_left_half(squares, length)


def _expect_seeds_obeyed(seeds: list[int], first: list[float], again: list[float]) -> None:
    for seed, one, other in zip(seeds, first, again, strict=True):
        expect(
            one == other,
            f"`reset(seed={seed})` started on square {one:g} the first time, and on square {other:g} the second time. "
            "Draw the start from `self.np_random`, after `super().reset(seed=seed)`.",
        )


def _expect_drawn(seed: int, first: list[float], again: list[float]) -> None:
    """Check that starts without a seed differ, and come again after the same seed."""
    expect(
        len(set(first[1:])) > 1,
        f"After `reset(seed={seed})`, 199 calls to `reset()` without a seed all started on square {first[1]:g}.",
    )
    expect(
        first == again,
        f"The check called `reset(seed={seed})` and then `reset()` 199 times, and repeated all of that; the starts without a seed weren't the same. "
        "Draw every start from `self.np_random`, and let only `super().reset(seed=seed)` seed it.",
    )


def _expect_left_half(squares: list[float], length: int) -> None:
    half, resets = range(length // 2), len(squares)
    outside, never = _named(set(squares) - set(half)), _named(set(half) - set(squares))
    expect(
        not outside,
        f"The left half goes up to square {half[-1]}, but some of {resets} resets started on square {outside}.",
    )
    expect(
        not never,
        f"The left half goes up to square {half[-1]}, but none of {resets} resets started on square {never}.",
    )


def _named(squares: Iterable[float]) -> str:
    return ", ".join(f"{square:g}" for square in sorted(squares))


def _expect_walks(answer: Answer, length: int, max_steps: int, seed: int, walks: list[list[int]]) -> None:
    seen = answer.probe(given.walks, length, max_steps, seed, walks)
    expect(len(seen) == len(walks), "Each `reset` should start one episode.")
    for number, (actions, walk) in enumerate(zip(walks, seen, strict=True), 1):
        start = walk["start"]
        with answer.case(f"length={length}, max_steps={max_steps}, episode {number}, from square {start:g}, {actions}"):
            _expect_walk(walk, list(_corridor(start, length, max_steps, actions)), max_steps)


def _expect_walk(walk: given.Walk, wanted: list[tuple], max_steps: int) -> None:
    _expect_new_arrays(walk["start"], walk["start_afterwards"])
    for step, (made, right) in enumerate(zip(walk["steps"], wanted, strict=False), 1):
        _expect_step(f"Step {step} of at most {max_steps}", made, right)
    steps = len(wanted)
    expect(len(walk["steps"]) == steps, f"The episode should have ended after {steps} steps.")


def _expect_new_arrays(start: float, afterwards: float) -> None:
    expect(
        afterwards == start,
        f"`reset` returned [{start:g}], but after the episode, that array contained [{afterwards:g}]. "
        "Make a new array for every observation.",
    )


def _expect_step(step: str, made: tuple, right: tuple) -> None:
    obs, earned, terminated, truncated = made
    square, reward, arrived, late = right
    expect_equal(obs, [square], f"{step} leads to square {square:g}, but your observation is {obs}.")
    expect_close(earned, reward, f"{step}, to square {square:g}: your reward is {earned}, and it should be {reward:g}.")
    expect(
        terminated == arrived,
        f"{step}, to square {square:g}: you returned terminated={terminated} and truncated={truncated}. "
        "`terminated` must say whether the step reached the exit.",
    )
    expect(
        (arrived and late) or truncated == late,
        f"{step}, to square {square:g}: you returned terminated={terminated} and truncated={truncated}. "
        "`truncated` must say whether this episode has used up its steps.",
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
        "Call `reset` once, before the loop. In the loop, choose, step, and record, and stop if either of the two flags is set.",
        "Start the list of observations with the one from `reset`, and append one after every step.",
    ],
    spare=['    while not episode["terminated"]:'],
)
def rollout(answer: Answer, rng: Generator) -> None:
    """Record the observation for which the action was chosen, and leave the loop for either of the two reasons."""
    for terminated, truncated in ((True, False), (False, True), (True, True)):
        length, seed = int(rng.integers(4, 9)), int(rng.integers(10, 10_000))
        part = {"length": length, "truncated": truncated, "rewards": rng.integers(-50, 50, size=length).tolist()}
        with answer.case(f"an episode of {length} steps, {terminated=}, {truncated=}, seed {seed}"):
            seen = answer.probe(given.play, part, terminated and truncated, seed)
            _expect_calls(seen["calls"], seed, length)
            _expect_episode(seen["episode"], seed, part, terminated)


def _expect_calls(calls: list[tuple[str, Any]], seed: int, length: int) -> None:
    """Check which calls the environment got: one reset, then the steps."""
    first, steps, resets = calls[:1], *(sum(call == kind for call, _ in calls) for kind in ("step", "reset"))
    expect_equal(first, [("reset", seed)], f"Your calls began with {first}. Begin with `env.reset(seed={seed})`.")
    expect(resets == 1, f"You called `reset` {resets} times, but an episode needs it only once.")
    expect(steps == length, f"You called `step` {steps} times, but the episode ends after {length} steps.")


def _expect_episode(episode: Any, seed: int, part: dict, ends_terminated: bool) -> None:
    keys = ["obs", "actions", "rewards", "terminated"]
    expect(isinstance(episode, dict), f"`rollout` returned {episode!r:.80}, not a dict.")
    found = list(episode)
    expect(set(keys) <= set(found), f"The keys are {found}; they should be {keys}.")
    _expect_choices(episode, seed, part["length"])
    rewards, terminated = episode["rewards"], episode["terminated"]
    expect_equal(
        rewards,
        part["rewards"],
        f"Your rewards are {rewards}. The list should have one from each step, as the environment returned it.",
    )
    expect_equal(
        terminated, ends_terminated, f"In the last step, `terminated` was {ends_terminated}; you returned {terminated}."
    )


def _expect_choices(episode: dict, seed: int, length: int) -> None:
    """Check what was observed, and what the policy chose for it."""
    obs, seen = [[seed, 0, step] for step in range(length + 1)], expect_type(episode["obs"], list, "obs")
    count = len(seen)
    expect(
        count == len(obs),
        f"You returned {count} observations for {length} steps. The list should have one from `reset` and one from each step.",
    )
    expect_equal(seen, obs, "Your observations aren't the ones that the environment returned, in that order.")
    actions = [given.chooses(observation) for observation in obs[:-1]]
    expect_equal(
        episode["actions"], actions, "Your actions aren't the ones that the policy chooses for these observations."
    )


@exercise(
    points=2,
    minutes=10,
    hints=[
        "The last return is the easiest one: it's the last reward plus gamma times what follows. How do you get the one before it?",
        "Go through the rewards backward: a step's return is its reward plus gamma times the return of the next step.",
    ],
    spare=["    return returns"],
)
def discounted_returns(answer: Answer, rng: Generator) -> None:
    """Go backward: each return is its step's reward plus gamma times the return of the next step."""
    _expect_by_hand(answer)
    count, gamma = int(rng.integers(5, 9)), float(rng.uniform(0.8, 0.99))
    rewards = rng.integers(-9, 9, size=count).tolist()
    for bootstrap in (0.0, float(rng.uniform(5, 9))):
        want = _returns([*rewards, bootstrap], gamma)
        expect_close(answer(rewards, gamma, bootstrap), want, "These aren't the discounted returns of these rewards.")
    _expect_limits(answer, rewards)


def _expect_by_hand(answer: Answer) -> None:
    """Check numbers that a learner can follow on paper."""
    expect_close(
        answer([1, 2, 3], 0.5),
        [2.75, 3.5, 3],
        "Return one number per step: its reward plus the discounted rewards after it.",
        mistakes={
            "These are the right returns, but the last step's comes first.": [3, 3.5, 2.75],
            "The decimals are gone: an array made from integer rewards can store only integers.": [2, 3, 3],
        },
    )
    expect_close(
        answer([1, 2, 3], 0.5, 8),
        [3.75, 5.5, 7],
        "`bootstrap` stands for what follows the last step, so it counts like one more reward.",
    )


def _returns(future: list[float], gamma: float) -> list[float]:
    """Return the discounted sum from each reward on; the last of `future` is what comes after them."""
    return [sum(gamma**k * reward for k, reward in enumerate(future[t:])) for t in range(len(future) - 1)]


def _expect_limits(answer: Answer, rewards: list[int]) -> None:
    """Check the largest and the smallest gamma."""
    sums = np.cumsum(rewards[::-1])[::-1].tolist()
    expect_close(
        answer(rewards, 1.0), sums, "With gamma = 1, a return is the plain sum of the rewards from its step on."
    )
    expect_close(answer(np.array(rewards, float), 0.0), rewards, "With gamma = 0, a return is its step's own reward.")


@exercise(
    points=2,
    minutes=15,
    hints=[
        "A pole that leans to the right falls to the right. Where must the cart go to get under it?",
        "When the angle changes sign, the pole is already swinging. Which of the four numbers says how fast?",
        "Push toward the side to which the pole leans *or will soon lean*: angle + (some time) · angular velocity.",
    ],
)
def cartpole_policy(answer: Answer, rng: Generator) -> None:
    """Look a little ahead: the angle plus some of the angular velocity shows to which side the pole will soon lean."""
    env = gymnasium.make("CartPole-v1")
    for episode in range(1, 21):
        _expect_balance(answer, env, episode, int(rng.integers(1_000_000)))


def _expect_balance(answer: Answer, env: gymnasium.Env, episode: int, seed: int) -> None:
    obs, _ = env.reset(seed=seed)
    takes, action = answer.probe(given.cartpole_takes, obs)
    expect(
        takes,
        f"`cartpole_policy` returned {action}. CartPole takes only the integers 0 and 1. To get one of them from a comparison, use `int(...)`.",
    )
    for step in range(1, 201):
        obs, _, terminated, _, _ = env.step(_action(answer, obs))
        angle, position = np.degrees(obs[2]), obs[0]
        expect(
            not terminated,
            f"From start {episode} of 20 (seed {seed}), the episode ended after {step} of the 200 steps, "
            f"with the pole at {angle:.0f}° and the cart at {position:.1f}.",
        )


def _action(answer: Answer, obs: np.ndarray) -> int:
    action = answer(obs)
    expect(action in (0, 1), f"`cartpole_policy` returned {action}, but an action is 0 or 1.")
    return int(action)


@exercise(
    points=3,
    minutes=20,
    hints=[
        "In which frames does an environment ignore your action? Look at the first table again: what happened one frame earlier?",
        "Keep an array `real` that is True for every environment at the start, and `~(terminated | truncated)` after each step.",
        "Record `obs[real]`, `actions[real]`, and so on *before* you update `real`, and concatenate the pieces at the end.",
    ],
    spare=["        real = ~terminated"],
)
def vector_rollout(answer: Answer, rng: Generator) -> None:
    """Leave out the frame after an episode's end: it's only a reset, which ignored the action and gave no real reward."""
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
    expect(set(COLUMNS) <= set(found), f"Your dict has the keys {found}, but it needs {COLUMNS}.")
    columns = {key: expect_type(got[key], np.ndarray, key) for key in COLUMNS}
    lengths = {key: len(column) for key, column in columns.items()}
    expect(len(set(lengths.values())) == 1, f"All arrays must have the same length, but yours have {lengths}.")
    for key in ("obs", "next_obs"):
        shape, kind = list(columns[key].shape), columns[key].dtype.kind
        expect(
            shape[1:] == [3] and kind in "fiu",
            f"`{key}` has the shape {shape}. It needs one row per transition, with the 3 numbers of one observation.",
        )
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


def _expect_transitions(rows: list, wanted: list, seed: int) -> None:
    seeds, count = {want[0][0] for want in wanted}, len(rows)
    expect({row[0][0] for row in rows} <= seeds, "Reset the environments once, at the start, with the seed.")
    resets = sum(row[3][1] != row[0][1] for row in rows)
    expect(resets == 0, f"Of your {count} transitions, {resets} lead from one episode to the next.")
    due, earned = len(wanted), sum(want[2] != 0 for want in wanted)
    zeros = sum(row[2] == 0 for row in rows)
    expect(
        zeros or count != earned,
        f"You returned {count} transitions instead of {due}: those with reward 0 are missing, but a step of an episode can earn 0.",
    )
    expect(
        count == due,
        f"You returned {count} transitions instead of {due}, the number in `steps` frames of environments that reset themselves.",
    )
    for row, want in zip(sorted(rows, key=itemgetter(0)), sorted(wanted, key=itemgetter(0)), strict=True):
        _expect_transition(row, want, seed)


def _expect_transition(row: tuple, want: tuple, seed: int) -> None:
    number, episode, clock = want[0]
    env, step = number - seed, clock + 1
    for name, mine, right in zip(COLUMNS, row, want, strict=True):
        expect(
            agree(mine, right),
            f"Environment {env}, episode {episode}, step {step}: your `{name}` is {mine}, not {right}.",
        )


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

    a) From different episodes, because the seed only makes the run reproducible.
        The run is reproducible, but every *episode* starts the same way. Seed only the first reset, and let the generator continue.
    *b) From the same start and the same random numbers, over and over.
        Right. Each of these resets seeds the generator again, so pass a seed once, and none after that.
    c) From the same episodes as without a seed, because seeds are only for tests.
        Wherever you pass a seed, it sets the environment's random generator back to the same state.
    """,
)

question(
    "time_is_up",
    """
    A good policy has balanced CartPole-v1 for 500 steps, with a reward of 1 for each. The last `step` returned terminated=False and truncated=True. With gamma = 0.99, what should G_T be?

    a) 0, because the episode is over.
        Programs with a single `done` flag often do that. But the pole is still up, and only the limit ended the episode.
    *b) About 100, because it could have continued, and 1 + 0.99 + 0.99² + … is 100.
        Right. After truncation, there's a future that you haven't seen. After termination, there is none.
    c) 500, the sum of the rewards so far.
        A discounted return looks only ahead, so the past doesn't count.
    """,
)

question(
    "autoreset_frame",
    """
    In Gymnasium's default mode, environment 2 has just returned terminated=True. What does the next `envs.step(actions)` return for it?

    a) An exception, because its episode is over.
        That's what happens in disabled mode if you don't reset the environment yourself. By default, the vector environment does that for you.
    b) The first step of the new episode, with your action.
        You haven't seen the first observation of that episode yet, so you couldn't choose an action for it. The reset comes first.
    *c) The first observation of a new episode, and a reward of 0, whatever your action is.
        Right. The reset ignores your action, so this frame isn't experience.
    """,
)

question(
    "sixteen_cores",
    """
    A step of your environment takes 10 µs. You put 16 copies of it in an `AsyncVectorEnv`, on 16 cores. How many steps per second do you get, compared with one environment in a plain loop?

    a) About 16 times as many.
        You would if sending a message to a process and getting its reply took no time. You've measured how long that takes.
    *b) Fewer.
        Right, most likely. For each of the 16 copies, sending a message to its process and getting the reply takes as long as several of these steps.
    c) Just as many, because cores make no difference.
        They make a difference if a step takes long. Here, the messages take longer than the steps.
    """,
)
