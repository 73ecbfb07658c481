"""The judge's side of chapter 8."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypedDict

import numpy as np
from numpy.random import Generator

from coursekit.given import ch08_rollouts as given
from coursekit.given.scripted import frames_of
from coursekit.judging.answer import Answer, Watched
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, expect, expect_close, expect_equal, expect_type

KEYS = ["obs", "actions", "rewards", "terminated", "truncated", "real", "last_obs", "version"]


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Which two things must the object remember from one fragment to the next, so that they fit together without a seam?",
        "A frame is a reset if the frame *before* it ended an episode, even if that frame was in the previous fragment.",
        "Append each frame's six values to six lists, and `np.stack` each list at the end. `last_obs` is the observation that "
        "the next frame would start from.",
    ],
)
def Sampler(answer: Answer, rng: Generator) -> None:
    """Store in the object the last observation and which environments have just ended an episode, so that each fragment continues where the previous one stopped."""
    # Long: 40 lines are the scripted environment of chapter 7, and each key of a fragment can be wrong by itself.
    steps, seed = int(rng.integers(5, 8)), int(rng.integers(10, 10_000))
    scripts = _scripts(rng, steps)
    old, new = _two_versions(rng)
    fragments = answer.probe(given.play_fragments, scripts, [[old, steps], [new, steps + 1], [None, 4]], seed)
    frames = frames_of(scripts, 2 * steps + 5, seed)
    parts = frames[: steps + 1], frames[steps : 2 * steps + 2], frames[2 * steps + 1 :]
    expect(len(fragments) == len(parts), "Each call to `sample` must return one fragment.")
    for number, (fragment, played) in enumerate(zip(fragments, parts, strict=True), 1):
        with answer.case(f"3 environments, fragments of {steps}, {steps + 1} and 4 frames; this is fragment {number}"):
            _expect_form(fragment, len(played) - 1)
            _expect_first_frame(fragment["obs"][0], played[0, :, :3], number)
            _expect_frames(fragment, played, old if number == 1 else new, old)


def _scripts(rng: Generator, steps: int) -> list[list[dict]]:
    """Return the episodes of three environments; the first step of each earns 0, as a reset does."""
    first = {"rewards": [0.0]}
    return [
        [{"length": steps, "truncated": False, **first}],  # its reset is the second fragment's first frame
        [
            {"length": 1, "truncated": False, **first},
            {"length": 2, "truncated": True, **first},
        ],  # two resets in the first
        [{"length": int(rng.integers(30, 40)), "truncated": False, **first}],  # never ends here
    ]


def _two_versions(rng: Generator) -> tuple[dict, dict]:
    """Return weights and later ones, which choose other actions."""
    old: dict[str, Any] = {"version": int(rng.integers(1, 50)), "w": rng.integers(1, 4, size=3)}
    return old, {"version": old["version"] + int(rng.integers(1, 9)), "w": old["w"] + [0, 0, 1]}


def _expect_form(fragment: Any, length: int) -> None:
    expect(isinstance(fragment, dict), f"`sample` returned {fragment!r:.80}, not a dict.")
    found = list(fragment)
    missing = [key for key in KEYS if key not in found]
    expect(not missing, f"The fragment has the keys {found}; it lacks {missing}.")
    shapes = {"obs": (length, 3, 3), "last_obs": (3, 3)}
    for key in KEYS[:-1]:
        column, want = fragment[key], shapes.get(key, (length, 3))
        kind = type(column).__name__
        expect(
            isinstance(column, np.ndarray),
            f"`{key}` is a {kind}, not an array; `np.stack` turns a list of rows into one.",
        )
        expect(column.shape == want, f"`{key}` has the shape {column.shape}, but {want} was expected.")


def _expect_first_frame(mine: np.ndarray, right: np.ndarray, number: int) -> None:
    seeded = number > 1 or agree(mine[:, :2], right[:, :2])  # the seed and the episode of each
    observed, stopped = mine.tolist(), right.astype(mine.dtype).tolist()
    expect(
        seeded,
        f"The first frame observed {observed}: [seed, episode, step] of each environment. With one reset, with the seed, "
        f"it would have observed {stopped}.",
    )
    expect(
        number == 1 or agree(mine, right),
        f"The first frame observed {observed}: [seed, episode, step] of each environment. But the previous fragment had stopped "
        f"at {stopped}. A fragment isn't an episode, so continue there.",
    )


def _expect_frames(fragment: dict, frames: np.ndarray, weights: dict, old: dict) -> None:
    """Compare one fragment with what happened; each message knows a usual mistake."""
    version, right, last = fragment["version"], weights["version"], fragment["last_obs"].tolist()
    _expect_obs(fragment["obs"], frames[:-1, :, :3])
    expect_equal(
        version,
        right,
        f"`version` is {version}, but the weights that chose the actions should have been version {right}.",
    )
    _expect_steps(fragment, frames[:-1], weights, old)
    expect_equal(
        last,
        frames[-1, :, :3],
        f"`last_obs` is {last}, which isn't the observation that the next frame would start from.",
    )


def _expect_obs(obs: np.ndarray, frames: np.ndarray) -> None:
    for row, (mine, right) in enumerate(zip(obs, frames, strict=True)):
        observed, due = mine.tolist(), right.astype(mine.dtype).tolist()
        expect_equal(
            mine,
            right,
            f"Row {row} of `obs` is {observed}, but when the policy chose that row's actions, it should have observed {due}: "
            "[seed, episode, step] of each environment.",
        )


def _expect_steps(fragment: dict, frames: np.ndarray, weights: dict, old: dict) -> None:
    obs, (clock, length, truncated) = frames[:, :, :3], np.moveaxis(frames[:, :, 2:], 2, 0)
    actions, real, ends = given.chooses(weights, obs), clock < length, clock == length - 1
    _expect_actions(fragment["actions"][real], actions[real], given.chooses(old, obs)[real])
    rewards = np.where(clock == 0, 0, 10 * actions + clock + 1)
    want = {"rewards": rewards, "terminated": ends & (truncated == 0), "truncated": ends & (truncated == 1)}
    for key, column in want.items():
        expect_close(
            fragment[key][real],
            column[real],
            f"`{key}` isn't what the environments returned in the frames that are real.",
        )
    _expect_real(fragment["real"] != 0, real, truncated == 1)


def _expect_actions(mine: np.ndarray, right: np.ndarray, old: np.ndarray) -> None:
    expect_close(
        mine,
        right,
        "The actions aren't those that `policy(weights, obs)` returns for the weights and observations of their frames.",
        mistakes={"The actions were chosen with the *old* weights.": old},
    )


def _expect_real(mine: np.ndarray, real: np.ndarray, truncated: np.ndarray) -> None:
    lost, resets = np.argwhere(real & ~mine).tolist(), np.argwhere(mine & ~real).tolist()
    expect(not lost, f"`real` is False at [frame, environment] {lost}, although these frames aren't resets.")
    expect(
        not resets or resets[0][0] > 0,
        f"`real` is True at [frame, environment] {resets}. The first of these is the reset after an episode that ended in the "
        "previous fragment.",
    )
    expect(
        (mine & ~real & ~truncated).any() or not resets,
        f"`real` is True at [frame, environment] {resets}, but there, the environment was only reset: the episode before had been truncated.",
    )
    expect(not resets, f"`real` is True at [frame, environment] {resets}, but there, the environment was only reset.")


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Go backward, as in Chapter 7: `later` is the advantage of the step after this one, and 0 after the last row.",
        "In the line for δ, what should V(s_{t+1}) be after `terminated`? In the line for the sum, which kinds of end stop it?",
        "`1.0 - terminated[t]` is 0 where the episode terminated and 1 elsewhere, for all environments at once.",
    ],
    spare=["        later = delta + gamma * lam * later"],
)
def gae(answer: Answer, rng: Generator) -> None:
    """Go backward: only `terminated` removes V(s'), and both kinds of end stop the sum."""
    # Long: eight usual mistakes are computed, each for a message of its own.
    _expect_by_hand(answer)
    _expect_of_random(answer, rng)


def _expect_by_hand(answer: Answer) -> None:
    """Check numbers that a learner can follow on paper."""
    none, end = np.zeros((3, 1), bool), np.array([[False], [True], [False]])
    for column, lam in (([0, 0, 0, 0], 1.0), ([1, 2, 3, 4], 0.0), ([0, 0, 4, 8], 0.5)):
        for name, ends in {
            "no end": (none, none),
            "terminated": (end, none),
            "truncated": (none, end),
            "terminated and truncated": (end, end),
        }.items():
            with answer.case(f"rewards 1, 1, 1 (integers), values {column}, γ = 0.5, λ = {lam:g}; at t = 1: {name}"):
                inputs = np.ones((3, 1), int), np.array(column, float)[:, None], *ends
                _expect_advantages(answer(*inputs, 0.5, lam), inputs, 0.5, lam)


def _expect_of_random(answer: Answer, rng: Generator) -> None:
    inputs = _random_inputs(rng)
    steps, envs = inputs[0].shape
    gamma, lam = float(rng.uniform(0.5, 0.95)), float(rng.uniform(0.3, 0.9))
    with answer.case(f"random numbers, T = {steps}, N = {envs}, γ = {gamma:.2f}, λ = {lam:.2f}"):
        _expect_advantages(answer(*inputs, gamma, lam), inputs, gamma, lam)
    with answer.case(f"random numbers, T = {steps}, N = {envs}, with the default γ and λ"):
        _expect_advantages(answer(*inputs), inputs, 0.99, 0.95)


def _random_inputs(rng: Generator) -> tuple[np.ndarray, ...]:
    """Return inputs in which the first environments end halfway and in the last row: terminated, truncated, both, not at all."""
    steps, envs = int(rng.integers(8, 13)), int(rng.integers(4, 7))
    rewards, values, random = (rng.normal(size=(rows, envs)) for rows in (steps, steps + 1, steps))
    random[[steps // 2, -1], :4] = -2, 2, 0, 0
    terminated, truncated = random < -1, random > 1
    terminated[[steps // 2, -1], 2] = truncated[[steps // 2, -1], 2] = True
    return rewards, values, terminated, truncated


def _expect_advantages(got: Any, inputs: tuple[np.ndarray, ...], gamma: float, lam: float) -> None:
    rewards, values, terminated, truncated = inputs
    kind = type(got).__name__
    expect(isinstance(got, np.ndarray), f"`gae` must return one array of shape [T, N], but it returned a {kind}.")
    expect(
        got.dtype.kind == "f",
        f"The result is an array of {got.dtype}, and the rewards are {rewards.dtype}. Advantages must be floats, whatever the "
        "rewards are.",
    )
    expect(got.shape == rewards.shape, f"The result has the shape {got.shape}, and the rewards have {rewards.shape}.")
    computed = partial(_advantages, rewards, gamma=gamma, lam=lam)
    _expect_sums(got, computed, values, terminated, truncated)


def _expect_sums(
    got: np.ndarray,
    computed: Callable[..., np.ndarray],
    values: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
) -> None:
    """Compare with what is `computed` from values, from where no future counts, and from where the sum stops."""
    done = terminated | truncated
    want, never = computed(values, terminated, done), np.zeros_like(done)
    without_last = np.concatenate([values[:-1], 0 * values[-1:]])
    t, env = [[0, 0], *np.argwhere(~np.isclose(got, want)).tolist()][-1]
    value, right = got[t, env], want[t, env]
    expect_close(
        got,
        want,
        f"Going backward, the first difference is at t = {t} in environment {env}: you have {value:.4g}, and {right:.4g} was "
        "expected.",
        mistakes={
            "The sum goes on across a truncation, but that stops it, too.": computed(values, terminated, terminated),
            "The sum goes on across the ends of episodes, but both kinds of end stop it.": computed(
                values, terminated, never
            ),
            "A truncated episode would have continued, so V(s') counts there.": computed(values, done, done),
            "Where both flags are set, the episode has terminated, so V(s') counts as 0.": computed(
                values, terminated & ~truncated, done
            ),
            "Nothing follows a terminated episode, so V(s') counts as 0 there.": computed(values, never, done),
            "After the last row, the last row of `values` stands for the future.": computed(
                without_last, terminated, done
            ),
            "Your sum starts with the last row of `values`. That row belongs in the last δ, and no later δ is added to that one.": computed(
                values, terminated, done, start=values[-1]
            ),
            "These are the values plus the advantages; subtract V(s).": want + values[:-1],
        },
    )


def _advantages(
    rewards: np.ndarray, values: np.ndarray, no_future: Any, cut: Any, gamma: float, lam: float, start: Any = 0.0
) -> np.ndarray:
    """Return Schulman et al. 2016, equation 16: V(s') is 0 at `no_future`, and the sum, from `start` on, stops at `cut`."""
    advantages, later = np.zeros(rewards.shape), start
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * np.where(no_future[t], 0, values[t + 1]) - values[t]
        later = advantages[t] = delta + gamma * lam * np.where(cut[t], 0, later)
    return advantages


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "There are three steps: put the weights into the store once, send the reference to every sampler, and start a fragment on "
        "each of them. Where should the first `ray.get` go?",
        "Your calls to one sampler run in the order in which you sent them, so `sample` uses the weights that `set_weights` delivered.",
    ],
    spare=["        sampler.set_weights.remote(weights)"],
)
def collect(answer: Answer, rng: Generator) -> None:
    """Put the weights once, send the reference to all samplers, start a fragment on each, and only then wait; your calls to an ordinary actor keep their order."""
    steps = int(rng.integers(10, 100))
    rounds: list[dict[str, Any]] = [{"version": version, "w": rng.random(given.MB // 8)} for version in (3, 4)]
    with answer.case(f"3 samplers, fragments of {steps} frames, two calls; the last sampler finishes first"):
        found, copies = _collected(answer, rounds, steps)
        for fragments, weights in zip(found["rounds"], rounds, strict=False):
            _expect_round(fragments, weights, steps, found["missed"])
        _expect_put_once(copies)


def _collected(answer: Answer, rounds: list[dict], steps: int) -> tuple[given.Rounds, float]:
    """Return what `collect` returned, and how many copies of the weights went into the store meanwhile."""
    with answer.watch() as seen:
        before = _put_in(seen)
        found = answer.probe(given.collect_rounds, rounds, 3, steps)
        return found, (_put_in(seen) - before) / rounds[0]["w"].nbytes


def _expect_put_once(copies: float) -> None:
    expect(1.5 < copies < 2.5, f"In two calls, {copies:.0f} copies of the weights entered the store; 2 were expected.")


def _expect_round(got: Any, weights: dict, steps: int, missed: bool) -> None:
    expect(
        isinstance(got, list | tuple) and all(isinstance(fragment, dict) for fragment in got),
        f"`collect` returned {got!r:.80}, not a list of fragments.",
    )
    fragments = expect_type(got, list[given.Fragment], "fragments")
    _expect_all_samplers([fragment["who"] for fragment in fragments], missed)
    for fragment in fragments:
        _expect_played_with(weights, steps, fragment)


def _expect_all_samplers(who: list[int], missed: bool) -> None:
    expect(sorted(who) == [0, 1, 2], f"The fragments come from the samplers {who}; one from each was expected.")
    expect(not missed, "The samplers never ran at the same time: one of them waited for the others in vain.")
    expect(who == [0, 1, 2], f"The fragments are in the order {who}, not in the order of the samplers.")


def _expect_played_with(weights: dict, steps: int, fragment: given.Fragment) -> None:
    mine, version, played = fragment["version"], weights["version"], fragment["steps"]
    expect(mine == version, f"A sampler used version {mine} of the weights (-1 is none) instead of {version}.")
    total = float(np.sum(weights["w"]))
    expect_close(fragment["sum"], total, "A sampler used weights with the right version but other numbers.")
    expect(played == steps, f"A sampler collected {played} frames instead of {steps}.")


class Store(TypedDict):
    """What Ray's records say of an object store."""

    created_bytes: float


def _put_in(seen: Watched) -> float:
    """Return how many bytes were put into the stores of the cluster since it started."""
    return sum(store["created_bytes"] for store in expect_type(seen.stores(), list[Store], "the stores"))


@exercise(
    points=3,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "Keep a dict from reference to sampler, which tells you which sampler is collecting which fragment. At the start, all of "
        "them are collecting.",
        "`ray.wait(list(in_progress), num_returns=1)` returns a reference that is ready. Learn from its fragment, and then start "
        "the next one on *that* sampler.",
        "`ray.get` raises `ray.exceptions.RayActorError` for a fragment whose sampler has died. Drop that fragment, and continue "
        "with the others.",
    ],
    spare=["        sampler = in_progress[ready]"],
)
def collect_async(answer: Answer, rng: Generator) -> None:
    """A dict records which sampler collects what: learn from the fragment that is ready, and start its sampler again with the latest weights."""
    # Long: a slow sampler, a dead one, the count, and the weights of each fragment can each be wrong by themselves.
    steps, count = int(rng.integers(10, 100)), int(rng.integers(12, 15))
    slow, dies = rng.permutation(3).tolist()[:2]
    with answer.case(
        f"3 samplers, {count} fragments; sampler {slow} delivers its first fragment only after `learn` has received three others, "
        f"and after `learn` has received six, sampler {dies} dies during its first fragment"
    ):
        with answer.watch() as seen:
            found = answer.probe(given.with_a_straggler_and_a_death, steps, count, slow, dies)
        _expect_to_go_on(found)
        _expect_dead_left_out(seen.tasks())
        _expect_back(found["stayed"])
        _expect_heard(found["heard"], steps, count)


def _expect_to_go_on(found: given.Learned) -> None:
    """Check that neither the slow sampler nor the dead one held up the others."""
    expect(not found["alone"], "The three samplers never collected their first fragments at the same time.")
    expect(
        not found["waited"],
        "No more fragments reached `learn` while a slow sampler was collecting. Learn from each fragment as soon as it's ready, "
        "and start its sampler again.",
    )
    expect(
        not found["left_out"],
        "The slow sampler delivered its first fragment, but it was never started again. Start the next fragment on the sampler "
        "that has just delivered one.",
    )
    expect(
        not found["raised"],
        f"`collect_async` raised {found['raised']}, but the other two samplers could have continued.",
    )


def _expect_dead_left_out(tasks: list[dict]) -> None:
    lost = sum(task["name"].endswith("sample") and task["state"] == "FAILED" for task in tasks)
    expect(lost < 5, f"{lost} fragments were requested from the sampler that had died. Leave it out.")


def _expect_back(stayed: bool) -> None:
    expect(
        not stayed,
        "`collect_async` didn't return while one fragment was still in progress, although it could have had `count` fragments without that one. Don't wait for it.",
    )


def _expect_heard(heard: list[given.Fragment], steps: int, count: int) -> None:
    """Check what reached `learn`: each fragment once, and each collected with the latest weights at its start."""
    names, calls = {(fragment["who"], fragment["number"]) for fragment in heard}, len(heard)
    expect(len(names) == calls, "`learn` received the same fragment more than once.")
    expect(
        calls != count - 1,
        f"`learn` was called {calls} times instead of {count}, as if the fragment that was lost with its sampler had been counted.",
    )
    expect(calls == count, f"`learn` was called {calls} times instead of {count}.")
    expect(all(fragment["steps"] == steps for fragment in heard), f"Not every fragment had {steps} frames.")
    _expect_newest(heard)


def _expect_newest(heard: list[given.Fragment]) -> None:
    newest: dict[int, int] = {}
    for version, fragment in enumerate(heard, 1):
        who, number, played = fragment["who"], fragment["number"] + 1, fragment["version"]
        ready = newest.get(who, 0)
        expect(
            played >= ready,
            f"Fragment {number} of sampler {who} was collected with version {played} of the weights (-1 is none). It should start "
            f"with version {ready} or a later one, after `learn` has had that sampler's previous fragment, if there is one.",
        )
        newest[who] = version


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`np.polyfit(lengths, seconds, 1)` returns the slope and the intercept, in that order. Which of the two is the overhead of "
        "a call?",
        "In a fragment of L frames, overhead / (overhead + L × seconds per frame) is the fraction of the time that's overhead. Set it equal to `fraction`, solve for L, and "
        "round up.",
        "If the fitted overhead is 0 or less, even one frame is long enough.",
    ],
)
def fragment_length(answer: Answer, rng: Generator) -> None:
    """The line's intercept is the overhead of a call, so (overhead / fraction - overhead) / slope frames are enough."""
    _expect_for_round_numbers(answer)
    lengths = np.sort(rng.choice(np.arange(1, 200), size=8, replace=False)).tolist()
    for noise, about in ((0.0, "points on a line"), (0.2, "random points near a line")):
        overhead, frame, fraction = rng.uniform(5e-3, 2e-2), rng.uniform(1e-4, 1e-3), float(rng.uniform(0.02, 0.3))
        seconds = overhead * (1 + noise * rng.uniform(-1, 1, size=8)) + frame * np.array(lengths)
        _expect_length(answer, lengths, seconds.tolist(), fraction, about)


def _expect_for_round_numbers(answer: Answer) -> None:
    lengths = [1, 2, 4, 8]
    for fraction in (0.1, 0.3, 0.5):
        _expect_length(answer, lengths, [0.011, 0.012, 0.014, 0.018], fraction, "10 ms for a call, 1 ms for a frame")
    _expect_length(
        answer, lengths, [0.011, 0.015, 0.015, 0.019], 0.1, "with noise, about 11 ms for a call, 1 ms for a frame"
    )
    _expect_length(answer, lengths, [0.002, 0.004, 0.008, 0.016], 0.1, "nothing for a call, 2 ms for a frame")
    _expect_length(answer, lengths, [0.001, 0.003, 0.007, 0.015], 0.1, "noise: less than nothing for a call")


def _expect_length(answer: Answer, lengths: list, seconds: list, fraction: float, about: str) -> None:
    with answer.case(f"{about}, fraction {fraction:.3g}"):
        got = answer(lengths, seconds, fraction)
        whole = isinstance(got, int) or (isinstance(got, float) and got.is_integer())
        expect(whole, f"It returned {got}, which isn't a whole number.")
        expect(got >= 1, f"It returned {got}, but a fragment has at least one frame.")
        frame, overhead = np.polyfit(lengths, seconds, 1)
        _expect_shortest(got, overhead, frame, fraction)


def _expect_shortest(got: float, overhead: float, frame: float, fraction: float) -> None:
    exact, wasted = (overhead / fraction - overhead) / frame, 100 * max(overhead, 0) / (overhead + got * frame)
    allowed = 100 * fraction
    expect(
        got > exact - 1e-6 * exact,
        f"With a fragment length of {got}, {wasted:.2f}% of the time is overhead, and at most {allowed:.2f}% is allowed, by the line that `np.polyfit` fits.",
    )
    expect(
        got <= max(1, math.ceil(exact + 1e-6 * exact)),
        f"With a fragment length of {got}, {wasted:.2f}% of the time is overhead, but a shorter fragment would be enough for "
        f"{allowed:.2f}%, by the line that `np.polyfit` fits.",
    )


question(
    "where_it_stopped",
    """
    A fragment of 64 frames stops in the middle of an episode, so neither flag is set in its last frame. Which value do you use for the next state?

    a) 0, because nothing follows the last frame.
        Something does: the next fragment continues this very episode. The learner just doesn't have it yet.
    *b) The network's value of `last_obs`.
        Right. `last_obs` is the state after the last step, so its value estimates everything that follows.
    c) You can't know it, so the sampler has to keep going until the episode ends.
        RLlib can do that (`batch_mode='complete_episodes'`), but then an hour-long episode holds up every sampler for an hour.
    """,
)

question(
    "amdahls_limit",
    """
    With one sampler, an iteration takes 10 s, of which 1 s is learning. How many samplers bring that down to half a second?

    a) 20.
        The 1 s for learning remains, however many samplers there are.
    b) 18, which share the other 9 s.
        Then sampling takes half a second, and learning takes another full second.
    *c) No number of samplers is enough.
        Right: even with infinitely many, the 1 s for learning remains. The speedup is at most 10×, and nine samplers reach 5×.
    """,
)

question(
    "who_waits",
    """
    One of your 16 samplers takes twice as long as the others. How many fragments per second does `collect` return, compared with 16 equally fast samplers?

    a) 15.5 for every 16, or about 97%.
        That's what you get if nobody waits, as in the next section: there, the slow sampler slows down only itself.
    *b) Half as many.
        Right: in every round, fifteen samplers spend as long waiting for the slow one as they spent collecting.
    c) One sixteenth fewer.
        That would leave out the slow sampler. But `collect` doesn't leave it out: each round lasts until it's done.
    """,
)

question(
    "async_price",
    """
    You replace `collect` with `collect_async` in an algorithm that assumes that its experience comes from the current policy. What changes?

    a) Nothing, because a fragment is a fragment.
        These fragments were collected with weights from several versions ago, and the fast samplers deliver more of them.
    b) It learns more in the same time, because there's more experience.
        There is more, but it shows what an older policy did. How much harm that does depends on the algorithm.
    *c) You get more experience per second, most of it a little stale, and the algorithm must correct for that.
        Right. IMPALA corrects with the ratio of the two policies, PPO's clipping tolerates a little, and other programs drop what is too old.
    """,
)
