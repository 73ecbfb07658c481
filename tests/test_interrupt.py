"""In a running notebook, an interrupt ends a check with a card, and a check that takes long says so meanwhile."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from jupyter_client.manager import KernelManager

from coursekit.learner import progress
from tests import kernels

pytestmark = pytest.mark.slow
RIGHT = "def best_seconds(tasks, seconds_each, workers):\n    return -(-tasks // workers) * seconds_each\n"
ENDLESS = "def best_seconds(tasks, seconds_each, workers):\n    print('it runs')\n    while True:\n        pass\n"
OWN = "class Mine(BaseException): pass\n\ndef best_seconds(*args):\n    raise {}"
CHECK = "check('best_seconds', best_seconds)"


def _says_that_it_runs(shown: SimpleNamespace) -> bool:
    return "it runs" in shown.printed


class Notebook:
    """A kernel, and what its cells show."""

    def __init__(self, manager, client):
        self.manager, self.client = manager, client

    def run(self, source: str, meanwhile: Callable[[SimpleNamespace], None] = lambda shown: None) -> SimpleNamespace:
        """Return what a cell shows: what it prints, its result as text, its errors, and what it displays by the way."""
        shown = SimpleNamespace(printed="", result="", errors=[], displayed=[])

        def take(message: dict) -> None:
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    shown.printed += content["text"]
                case "execute_result":
                    shown.result = content["data"]["text/plain"]
                case "error":
                    shown.errors.append(content["ename"])
                case "display_data" | "update_display_data":
                    shown.displayed.append(content["data"]["text/plain"])
            meanwhile(shown)

        self.client.execute_interactive(source, timeout=120, output_hook=take, stop_on_error=False)
        return shown

    def interrupting(
        self, when: Callable[[SimpleNamespace], bool] = _says_that_it_runs
    ) -> Callable[[SimpleNamespace], None]:
        """Return what interrupts the kernel, once, when a cell has shown something; by default, has printed that it runs."""
        sent = []

        def interrupt(shown: SimpleNamespace) -> None:
            if not sent and when(shown):
                sent.append(self.manager.interrupt_kernel())

        return interrupt


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def notebook(home) -> Iterator[Notebook]:
    environment = kernels.environment() | {"COURSEKIT_HOME": str(home)}
    environment.pop("NBGRADER_EXECUTION", None)
    manager = KernelManager(**kernels.sockets())
    manager.start_kernel(env=environment)
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=120)
    made = Notebook(manager, client)
    made.run("from coursekit import begin, check, quiz\nbegin('ch00_start')")
    yield made
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_an_interrupt_ends_a_check_with_a_card_that_names_the_line_and_records_nothing(notebook, home, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(home))
    notebook.run(ENDLESS)
    before = progress.load()
    shown = notebook.run(CHECK, notebook.interrupting())
    assert shown.errors == []
    headline, line, *more = shown.result.splitlines()
    assert headline == "■ best_seconds: interrupted"
    assert line.startswith("  Interrupted: your code was still in line ")
    assert "of the cell with `best_seconds`" in line
    assert more == ["  Tried: best_seconds(12, 0.5, 4)"]
    assert progress.load() == before
    notebook.run(RIGHT)
    assert notebook.run(CHECK).result == "✔ best_seconds: passed, 1 of 1 point"


@pytest.mark.parametrize(
    ("raised", "status"),
    [("KeyboardInterrupt", "interrupted"), *((name, "crashed") for name in ("SystemExit", "Mine", "GeneratorExit"))],
)
def test_what_is_raised_past_exception_ends_in_a_card_too(notebook, raised, status):
    notebook.run(OWN.format(raised))
    shown = notebook.run(CHECK)
    assert shown.errors == []
    assert f"best_seconds: {status}" in shown.result
    assert "line 4 of the cell with `best_seconds`: `raise" in shown.result


def test_an_answer_that_exits_leaves_the_kernel_running(notebook):
    notebook.run("kept = 1\n" + OWN.format("None").replace("raise None", "exit()"))
    shown = notebook.run(CHECK)
    assert "best_seconds: crashed" in shown.result
    assert "line 5 of the cell with `best_seconds`: `exit()`" in shown.result
    assert notebook.run("kept").result == "1"


def test_a_check_that_takes_long_says_so_and_the_line_goes(notebook, tmp_path):
    go_on = tmp_path / "go on"
    waits = f"import pathlib, time\nwhile not pathlib.Path({str(go_on)!r}).exists():\n    time.sleep(0.01)"
    notebook.run(
        RIGHT.replace("\n    return", "\n" + "".join(f"    {line}\n" for line in waits.splitlines()) + "    return")
    )

    def let_go(shown: SimpleNamespace) -> None:
        if any(shown.displayed):
            go_on.touch()

    shown = notebook.run(CHECK, let_go)
    assert shown.result == "✔ best_seconds: passed, 1 of 1 point"
    assert shown.displayed[1].startswith("Still checking best_seconds, for ")
    assert shown.displayed[1].endswith(" s so far: running best_seconds(12, 0.5, 4).")
    assert (shown.displayed[0], shown.displayed[-1]) == ("", "")


@pytest.fixture(scope="module")
def with_ray(notebook) -> Iterator[Notebook]:
    assert notebook.run("import ray\nray.init(num_cpus=4)").errors == []
    yield notebook
    notebook.run("ray.shutdown()")


def test_a_check_says_what_it_is_waiting_for_and_an_interrupt_ends_it_in_ray_get(with_ray):
    one_by_one = "def parallel_map(function, xs):\n    task = ray.remote(function)\n    return [ray.get(task.remote(x)) for x in xs]"
    with_ray.run(f"begin('ch01_tasks')\n{one_by_one}")
    wanted = "waiting for another call to start, up to 20 s."
    interrupt = with_ray.interrupting(lambda shown: any(text.endswith(wanted) for text in shown.displayed))
    shown = with_ray.run("check('parallel_map', parallel_map)", interrupt)
    assert shown.errors == []
    assert "your code was still in line 4 of the cell with `parallel_map`: `return [ray.get(" in shown.result


def test_tasks_go_on_after_an_interrupt(with_ray, tmp_path):
    go_on = tmp_path / "go on"
    task = f"@ray.remote\ndef nap():\n    while not pathlib.Path({str(go_on)!r}).exists():\n        time.sleep(0.1)\n    return 'rested'\n\n"
    cell = f"import pathlib, time\n\n{task}ref = nap.remote()\nprint('it runs')\nray.get(ref)"
    assert with_ray.run(cell, with_ray.interrupting()).errors == ["KeyboardInterrupt"]
    go_on.touch()
    assert with_ray.run("ray.get(ref)").result == "'rested'"
