"""The judge's side of chapter 11."""

from typing import Any

import gymnasium
import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import agree, exercise, expect, expect_equal, quiz
from coursekit.given import ch11_rllib_ppo as given

ENVS, BATCH, MINIBATCH, EPOCHS, RATE, HIDDEN = 4, 512, 128, 6, 0.003, [32]  # what the task asks for
SEEDS = 3  # training may be unlucky: the first seed that reaches the target is enough
SLIPPERY = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]  # FrozenLake's best direction on each field


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Start from `cartpole_config` above: which of its lines must change, and which stay?",
        "What belongs to the environment alone goes beside its name: `.environment(name, env_config={...})`.",
        "`.env_runners(...)` takes the number of runners and the number of environments *in each*.",
    ],
)
def corridor_config(answer: Answer, rng: Generator) -> None:
    """Say what differs from the defaults, each setting in the method that it belongs to."""
    length, runners = int(rng.integers(4, 60)), 1  # each runner more is a process more, and seconds
    for fields, wanted in ((length, runners), (length + 7, 5)):
        _read_config(answer, fields, wanted)
    with answer.watch() as seen:
        ran = answer.probe(given.run_once, length, runners)
    alive = {actor["pid"] for actor in seen.actors() if actor["class_name"].endswith("EnvRunner")}
    told = f"corridor_config({length}, {runners}) was built and trained for one iteration. "
    played = [runner for runner in ran["runners"] if runner["pid"] in alive]
    processes = {runner["pid"] for runner in played}
    expect(len(processes) == len(ran["runners"]) == runners, told + f"{len(processes)} EnvRunner actors were alive.")
    for runner in played:
        names, lengths = runner["environments"], runner["lengths"]
        expect_equal(names, ["SimpleCorridor"] * ENVS, told + f"An EnvRunner held the environments {names}.")
        expect_equal(lengths, [length] * ENVS, told + f"The corridors of an EnvRunner had the lengths {lengths}.")
    weights = [shape for shape in ran["weights"] if len(shape) == 2]
    expect(weights[:2] == [[32, 1], [2, 32]], told + f"The network's weights had the shapes {weights}.")
    expect_equal(ran["iterations"], 1, told + f"It counts {ran['iterations']} iterations.")
    slack = 2 * runners * ENVS  # the environments of a runner step together
    expect(BATCH <= ran["steps"] <= BATCH + slack, told + f"It collected {ran['steps']} steps, not {BATCH}.")
    # each corridor is played for 128 steps and cut off after 100; the quickest goes straight to the exit
    least, most = runners * ENVS, ran["steps"] // (length - 1)
    expect(
        least <= ran["episodes"] <= most,
        told + f"{ran['episodes']} episodes ended in {ran['steps']} steps; with this corridor it is {least} to {most}.",
    )
    wide = ran["rows in a minibatch"]
    expect(abs(wide - MINIBATCH) < 1, told + f"The learner took {wide:.0f} steps at a time, not {MINIBATCH}.")
    epochs = ran["rows learned"] / ran["steps"]
    expect(EPOCHS - 0.5 < epochs < EPOCHS + 2, told + f"The learner went over the batch {epochs:.1f} times.")
    expect(np.isclose(ran["learning rate"], RATE), told + f"Its optimizer's learning rate was {ran['learning rate']}.")


def _read_config(answer: Answer, length: int, runners: int) -> None:
    """Refuse at once what cannot come out right: building it takes seconds."""
    told = answer.probe(given.settings, length, runners)
    expect(
        told["returned"] == "a config",
        f"The function returned {told['returned']}. It must return the config, not built.",
    )
    wanted = {
        "algorithm": "PPO",
        "environment": given.CORRIDOR,
        "environment's options": {"length": length},
        "num_env_runners": runners,
        "num_envs_per_env_runner": ENVS,
        "hidden layers": HIDDEN,
        "steps in a batch": BATCH,
        "minibatch": MINIBATCH,
        "epochs": EPOCHS,
        "learning rate": RATE,
    }
    for name, value in wanted.items():
        expect_equal(
            told[name],
            value,
            f"corridor_config({length}, {runners}): {name} is {told[name]!r}, and the task asks for {value!r}.",
        )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Three things in this order: build, train in a loop, stop. Which of them must happen even if the middle one fails?",
        "`result['env_runners'].get('episode_return_mean', float('nan'))` has an answer also where no episode has ended.",
        "Is `float('nan') < 0.4` true? And `float('nan') >= 0.4`? Print both, and then choose how the loop ends.",
    ],
)
def learns_corridor(answer: Answer, rng: Generator) -> None:
    """Stop at a mean that reaches the target, which NaN never does; and stop the algorithm whatever happens."""
    _judge_scripts(answer, rng)
    for seed in rng.integers(10**6, size=SEEDS):
        length = int(rng.integers(5, 8))
        best = 1 - 0.1 * (length - 2)
        target, most = round(best - 0.15, 2), 30
        ran = answer.probe(given.learn, length, int(seed), target, most)
        told = f"A corridor of {length} fields, target {target}. "
        algos = ran["algorithms"]
        expect(len(algos) == 1, told + f"{len(algos)} algorithms were built, not one.")
        means = algos[0]["means"]
        expect(algos[0]["stops"] >= 1, told + "The algorithm still ran when the function had returned.")
        expect(
            agree(ran["returned"], means, atol=1e-6),
            told + f"It reported {_told(means)}, you returned {_told(ran['returned'])}.",
        )
        expect(0 < len(means) <= most, told + f"It trained for {len(means)} iterations.")
        early = [mean for mean in means[:-1] if mean >= target]
        expect(not early, told + f"It trained on after a mean return of {early[:1]}.")
        earns = _expected_return(algos[0]["scores"], length)
        if means[-1] >= target and earns > target - 0.2:
            return
    expect(False, told + f"With none of {SEEDS} seeds it got there: the last mean return was {means[-1]:.2f}.")


def _judge_scripts(answer: Answer, rng: Generator) -> None:
    """Check the loop on results written beforehand, which costs nothing."""
    target = float(rng.integers(2, 9))
    low = (target - rng.uniform(1, 4, size=4)).round(2).tolist()
    good = round(target + float(rng.uniform(0.1, 0.9)), 2)
    blank: list[float | None] = [None] * int(rng.integers(1, 4))
    nan = float("nan")
    _judge_script(
        answer,
        [*blank, low[0], nan, *low[1:], nan, nan, good, target + 2],
        target,
        most=40,
        name="Its episodes are long: in some iterations none ends",
    )
    _judge_script(answer, [low[0], target, good], target, most=40, name="Its second mean return is the target itself")
    most = int(rng.integers(5, 9))
    _judge_script(answer, [*blank, *low * 4], target, most=most, name="It never gets there")
    seen = answer.probe(given.follow_script, low, target, 40, breaks=True)
    told = "An algorithm whose environment breaks in the fourth iteration: "
    expect(seen["stops"] >= 1, told + "nobody stopped it, so its EnvRunners would live on.")
    expect(seen["raised"], told + "the caller never heard of it. Stop the algorithm, and let the error go on.")


def _judge_script(answer: Answer, means: list, target: float, most: int, name: str) -> None:
    seen = answer.probe(given.follow_script, means, target, most)
    hit = [turn for turn, mean in enumerate(means, 1) if mean is not None and mean >= target]
    turns = min([*hit, most])
    told = f"{name}. Mean returns {_told(means)}, target {target}, at most {most} iterations: "
    expect(seen["builds"] == 1, told + f"the config was built {seen['builds']} times.")
    expect(not seen["after_stop"], told + "it was trained after it had been stopped.")
    expect(seen["stops"] >= 1, told + "nobody stopped the algorithm.")
    expect(
        seen["trains"] == turns,
        told
        + f"training ended after iteration {seen['trains']}; it has to end after iteration {turns}. What is `nan >= target`, and what `nan < target`?",
    )
    want = [np.nan if mean is None else mean for mean in means[:turns]]
    got = seen["returned"]
    expect(
        agree(got, want, atol=1e-6),
        told + f"you returned {_told(got)}. One number for each iteration, NaN where there is none.",
    )


def _told(means: Any) -> str:
    """Return a list of numbers as short text."""
    if not isinstance(means, list):
        return repr(means)[:60]
    return (
        "["
        + ", ".join(f"{m:.2f}" if isinstance(m, int | float) else "missing" if m is None else str(m) for m in means[:8])
        + (", …" if len(means) > 8 else "")
        + "]"
    )


def _expected_return(scores: list, length: int) -> float:
    """Return what a policy with these scores earns in a corridor on average, without a limit of steps (a linear system)."""
    odds = np.exp(np.array(scores, float))
    right = (odds[:, 1] / odds.sum(1))[: length - 1]
    matrix, gains = np.eye(length - 1), np.full(length - 1, -0.1)
    for field, chance in enumerate(right):
        matrix[field, max(field - 1, 0)] -= 1 - chance
        if field + 1 < length - 1:
            matrix[field, field + 1] -= chance
        else:
            gains[field] += chance * 1.1
    return float(np.linalg.solve(matrix, gains)[0])


@exercise(
    points=3,
    minutes=10,
    hints=[
        "Three calls, and each is one line: save to the folder, stop, come back from the folder.",
        "`algo.save_to_path(folder)` writes; `Algorithm.from_checkpoint(folder)` builds a new algorithm from what is there.",
        "Which must come first: stopping the old one or building the new one? Think of the CPUs that EnvRunners hold.",
    ],
)
def save_and_restore(answer: Answer, rng: Generator) -> None:
    """Save, stop, then build from the folder: weights, optimizer and counters are all in it."""
    length, seed, iterations = int(rng.integers(5, 9)), int(rng.integers(10**6)), int(rng.integers(2, 5))
    mark = rng.uniform(-0.3, 0.3, size=2).astype(np.float32).tolist()
    seen = answer.probe(given.save_then_go_on, length, seed, iterations, mark)
    told = f"An algorithm had trained for {iterations} iterations. "
    expect(
        seen["returned"] == "an algorithm",
        told + f"`save_and_restore` returned {seen['returned']}, which cannot train on.",
    )
    expect(not seen["same"], told + "What came back is the old algorithm itself, not one from the folder.")
    expect(
        any(file.startswith("checkpoint/") for file in seen["files"]),
        told + "Nothing of a checkpoint is in the folder that was given.",
    )
    expect(seen["stops"] >= 1, told + "The old one still ran in the end.")
    expect(not seen["together"], told + "The new one was built while the old one still ran: both need CPUs.")
    before, after = seen["before"], seen["after"]
    for place, name in (("learner", "The learner's weights"), ("runner", "The weights with which it plays")):
        moved = _moved(before["learner"][: len(after[place])], after[place])  # where it plays, there is no critic
        expect(not moved, told + f"{name} are not those of the old one: {moved}.")
    kept = bool(np.allclose(after["mark"], mark, atol=1e-6))
    expect(
        kept, told + "Its newest weights are missing: what came back is older than the last moment before you saved."
    )
    expect_equal(after["iteration"], iterations, told + f"The new one counts {after['iteration']}.")
    moved = _moved(before["optimizer"], after["optimizer"])
    expect(not moved, told + f"The weights are right, but the optimizer forgot what it knew: {moved}.")
    expect_equal(
        seen["iteration"], iterations + 1, told + f"The next iteration of the new one was number {seen['iteration']}."
    )
    steps = (iterations + 1) * given.BATCH
    expect(
        steps <= seen["steps"] <= steps + 16 * (iterations + 1),
        told + f"After one more it counts {seen['steps']} steps in all.",
    )


def _moved(before: list, after: list) -> str:
    """Return how two lists of arrays differ, in words; nothing where they are alike."""
    if len(before) != len(after):
        return f"there were {len(before)} arrays, now there are {len(after)}"
    far = [
        float(np.max(np.abs(np.subtract(b, a)))) if np.shape(b) == np.shape(a) else np.inf
        for b, a in zip(before, after, strict=True)
    ]
    return f"they moved by up to {max(far):.2g}" if max(far, default=1.0) > 1e-6 else ""


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`flatten(space, obs)` makes the vector that the network was trained on, for every kind of space.",
        "The network takes a batch of tensors under the key `'obs'`: what is the shape of a batch of one?",
        "The answer holds `'action_dist_inputs'`, one score for each action. The best action has the largest.",
    ],
)
def act(answer: Answer, rng: Generator) -> None:
    """Do yourself what connectors did: flatten, make a batch of one, and turn scores into an action."""
    fields, numbers = int(rng.integers(9, 30)), int(rng.integers(3, 7))
    for kind, size in (("Box", [numbers]), ("Discrete", [fields]), ("Box", [2, numbers])):
        inputs, actions = int(np.prod(size)), int(rng.integers(3, 6))
        layers = _random_layers(rng, inputs, actions)
        if kind == "Discrete":
            observations: list = rng.permutation(fields).tolist()
            vectors = np.eye(fields)[observations]
        else:
            observations = rng.normal(size=(40, *size)).round(3).tolist()
            vectors = np.array(observations).reshape(40, inputs)
        scores = _scores(layers, vectors)
        got = answer.probe(given.act_on, kind, size, layers, observations)
        what = f"a number from 0 to {fields - 1}" if kind == "Discrete" else f"an array of shape {tuple(size)}"
        told = f"{len(observations)} observations, each {what}; {actions} actions. "
        expect(len(got) == len(observations), told + f"{len(got)} answers came back.")
        for place, action in enumerate(got):
            whole = isinstance(action, int) or (isinstance(action, np.ndarray) and action.ndim == 0)
            expect(whole, told + f"`act` returned {action!r}, and an environment wants one whole number.")
            obs, row = observations[place], scores[place].round(2).tolist()
            expect(
                int(action) == int(np.argmax(scores[place])),
                told + f"For {obs} the network's scores are {row}, and `act` chose {int(action)}.",
            )


def _random_layers(rng: Generator, inputs: int, actions: int) -> list:
    """Return two layers whose best action changes from one observation to the next, and never by a hair."""
    while True:
        first = (rng.normal(0, 0.7, size=(8, inputs)), rng.normal(0, 0.3, size=8))
        last = (rng.normal(0, 1.0, size=(actions, 8)), rng.normal(0, 0.1, size=actions))
        probe = _scores([first, last], np.vstack([np.eye(inputs), rng.normal(size=(40, inputs))]))
        if len(set(probe.argmax(1).tolist())) >= 3:
            return [[part.astype(np.float32).tolist() for part in layer] for layer in (first, last)]


def _scores(layers: list, vectors: np.ndarray) -> np.ndarray:
    """Return a row of scores for each vector: the network of two layers, in NumPy."""
    (w, b), (v, c) = [[np.array(part) for part in layer] for layer in layers]
    return np.tanh(vectors @ w.T + b) @ v.T + c


@exercise(
    points=2,
    minutes=10,
    hints=[
        "One episode is: reset with its seed, then act and step until it ends. How many ways to end are there?",
        "The return is the sum of *all* rewards of the episode, not the last one.",
        "`while not (terminated or truncated)` around `env.step(act(network, env.observation_space, obs))`.",
    ],
)
def evaluate(answer: Answer, rng: Generator) -> None:
    """Play whole episodes with the best actions, each from a seed of its own, and keep every return."""
    rewards = rng.uniform([5, -4, -0.3], [9, -2, -0.1]).round(2).tolist()
    limit, seeds = int(rng.integers(25, 40)), rng.integers(10**6, size=25).tolist()
    layers = _lake_policy(rng)
    seen = answer.probe(given.play, layers, rewards, limit, seeds)
    got, want = seen["returned"], [_lake_return(layers, rewards, limit, seed) for seed in seeds]
    told = f"FrozenLake with the rewards {rewards} for goal, hole and ice, cut off after {limit} steps, {len(seeds)} seeds. "
    expect(
        isinstance(got, list | tuple | np.ndarray), told + f"`evaluate` returned {got!r:.60}, not a list of returns."
    )
    expect(len(got) == len(seeds), told + f"`evaluate` returned {len(got)} numbers, one is wanted for each seed.")
    expect_equal(seen["episodes"], len(seeds), told + f"{seen['episodes']} episodes were begun.")
    off = [i for i in range(len(seeds)) if not np.isclose(float(got[i]), want[i], atol=1e-4)]
    expect(
        not off,
        told
        + f"{len(off)} returns are not those of the best actions from these seeds; seed {seeds[off[0] if off else 0]} "
        f"gives {want[off[0] if off else 0]:.2f}, you have {float(got[off[0] if off else 0]):.2f}.",
    )


def _lake_policy(rng: Generator) -> list:
    """Return layers of a network that knows the lake: the best direction leads by little, so that drawing is seen."""
    scores = rng.uniform(0, 0.3, size=(4, 16))
    scores[SLIPPERY, np.arange(16)] = 0.5
    first = [(4 * np.eye(16)).tolist(), np.zeros(16).tolist()]
    return [first, [scores.tolist(), np.zeros(4).tolist()]]


def _lake_return(layers: list, rewards: list, limit: int, seed: int) -> float:
    """Return what the best actions earn on the lake in the episode that begins with this seed."""
    env: gymnasium.Env = given.lake(rewards, limit)
    best = _scores(layers, np.eye(16)).argmax(1)
    obs, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(int(best[obs]))
        total, over = total + float(reward), terminated or truncated
    return total


quiz(
    "first_iteration",
    """
    The first result of a training has no `episode_return_mean`, or it is NaN. What does that say?

    a) The environment pays no rewards.
        Then the mean would be 0. A missing number is not a zero.
    *b) No episode has ended yet, so there is no return to average.
        Right: a return is known when its episode is over. Wait, or take larger batches.
    c) The network has diverged.
        You would see NaN among the losses of the learner. Returns are the environment's.
    d) The EnvRunners have died.
        RLlib restarts them, and `num_healthy_workers` counts them. Look at `num_env_steps_sampled_lifetime`: steps were played.
    """,
)

quiz(
    "which_mean",
    """
    `episode_return_mean` went from 20 to 480 during training. You play 100 episodes with the best actions and get 500. Which number do you report for the trained agent?

    a) 480: RLlib measured it.
        In those episodes the agent still tried things, and it played before the last update.
    *b) 500, with the number of episodes and their spread.
        Right: fresh episodes, the finished weights, the best actions. That is the agent that you would hand over.
    c) The best of all numbers that you saw.
        The best of many noisy numbers is mostly noise: chapter 10's first good test.
    """,
)

quiz(
    "what_a_checkpoint_lacks",
    """
    You send the folder of a checkpoint to a colleague with the same Ray. `Algorithm.from_checkpoint` fails there. What was not in the folder?

    a) The optimizer's state.
        It is there, with the learner: the check of `save_and_restore` compared it.
    b) The settings of the config.
        They are in `class_and_ctor_args.pkl`: the new algorithm is built from them.
    *c) The code of your environment.
        Right: a folder holds names and numbers, no programs. Your module must be importable there, too.
    d) The number of iterations.
        It is there: a restored algorithm goes on counting.
    """,
)

quiz(
    "why_flatten",
    """
    On FrozenLake the trained network is asked with `torch.tensor([[5.0]])` for field 5, and raises an error about shapes. Why?

    a) A network can only be asked through RLlib.
        It is a PyTorch module like any other: you have just asked it yourself.
    b) Field 5 is an integer, and 5.0 is not.
        Networks compute with floats. The shape is the trouble: how many inputs has its first layer?
    *c) It was trained on sixteen zeros and ones: connectors flattened the number, and now nobody does.
        Right: whatever connectors did on the way to the network is now up to you.
    """,
)
