"""A Tune callback that kills the node on which a trial runs, as if its plug had been pulled."""

import logging
from typing import Any

from ray.tune import Callback

from coursekit.given import nodes
from coursekit.given.ch22_inside_rllib import node_names
from coursekit.given.deaths import keep_news_of_deaths

CONTROLLER = logging.getLogger("ray.tune.execution.tune_controller")


class EndsItsNode(Callback):
    """Records the iteration and the node of each report in `story`, and kills that node right after report number `after`."""

    def __init__(self, after: int):
        self.after, self.story = after, list[dict]()

    def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
        """Record the report of a trial, to whose result `log_node` has added the node."""
        here = node_names().get(result["node"], "a lost node")
        self.story.append({"iteration": result["training_iteration"], "node": here})
        if len(self.story) == self.after:
            CONTROLLER.addFilter(_is_news)
            keep_news_of_deaths()  # this one was asked for
            nodes.kill(here)

    def on_experiment_end(self, trials: list, **info: Any) -> None:
        """Let Tune report failed trials again."""
        CONTROLLER.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a line of Tune's log says more than that the trial has failed, which is what was asked for."""
    return "Trial task failed" not in record.getMessage()
