"""The ways through the course, and which of them a learner is on."""

# For whom each is, and its chapters in order.
PATHS = {
    "Ray in a weekend": ("You have Python code that should use more cores or more machines.", [*range(7)]),
    "Distributed RL": (
        "You want to train agents in parallel: first with your own samplers and learners, then with RLlib.",
        [*range(4), *range(7, 16), 20],
    ),
    "From training to production": (
        "You tune, train, serve, and operate models. Chapter 11 expects that you know PPO; if you don't, do Chapters 7, 8, and 10 before it.",
        [*range(7), 11, *range(16, 20)],
    ),
    "RL for language models": (
        "You want to know what happens inside verl or OpenRLHF: generation, rewards, and GRPO, on several processes.",
        [*range(6), 7, 8, 10, 26],
    ),
}


def path_of(begun: set[int], every: list[int]) -> tuple[str, list[int]]:
    """Return the name and the chapters of the first path with all the chapters that a learner has begun; if none has, "" and all chapters."""
    fitting = ((name, numbers) for name, (_, numbers) in PATHS.items() if begun <= {*numbers})
    return next(fitting, ("", every))
