"""Ray, as quiet as a notebook needs it: what the reader's own code says stays, Ray's talk about itself goes.

Nothing of Ray's reaches stderr, neither its log nor what a worker writes there: nbgrader scores a test cell 0 as soon as one
line does, and a worker's line arrives in whatever cell is running by then.

A cluster also gets more time to start than Ray gives it, for laptops that are busy.
"""

import logging
import os
import re
from collections.abc import Callable
from typing import Any

from coursekit.judging.failure import STUB_TEXT
from coursekit.ray_bridge import log_monitor, patches, private

METRICS = ("RAY_enable_metrics_collection", "RAY_enable_open_telemetry")
ENVIRONMENT = {
    "RAY_DEDUP_LOGS": "0",  # else "hello from 1" and "hello from 2" count as one message, and only one is shown
    "RAY_USAGE_STATS_ENABLED": "0",  # a course reports nothing about its learners
    "RAY_verbose_spill_logs": "0",  # else the raylet reports when 2 GB have been spilled, on purpose or not
    "RAY_task_events_report_interval_ms": "100",  # the record of a task is complete after 0.1 s instead of 1 s
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # else Serve replaces a proxy that starts slowly, and no proxy answers meanwhile
    "GRPC_VERBOSITY": "NONE",  # else gRPC, within Ray, may say "Timer list shutdown" of a worker that ends
    # On a busy machine the reader of Ray's metrics (OpenTelemetry's buildMetrics) can crash a new worker.
    **dict.fromkeys(METRICS, "0"),
}
NOISE = re.compile(
    "|".join(
        [
            r"Token authentication is enabled",  # Ray's default; no cell can do anything about it
            r"You are running \w+ on the new API stack",  # there is no other one in this course
            r"`RLModule\(config=\[RLModuleConfig object\]\)` has been deprecated",  # RLlib's own call, with its own models
            r"Install gputil for GPU system monitoring",
            r"The object store is using \S+ instead of /dev/shm",  # the preflight says that, and what to do
            r"worker\.cc:\d+: Failed to send wait complete",  # a raylet, of a worker that ended while it waited
            r"`get_rl_module_config` has been deprecated",  # RLlib's own call, before an error that says more
            r"`ray\.rllib\.algorithms\.appo\.torch\.appo_torch_rl_module\.\w+` has been deprecated",  # RLlib's own import
            r"Setting up process group for: env://",  # Ray Train, for each learner in a process of its own
            r" -- [A-Z]+ \S+ \d{3} [\d.]+ms",  # Ray Serve, for every request
            r"Task ServeController\.\w+ failed\. There are infinite retries",  # of its controller, when Serve is shut down
            r"Task member failed\. There are \d+ retries",  # of a gang (chapter 4) that ended while a member's result was on its way
            r"`OfflinePreLearner\(module_spec=\.\.\)` has been deprecated",  # RLlib's own call, in an actor of Ray Data
            r"gcs_actor_scheduler\.cc:\d+: Failed to kill actor",  # GCS, of an actor whose process had ended by itself
            r"\[mutex\.cc : \d+\] RAW:",  # absl, within Ray, of locks that were busy for a moment
            r"Didn't create a Catalog object for your RLModule",  # "ignore this message", it ends; an error says more
            r"Remote file not found: .*(result\.json|progress\.csv)",  # Tune, of a trial that goes on from a checkpoint
            r"Failed to fetch metrics for \d+ trial",  # Tune, of a trial that was PENDING to the end
            # Tune, which copies its folder while it saves there, and copies all of it once more after this error.
            r"Failed to open local file '[^']*-tmp-[^']*'\. Detail: \[errno 2\]",
        ]
    )
)
# On its way out, a worker makes OpenCensus' DeltaProducer, whose thread may take a lock that is not made yet; it then aborts, or
# follows what it takes for a pointer. The process may end before the report does, which Python's own would close.
LAST_WORDS = re.compile(
    r"^.*\[mutex\.cc : \d+\] RAW: .*Mutex corrupt: "
    r"|^\*\*\* SIGSEGV received(?:(?s:.*)DeltaProducer::RunHarvesterLoop|(?!(?s:.*)^Fatal Python error))",
    re.MULTILINE,
)


def quiet() -> None:
    """Send what Ray and its workers log to stdout, without what is noise. Call it before `ray.init`; twice does no harm."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)  # before Ray is imported: it reads them then
    private.ray_logging.RAY_DEDUP_LOGS = os.environ["RAY_DEDUP_LOGS"] != "0"  # where Ray was imported before
    patches.replace(private.worker, "print_to_stdstream", _printer)
    patches.replace(logging.StreamHandler, "emit", _emitter)
    patches.replace(private.worker, "connect", patches.silent)
    patches.replace(private.services, "get_node", patches.patient)
    patches.change_commands("whole lines", _with_whole_lines)


def _with_whole_lines(command: list[str], kind: str) -> list[str]:
    """Return the command of one of Ray's processes: the log monitor's with ours, which reads whole lines."""
    script = next((place for place, word in enumerate(command) if word.endswith("log_monitor.py")), None)
    return command if script is None else [*command[:script], log_monitor.__file__, *command[script:]]


def _emitter(original: Callable) -> Callable:
    """Return logging's function that writes to a stream, with Ray's warnings and errors going to stdout.

    Ray, RLlib and Serve each add a handler of their own for stderr when they are imported, so there is none yet to change.
    """

    def emit(handler: logging.Handler, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] != "ray" or isinstance(handler, logging.FileHandler):
            original(handler, record)
        elif record.levelno >= logging.WARNING and not NOISE.search(text := handler.format(record)):
            print(text)

    return emit


def _printer(original: Callable) -> Callable:
    """Return Ray's function that prints what workers wrote, for stdout alone and without noise."""
    gone: set[tuple[Any, Any]] = set()

    def print_lines(data: dict[str, Any], ignore_prefix: bool) -> None:
        process = (data.get("ip"), data.get("pid"))
        if process in gone:
            return
        lines = _without_stubs(data["lines"])
        text = "\n".join(lines)
        if last := LAST_WORDS.search(text):
            gone.add(process)
            lines = lines[: text.count("\n", 0, last.start())]
        lines = [line for line in lines if not NOISE.search(line)]
        original({**data, "lines": lines, "is_err": False}, ignore_prefix)

    return print_lines


def _without_stubs(lines: list[str]) -> list[str]:
    """Return a worker's lines without the report, its last words, that an actor could not be made because it is not written yet."""
    starts = [index for index, line in enumerate(lines) if "Exception raised in creation task" in line]
    return lines[: starts[0]] if starts and any(STUB_TEXT in line for line in lines) else lines
