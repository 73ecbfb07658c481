"""What the judges of chapters 11 to 13 say of a config of RLlib, and of the EnvRunners that it starts."""

from coursekit.answer import Answer, Watched
from coursekit.exercise import expect, expect_equal
from coursekit.given import rllib_configs as given


def judge_settings(answer: Answer, arguments: list, wanted: dict) -> None:
    """Refuse what need not be built: another algorithm, or other numbers than those asked for."""
    told = answer.probe(given.settings, arguments, list(wanted))
    returned = told["returned"]
    expect(returned == "a config", f"The function returned {returned}. It must return the config, not built.")
    for name, value in wanted.items():
        expect_equal(told[name], value, f"{name} is {told[name]!r}, and the task asks for {value!r}.")


def judge_runners(seen: Watched, runners: list[dict], count: int) -> None:
    """Check that the EnvRunners that answered are `count` actors of Ray, each in a process of its own."""
    pids = {actor["pid"] for actor in seen.actors() if actor["class_name"].endswith("EnvRunner")}
    alive = len(pids & {runner["pid"] for runner in runners})
    expect(alive == count, f"EnvRunner actors that were alive: {alive}. The task asks for {count}.")
