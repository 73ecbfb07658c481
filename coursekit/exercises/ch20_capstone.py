"""The judge's side of chapter 20."""

from functools import partial

import numpy as np
from numpy.random import Generator

from coursekit.capstone.referee import NotActions, checked, score
from coursekit.exercises._samplers import expect_samplers_kept_up
from coursekit.given import ch20_capstone as given
from coursekit.given.warehouse import Policy, World, baseline, draw_world, evaluate, make_envs, paying
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import Wrong, expect

TRIES = 3  # a training run may be unlucky: the first that reaches the goal is enough
OVER = 1.1  # times the budget: an entry may go over it by this much
ENOUGH = 0.75  # of the baseline's mean: the luckiest of 150 untrained networks reached 0.7
SOON = 0.1  # of the baseline's mean: a goal that is reached within seconds


@exercise(
    points=2,
    minutes=15,
    hints=[
        "`evaluate(policy, episodes, seed, make_envs)` runs episodes in the warehouses that the entry was given, and returns an array with the return of each episode.",
        "An entry returns the policy itself, not what the policy returns: `return hurry`, without parentheses.",
        "You need three steps: take the mean of `evaluate(...)`, pass it to `budget.report(...)`, and return `hurry`.",
    ],
)
def valid_entry(answer: Answer, rng: Generator) -> None:
    """Measure in the warehouses that you were given, report what you measured, and return the function."""
    # Long: the judge owns the warehouses in which an entry learns and is measured; they are the capstone's own.
    world, dearer = _world(rng), int(rng.integers(3, 7))
    world = world._replace(prices=tuple(dearer * price for price in world.prices))
    told = _told(answer, world, 3.0, rng)
    for count in (7, 1):  # a policy doesn't know how many warehouses there will be
        _actions(answer, make_envs(count, world).reset(seed=int(rng.integers(1, 10**6)))[0])
    episodes, exam = int(rng.integers(150, 250)), int(rng.integers(1, 10**6))
    returns = _returns(answer, world, episodes, exam)
    mean = float(returns.mean())
    expect(told["curve"], "It reported nothing. `budget.report(mean_return)` adds a point to the learning curve.")
    prices = _listed(world)
    expect(
        told["episodes"] >= 50,
        f"It ran {told['episodes']:.0f} whole episodes. Report the mean of at least 50, because the mean of fewer is mostly luck.",
    )
    _, said = told["curve"][-1]
    expect(
        abs(said - mean) <= 0.2 * abs(mean) + 0.5 * max(world.prices),
        f"The last number that it reported was {said:.0f}. In {episodes} episodes of the warehouses that it was given, "
        f"where the four kinds pay {prices}, its policy earned {mean:.0f} per episode.",
    )
    expect(
        (returns != _others(baseline, world, episodes, exam)).any(),
        f"In each of {episodes} episodes, its policy earned exactly what the baseline earns, so it is the baseline, or acts exactly like it. Return `hurry`, or a rule of your own.",
    )


@exercise(
    points=3,
    minutes=25,
    hints=[
        "Which three steps make up an iteration in Chapter 10? Your sampler is an object in this process, so you need neither `.remote` nor `ray.get`.",
        "An iteration is `sampler.set_weights(policy.weights())` and then `learn(policy, optimizer, joined([sampler.sample()]))`.",
        "Test every few iterations: `evaluate(greedy(policy.weights()), 50, seed, make_envs).mean()`. Report the result, and leave the loop when it is good enough or the budget is nearly used up.",
    ],
)
def beats_random(answer: Answer, rng: Generator) -> None:
    """Set the weights, collect, and learn, again and again; test every few iterations, and stop in time."""
    # Long: the judge owns the warehouses in which an entry learns and is measured; they are the capstone's own.
    means: list[float] = []
    for _ in range(TRIES):
        world, exam = _world(rng), int(rng.integers(1, 10**6))
        told = _told(answer, world, 30.0, rng)
        expect(told["curve"], "It reported no test. `budget.report(mean_return)` adds a point to the learning curve.")
        rule = _others(baseline, world, 200, exam).mean()
        reported, last = len(told["curve"]), told["curve"][-1][1]
        expect(
            reported >= 3,
            f"Tests reported: {reported}, the last one as {last:.1f} (the baseline earns about {rule:.0f} per episode). "
            f"It used {told['spent']:.1f} of 30 CPU seconds. At least three tests are required.",
        )
        returns = _returns(answer, world, 200, exam)
        means.append(float(returns.mean()))
        answer.keep_curve("CPU seconds", told["curve"])
        if means[-1] >= ENOUGH * rule:
            expect(
                abs(last - means[-1]) <= rule / 2,
                f"The last number that it reported was {last:.1f}. In 200 new episodes of the warehouses that it was given, its policy earned {means[-1]:.1f} per episode.",
            )
            _expect_learned(answer, world, returns, exam, rng)
            return
        if means[-1] < rule / 4:
            break  # that wasn't bad luck
    earned = ", ".join(f"{mean:.1f}" for mean in means)
    raise Wrong(
        f"Mean return in 200 new episodes: {earned}. Three quarters of the baseline's mean return in the same world are required; in the last world, the baseline's was {rule:.0f}. "
        f"There, it reported {reported} tests, the last one as {last:.1f}, and used {told['spent']:.1f} of 30 CPU seconds."
    )


def _expect_learned(answer: Answer, world: World, returns: np.ndarray, exam: int, rng: Generator) -> None:
    """Have it learn where the kinds of parcels pay something else: a policy that was learned acts differently then.

    The kinds that are ordered most pay most, so the baseline earns much, and the budget is usually used up before a test reaches its mean.
    """
    rolled = [np.roll(world.prices, by) for by in (1, 2, 3)]
    prices = max(rolled, key=partial(np.dot, world.shares))
    _told(answer, world._replace(prices=tuple(prices.tolist())), 4.0, rng)
    expect(
        (_returns(answer, world, 200, exam) != returns).any(),
        "`beats_random` was called again with different prices and less time. In each of the same 200 episodes, its new policy earned exactly what its first one had earned, so the prices didn't change how it acts.",
    )


@exercise(
    points=5,
    minutes=30,
    needs={"CPU": 2},
    hints=[
        "It's `beats_random` with two samplers that are actors. Put `with started(make_envs, 2) as actors:` around the loop.",
        "Store the weights once with `ray.put`, and send each actor the reference. Then call `sample.remote()` on both actors before you call `ray.get`.",
        "Compare each test with `goal * evaluate(baseline, ...).mean()` in the same episodes. If the policy stays below the baseline, check that the actors get new weights in every iteration.",
    ],
)
def beats_baseline(answer: Answer, rng: Generator) -> None:
    """Two samplers collect with the current weights, one learner learns, and a test in the baseline's episodes decides when to stop."""
    # Long: besides what `beats_random` needs, Ray's records say whether both samplers collected, with new weights.
    leads: list[str] = []
    for number in range(TRIES):
        world, exam = _world(rng), int(rng.integers(1, 10**6))
        if number:
            _told(answer, world, 60.0, rng)
        else:
            with answer.watch() as seen:
                told = _told(answer, world, 60.0, rng)
            expect_samplers_kept_up(seen.tasks(), told["sent"])
        expect(told["curve"], "It reported no test. `budget.report(mean_return)` adds a point to the learning curve.")
        returns = _returns(answer, world, 200, exam)
        rules = [_others(rule, world, 200, exam) for rule in (baseline, paying(world.prices))]
        expect(
            (returns != rules[0]).any(),
            "In each of 200 episodes, its policy earned exactly what the baseline earns, so it is the baseline, or acts exactly like it.",
        )
        answer.keep_curve("CPU seconds", told["curve"])
        if all(score(returns - rule).low > 0 for rule in rules):
            _expect_stops_at_goal(answer, world, float(rules[0].mean()), rng, told)
            return
        leads.append(" : ".join(f"{each.mean():.1f}" for each in (returns, *rules)))
        if returns.mean() < 0.7 * rules[0].mean():
            break  # that wasn't bad luck
    listed, prices = ", ".join(leads), _listed(world)
    raise Wrong(
        f"Mean returns in 200 new episodes (its policy : the baseline : the rule that knows all prices): {listed}. "
        f"Both leads must be clear, with their 95% confidence intervals above 0. In the last run, the four kinds paid {prices}."
    )


def _expect_stops_at_goal(answer: Answer, world: World, rule: float, rng: Generator, whole: given.Told) -> None:
    """Have it learn with a goal far below the baseline's mean: only its last test may have reached that.

    A test has about as many episodes as in the whole training before, so there must be more reports if there were more episodes.
    """
    told = _told(answer, world, 15.0, rng, SOON)
    tests, enough = [mean for _, mean in told["curve"]], SOON * rule
    highest, number = max(tests, default=0.0), len(tests)
    expect(
        all(mean < 2 * enough for mean in tests[:-1]),
        f"Called with `goal={SOON}`, it reported {number} tests, the highest with a mean return of {highest:.1f}. "
        f"The baseline earns about {rule:.0f}, so the training has to stop at the first test that reaches {enough:.1f}.",
    )
    all_tests, all_episodes, episodes = len(whole["curve"]), whole["episodes"], told["episodes"]
    expect(
        all_episodes * number <= 2 * episodes * all_tests,
        f"Episodes that it ran in this process, and tests that it reported: {all_episodes:.0f} and {all_tests}; "
        f"called with `goal={SOON}`: {episodes:.0f} and {number}. Every test must be reported.",
    )


def _world(rng: Generator) -> World:
    """Return a world that is new to the entry: prices, customers and map must be learned."""
    return draw_world(int(rng.integers(1, 10**6)))


def _listed(world: World) -> str:
    return ", ".join(f"{price:g}" for price in world.prices)


def _told(answer: Answer, world: World, seconds: float, rng: Generator, goal: float | None = None) -> given.Told:
    """Return what is told of an entry that has learned, once it is certain that it returned a function within its budget."""
    told = answer.probe(given.have_it_learn, [list(part) for part in world], seconds, int(rng.integers(1, 10**6)), goal)
    expect(
        told["returned"] == "a function",
        f"The entry returned a value of type {told['returned']}. "
        "It must return a policy, which is a function from observations to actions.",
    )
    expect(
        told["spent"] <= OVER * seconds,
        f"It had {seconds:g} CPU seconds and used {told['spent']:.1f}. Stop when `budget.left()` isn't enough for another iteration.",
    )
    return told


def _actions(answer: Answer, obs: np.ndarray) -> np.ndarray:
    """Return the actions of the policy that was learned last, once it is certain that they are actions."""
    shape = list(obs.shape)
    try:
        return checked(answer.probe(given.ask_it, obs), len(obs))
    except NotActions as wrong:
        problem = str(wrong)
    raise Wrong(f"For observations of shape {shape}, {problem}")


def _returns(answer: Answer, world: World, episodes: int, seed: int) -> np.ndarray:
    return _others(partial(_actions, answer), world, episodes, seed)


def _others(policy: Policy, world: World, episodes: int, seed: int) -> np.ndarray:
    """Return what a policy earns in each episode of an exam."""
    return evaluate(policy, episodes, seed, partial(make_envs, world=world))


question(
    "what_a_budget_buys",
    """
    An entry has a budget of 60 CPU seconds. On a machine with many cores, you give it eight samplers instead of two. What changes?

    a) It learns from four times as many frames.
        Eight samplers also use CPU seconds four times as fast, so the budget is used up sooner.
    *b) It finishes sooner by the wall clock, and it learns from about the same number of frames.
        Right, at best. Each additional process also has to be started and sent messages, and those CPU seconds don't produce frames.
    c) Nothing, because CPU seconds are seconds of wall-clock time.
        That's true only while exactly one core works. A process that sleeps uses no CPU time, and two busy cores use two CPU seconds per second.
    """,
)

question(
    "who_scores",
    """
    Why doesn't the judge simply call your `train` and take the mean return that it reports?

    a) Because the report would arrive too late.
        It arrives immediately. The question is whether the judge can trust it.
    b) Because your tests use CPU seconds that the judge wants to save.
        Your tests come out of your own budget, and the judge runs another 200 episodes in any case.
    *c) Because your program chose its policy by these tests, perhaps in episodes that it also learned from.
        Right. The best of many tests is partly luck, and a program can also be wrong about itself. Your program neither trained nor chose its policy in the judge's new episodes.
    """,
)

question(
    "close_race",
    """
    On the leaderboard, Ada's agent has 84.1 ± 2.4 and Bob's has 82.6 ± 2.3, each in its own 200 episodes. Is Ada's agent better?

    a) Yes, because 84.1 is more than 82.6.
        Another 200 episodes could reverse that: 83 is inside both intervals.
    *b) These numbers can't tell. Run both agents in the same episodes, and look at the differences.
        Right. Much of the spread comes from the episodes, because some are generous and some are poor, and that part cancels in the differences. That's how the lead over the baseline is measured.
    c) No, because agents whose intervals overlap are equally good.
        The overlap proves neither a difference nor equality. A more precise measurement may tell them apart.
    """,
)
