"""What the judges of chapters 11 to 13 say of a config of RLlib, and of the EnvRunners that it starts."""

from collections.abc import Sequence
from typing import Any

from coursekit.given import rllib_configs as given
from coursekit.judging.answer import Answer, Watched
from coursekit.judging.expect import expect, expect_equal


def judge_settings(answer: Answer, arguments: list, wanted: dict) -> None:
    """Refuse what need not be built: another algorithm, or other numbers than those asked for."""
    for name, said in settings_of(answer, arguments, list(wanted)).items():
        asked = wanted[name]
        expect_equal(said, asked, f"{name} is {said!r}, and the task asks for {asked!r}.")


def settings_of(answer: Answer, arguments: list, names: list[str]) -> dict[str, Any]:
    """Return what the config says under these names; refuse what is no config."""
    told = answer.probe(given.settings, arguments, names)
    returned = told.get("returned")
    expect(
        returned == "a config",
        f"The function returned an object of type {returned}. It must return the config, without building it.",
    )
    return {name: told.get(name) for name in names}


def judge_runners(seen: Watched, runners: Sequence[given.Facts], count: int) -> None:
    """Check that the EnvRunners that answered are `count` Ray actors, each in a process of its own."""
    pids = {actor["pid"] for actor in seen.actors() if actor["class_name"].endswith("EnvRunner")}
    alive = len(pids & {runner["pid"] for runner in runners})
    expect(alive == count, f"EnvRunner actors that were alive: {alive}. The task asks for {count}.")
