"""The judge's side of chapter 7."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import agree, exercise, expect, expect_close, expect_equal, quiz
from coursekit.given import ch07_environments as given

COLUMNS = ("obs", "actions", "rewards", "next_obs", "terminated")


@exercise(
    points=3,
    minutes=20,
    hints=[
        "`reset` begins with `super().reset(seed=seed)`: that seeds `self.np_random`, from which you draw the start.",
        "An observation is an array of the space's own type and shape: `np.array([self.position], np.float32)`.",
        "`step` counts, moves within 0 … length - 1, and returns five values: observation, reward, terminated, truncated, {}.",
    ],
)
def SimpleCorridor(answer: Answer, rng: Generator) -> None:
    """Keep the state in the object, draw from `self.np_random` alone, and say for which of two reasons an episode ends."""
    length, seed = int(rng.integers(8, 15)), int(rng.integers(10_000))
    _expect_spaces(answer.probe(given.spaces, length, 50), length)
    _expect_starts(answer, length, seed)
    (one_step,) = answer.probe(given.walks, length, 50, seed, [[1]])[0]["steps"]
    expect(
        len(one_step) == 5,
        f"`step` returned {len(one_step)} values. There are five: terminated and truncated are two of them.",
    )
    complaints = answer.probe(given.complaints, length, 50)
    expect(complaints == [], f"Gymnasium's `check_env` says: {complaints[0][:400] if complaints else ''}")
    right, wall, there_and_back = [1] * length, [0] * (length + 2), [0, 1] * length
    mixed = rng.integers(2, size=2 * length).tolist()
    _expect_walks(answer, length, 5 * length, seed, [right, wall, mixed, right])
    _expect_walks(answer, length, length + 3, seed, [there_and_back, wall, there_and_back])


def _expect_spaces(seen: dict, length: int) -> None:
    expect(seen["is an environment"], "A corridor must be a `gymnasium.Env`: keep the first line of the class.")
    kind, actions = seen["observations"]["kind"], seen["actions"]
    expect(kind == "Box", f"`self.observation_space` must be a Box; it is a {kind}.")
    box = {key: seen["observations"][key] for key in ("shape", "low", "high")}
    shown = (
        f"With length={length}, your observation space goes from {box['low']} to {box['high']}, shape {box['shape']}."
    )
    expect_equal(box, {"shape": [1], "low": [0], "high": [length - 1]}, f"{shown} Which fields are there?")
    expect(actions == {"kind": "Discrete", "n": 2, "start": 0}, "`self.action_space`: two actions, 0 and 1.")


def _expect_starts(answer: Answer, length: int, seed: int) -> None:
    """Refuse a start that is not drawn from the corridor's own random numbers."""
    seeds = [seed] + 199 * [None]  # of seven fields each comes up, but for one time in 10^12
    first, again = (_first_fields(answer.probe(given.starts, length, 50, seeds)) for _ in range(2))
    seeded = _first_fields(answer.probe(given.starts, length, 50, list(range(seed, seed + 20))))
    repeated = _first_fields(answer.probe(given.starts, length, 50, [seed, None, seed]))
    expect(
        repeated[0] == repeated[2] and first[0] == again[0],
        f"`reset(seed={seed})` began on different fields. Draw the start from `self.np_random`, once it is seeded.",
    )
    for starts, how in ((first[1:], f"reset(seed={seed}), then reset() 199 times"), (seeded, "20 different seeds")):
        outside = [start for start in starts if start not in range(length // 2)]
        expect(not outside, f"Length {length}, {how}: it began on {outside[:1]}, which is not in the left half.")
        expect(len(set(starts)) > 1, f"Length {length}, {how}: always began on field {starts[0]:g}.")
    expect(
        first == again,
        f"`reset(seed={seed})`, then `reset()` 199 times, done twice: the starts differed. Only a seed that is given may seed.",
    )
    never = [field for field in range(length // 2) if field not in first]
    left_out = (
        f"Length {length}, 200 resets: the left half goes up to field {length // 2 - 1}, and none began on {never}."
    )
    expect(not never, left_out)


def _first_fields(seen: dict) -> list[float]:
    """Return the field of each reset; refuse a reset that does not return observation and info."""
    for result in seen["results"]:
        pair = isinstance(result, list) and len(result) == 2 and isinstance(result[1], dict)
        expect(pair, "`reset` must return two values: the observation and a dict, `{}`.")
        expect(
            isinstance(result[0], np.ndarray) and result[0].shape == (1,),
            f"`reset` returned the observation {result[0]!r}. The space asks for an array of shape (1,).",
        )
    return [float(result[0][0]) for result in seen["results"]]


def _expect_walks(answer: Answer, length: int, max_steps: int, seed: int, walks: list[list[int]]) -> None:
    seen = answer.probe(given.walks, length, max_steps, seed, walks)
    for number, (actions, walk) in enumerate(zip(walks, seen, strict=True), 1):
        start, made = int(walk["start"][0]), walk["steps"]
        expect(
            walk["start afterwards"][0] == start,
            f"`reset` returned [{start}], and when the episode had ended that array held {_shown(walk['start afterwards'])}: "
            "make a new array for every observation.",
        )
        wanted = list(_corridor(start, length, max_steps, actions))
        told = f"length={length}, max_steps={max_steps}, episode {number}, from field {start}"
        for step, (result, (field, reward, terminated, truncated)) in enumerate(zip(made, wanted, strict=False), 1):
            here = f"{told}, step {step} with action {actions[step - 1]}"
            expect_equal(result[0], [field], f"{here}: observation {_shown(result[0])}.")
            expect_close(result[1], reward, f"{here}, to field {field}: reward {result[1]}.")
            ended = f"{here}, to field {field}: terminated={result[2]}, truncated={result[3]}."
            expect(bool(result[2]) == terminated, f"{ended} What does `terminated` say?")
            expect((terminated and truncated) or bool(result[3]) == truncated, f"{ended} When is an episode cut off?")
        expect(len(made) == len(wanted), f"{told}: the episode should have ended after {len(wanted)} steps.")


def _corridor(start: int, length: int, max_steps: int, actions: list[int]) -> Iterator[tuple[int, float, bool, bool]]:
    """Yield field, reward, terminated and truncated of each step until the episode ends."""
    field = start
    for step, action in enumerate(actions, 1):
        field = min(max(field + (1 if action else -1), 0), length - 1)
        arrived, late = field == length - 1, step == max_steps
        yield field, 1.0 if arrived else -0.1, arrived, late
        if arrived or late:
            return


def _shown(value: Any) -> str:
    return str(value.tolist() if isinstance(value, np.ndarray) else value)


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Before the loop: one `reset`, with the seed. In it: choose, step, write down; stop for either of two reasons.",
        "`obs` begins with the observation of `reset`, and grows by one with every step.",
    ],
)
def rollout(answer: Answer, rng: Generator) -> None:
    """Write down the observation that the action was chosen for, and leave the loop for either of the two reasons."""
    for truncated in (False, True):
        length, seed = int(rng.integers(4, 9)), int(rng.integers(10, 10_000))
        rewards = rng.integers(-50, 50, size=length).astype(float).tolist()
        seen = answer.probe(given.play, {"length": length, "truncated": truncated, "rewards": rewards}, seed)
        why = "was truncated" if truncated else "terminated"
        told = f"An episode that {why} after {length} steps, seed {seed}: "
        steps = sum(call == "step" for call, _ in seen["calls"])
        first = ", ".join(_as_call(*call) for call in seen["calls"][:1]) or "none"
        expect(first == f"`reset(seed={seed})`", told + f"the first call was {first}, not `reset(seed={seed})`.")
        expect(steps == length, told + f"you took {steps} steps.")
        expect(len(seen["calls"]) == length + 1, told + "`reset` was called more than once.")
        _expect_episode(seen["episode"], told, seed, rewards, truncated)


def _as_call(call: str, value: int | None) -> str:
    """Return a call that the environment saw as one would write it."""
    if call == "step":
        return f"`step({value})`"
    return "`reset()`, without a seed" if value is None else f"`reset(seed={value})`"


def _expect_episode(episode: Any, told: str, seed: int, rewards: list[float], truncated: bool) -> None:
    keys = ["obs", "actions", "rewards", "terminated"]
    expect(isinstance(episode, dict), told + f"`rollout` returned {type(episode).__name__}, not a dict.")
    expect(sorted(episode) == sorted(keys), told + f"the keys are {sorted(episode)}; they should be {keys}.")
    obs = [[seed, 0, step] for step in range(len(rewards) + 1)]
    count = f"{len(episode['obs'])} observations for {len(rewards)} steps"
    expect(len(episode["obs"]) == len(obs), told + f"{count}: the first one and the last one count too.")
    expect_equal(episode["obs"], obs, told + "the observations are not those that the environment gave.")
    actions = [given.chooses(observation) for observation in obs[:-1]]
    expect_equal(episode["actions"], actions, told + "the actions are not the policy's for these observations.")
    expect_equal(episode["rewards"], rewards, told + f"the rewards came out as {_shown(episode['rewards'])}.")
    expect(bool(episode["terminated"]) != truncated, told + f"`terminated` came out as {episode['terminated']}.")


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
    expect_close(answer([1, 2, 3], 0.5), [2.75, 3.5, 3], "One return for each step, counted from that step on.")
    after = "What is behind the last step is worth `bootstrap`, and is as far away as one more reward would be."
    expect_close(answer([1, 2, 3], 0.5, 8), [3.75, 5.5, 7], after)
    count = int(rng.integers(5, 9))
    rewards, gamma, tail = (
        rng.integers(-9, 9, size=count).tolist(),
        float(rng.uniform(0.8, 0.99)),
        float(rng.uniform(5, 9)),
    )
    for bootstrap in (0.0, tail):
        future = [*rewards, bootstrap]
        want = [sum(gamma**k * reward for k, reward in enumerate(future[t:])) for t in range(count)]
        expect_close(answer(rewards, gamma, bootstrap), want, "With these rewards the returns are wrong.")
    expect_close(
        answer(rewards, 1.0), np.cumsum(rewards[::-1])[::-1].tolist(), "With gamma = 1, nothing is discounted."
    )
    expect_close(answer(np.array(rewards, float), 0.0), rewards, "With gamma = 0, only the step's own reward counts.")


@exercise(
    points=2,
    minutes=15,
    hints=[
        "A pole that leans to the right falls to the right. Where must the cart go to get below it?",
        "The angle alone comes too late: when it changes sign, the pole is swinging already. Which number says how fast it swings?",
        "Push to the side to which the pole leans *or will lean soon*: angle + (some time) · angular velocity.",
    ],
)
def cartpole_policy(answer: Answer, rng: Generator) -> None:
    """Look a little ahead: the angle plus a bit of the angular velocity says where the pole is going to lean."""
    env = gymnasium.make("CartPole-v1")
    for episode in range(1, 21):
        seed = int(rng.integers(1_000_000))
        obs, _ = env.reset(seed=seed)
        for step in range(200):
            action = answer(obs)
            expect(
                isinstance(action, int) and action in (0, 1),
                f"`cartpole_policy` returned {action!r}. An action is the integer 0 or 1.",
            )
            obs, _, terminated, _, _ = env.step(int(action))
            if terminated:
                end = f"angle {np.degrees(obs[2]):.0f}°, position {obs[0]:.1f}"
                expect(False, f"Start {episode} of 20 (seed {seed}): the episode ended after {step + 1} steps, {end}.")


@exercise(
    points=3,
    minutes=20,
    hints=[
        "In which frames does the environment ignore your action? Look at the table again: what was true one frame earlier?",
        "Keep an array `real`, True for each environment at first; after each step it is `~(terminated | truncated)`.",
        "Write down `obs[real]`, `actions[real]` and so on *before* you update `real`; join the pieces at the end.",
    ],
)
def vector_rollout(answer: Answer, rng: Generator) -> None:
    """The frame after an end is a reset: its action was ignored and its reward invented, so leave it out."""
    steps, seed = 24, int(rng.integers(10, 10_000))
    ends = [[False, True], [True, False], [False, True]]  # every environment meets both ends
    scripts: list[list[dict]] = [
        [{"length": int(rng.integers(3, 8)), "truncated": end} for end in pair] for pair in ends
    ]
    scripts.append([{"length": 10 * steps, "truncated": False}])  # an episode that is still going on at the end
    for part in (part for script in scripts for part in script):
        part["rewards"] = [*rng.integers(1, 50, size=part["length"] - 2).tolist(), 0, 7]  # a real step may earn nothing
    got = answer.probe(given.play_together, scripts, steps, seed)
    told = f"{len(scripts)} environments, {steps} steps each, seed {seed}: "
    expect(isinstance(got, dict), told + f"`vector_rollout` returned {type(got).__name__}, not a dict.")
    expect(sorted(got) == sorted(COLUMNS), told + f"the keys are {sorted(got)}; they should be {list(COLUMNS)}.")
    lengths = {key: len(got[key]) for key in COLUMNS}
    expect(len(set(lengths.values())) == 1, told + f"as many of each, please; there are {lengths}.")
    wanted = _transitions(scripts, steps, seed)
    seeds, count = sorted({row[0][0] for row in wanted}), len(wanted)
    rows = [[_plain(got[key][i]) for key in COLUMNS] for i in range(lengths["obs"])]
    expect(
        all(isinstance(row[0], list) and len(row[0]) == 3 for row in rows),
        told + "one row for each transition, please.",
    )
    strange = [row[0][0] for row in rows if row[0][0] not in seeds]
    expect(not strange, told + "the environments were not reset with the seed, once, at the start.")
    resets = sum(row[3][1] != row[0][1] for row in rows)
    expect(resets == 0, told + f"{resets} of your {len(rows)} transitions lead from one episode into the next.")
    lost = "" if any(row[2] == 0 for row in rows) else " Those that earned nothing are missing."
    expect(len(rows) == count, told + f"{count} transitions really happened; you have {len(rows)}.{lost}")
    for row, want in zip(sorted(rows), sorted(wanted), strict=True):
        for name, mine, right in zip(COLUMNS, row, want, strict=True):
            where = f"environment {int(want[0][0]) - seed}, episode {int(want[0][1])}, step {int(want[0][2]) + 1}"
            expect(agree(mine, right), told + f"{where}: `{name}` came out as {mine}.")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _transitions(scripts: list[list[dict]], steps: int, seed: int) -> list[list]:
    """Return the transitions that really happen, one frame in between going to each reset."""
    rows = []
    for number, script in enumerate(scripts):
        episode = clock = 0
        for _ in range(steps):
            part = script[episode % len(script)]
            if clock == part["length"]:  # this frame resets
                episode, clock = episode + 1, 0
                continue
            obs, following = [seed + number, episode, clock], [seed + number, episode, clock + 1]
            clock += 1
            terminated = clock == part["length"] and not part["truncated"]
            rows.append([obs, given.chooses(obs), part["rewards"][clock - 1], following, terminated])
    return rows


quiz(
    "seed_every_episode",
    """
    A training loop calls `env.reset(seed=0)` before every episode. What does the agent learn from?

    a) From different episodes: the seed only makes the run repeatable.
        It makes each *episode* repeatable. Seed the first reset, and let the generator run on after that.
    *b) From the same start and the same dice, again and again.
        Right: each reset sets the random numbers back. Give a seed once, and none afterwards.
    c) Nothing changes, since a seed is only for tests.
        A seed sets the environment's random numbers back, wherever it is given.
    """,
)

quiz(
    "time_is_up",
    """
    CartPole-v1 has been balanced for 500 steps, 1 point each; the last `step` says terminated=False, truncated=True. With gamma = 0.99, what belongs behind the last step as G_T?

    a) 0: the episode is over.
        That is what the old `done` made people write. But the pole still stands: only our patience has ended.
    *b) About 100: it would have gone on, and 1 + 0.99 + 0.99² + … is 100.
        Right. After `truncated` there is a future, only nobody saw it; after `terminated` there is none.
    c) 500, the rewards so far.
        What has been does not count: a return looks ahead only.
    """,
)

quiz(
    "autoreset_frame",
    """
    Gymnasium's default (next step): environment 2 has just returned terminated=True. What comes back for it from the next `envs.step(actions)`?

    a) An exception: its episode is over.
        That is the mode DISABLED. By default, vector environments reset themselves.
    b) The first step of the new episode, with your action.
        It has no first observation yet for which you could have chosen. A reset comes first.
    *c) The first observation of a new episode, reward 0, and your action is ignored.
        Right. It is a frame, but not experience: no action led from the one observation to the other.
    """,
)

quiz(
    "sixteen_cores",
    """
    A step of your environment takes 10 µs, and your machine has 16 cores. You put 16 copies into an `AsyncVectorEnv`. Steps a second?

    a) About 16 times as many.
        If telling a process and hearing from it took no time. You have measured what it takes.
    *b) Fewer than from one environment in a plain loop.
        Right, most likely: a message to a process and back costs several steps of such an environment, for each copy.
    c) As many: the cores do not matter.
        They matter when a step takes long. Here the messages take longer than the steps.
    """,
)
