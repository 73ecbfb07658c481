"""One submission, from its cells to its points: the learner's cells run in a sandbox, every check outside it."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import nbformat
from nbformat import NotebookNode

from coursekit.basics.cells import defined_names
from coursekit.grading.cell_outputs import cell_that_writes, credit_of, explained, outputs_of, readable
from coursekit.grading.exclusive_time import Turns
from coursekit.grading.grading_plan import Master, Plan, Step, plan
from coursekit.grading.submission import NotGradable, with_files_of_master
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import Exercise, Quiz, judge, load
from coursekit.judging.message_ids import NOTHING_SAID, Said, said
from coursekit.judging.result import MIME, Result
from coursekit.sandbox.nursery import Nursery, NurseryFailed
from coursekit.sandbox.replies import Shown
from coursekit.sandbox.sandbox import Limits, Sandbox, SandboxDied

TEXT = 2_000  # characters of a message, of what was tried or of what came back that are kept
OUTPUT = 2_000_000  # characters that all cells of a submission printed that are kept
# characters of a cell that ended with an error in which the names are looked for that it should define
BEGINNING = 10_000
PICTURES = 8_000_000  # the same of its pictures, which are long texts
NOTES = 20
LOST = 3  # times that a submission is tried again because its sandbox was ended from outside
ENDED = (
    f"its sandbox was ended from outside {LOST + 1} times: free some memory (fewer --jobs, or less --memory for each), "
    "then grade it again with --again"
)


@dataclass
class Graded:
    """What came of one submission: a result for every test cell, and the notebook with its outputs."""

    results: dict[str, Result] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    notebook: NotebookNode | None = None
    files: dict[str, bytes] = field(default_factory=dict)  # that its cells wrote
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0

    @property
    def score(self) -> int | float:
        """Return the points earned."""
        return sum(result.earned for result in self.results.values())


class Grader:
    """Grades one submission after another with the sandboxes of one nursery."""

    def __init__(
        self, nursery: Nursery, limits: Limits, seed: int, all_cells: bool = False, turns: Turns | None = None
    ):
        self.nursery, self.limits, self.seed, self.all_cells = nursery, limits, seed, all_cells
        self.turns = turns or Turns()

    def grade(self, notebook: NotebookNode, master: Master, files: dict[str, bytes] | None = None) -> Graded:
        """Return the points of every test cell of the master; nothing that the submission does makes it raise.

        Raises NotGradable where its sandboxes are ended from outside again and again.
        `files` were handed in beside the notebook; those of the same name beside the master take their place.
        """
        items = load(master.chapter) if master.chapter else {}
        work = _Work(plan(notebook, master), items, with_files_of_master(files or {}, master.files), self)
        work.run()
        return work.graded


class _Work:
    """The grading of one submission: goes through its steps, in a fresh sandbox again whenever one dies."""

    def __init__(self, steps: Plan, items: dict[str, Exercise | Quiz], files: dict[str, bytes], grader: Grader):
        self.steps, self.items, self.files, self.grader = steps.steps, items, files, grader
        self.graded = Graded(notes=list(steps.notes))
        self.poisoned: dict[int, str] = {}  # steps that ended their sandbox, and how
        self.deadline = time.monotonic() + grader.limits.total_seconds
        self.output_left, self.pictures_left, self.lost = OUTPUT, PICTURES, 0
        self.began = time.perf_counter()  # of the cell or check that has its turn, for its own time
        self.answer: Answer | None = None  # what was asked last, for the page to show
        # the errors with which the cells of answers ended, by the names that they define
        self.broken: dict[str, dict] = {}

    def run(self) -> None:
        """Judge every step; what could not be reached earns nothing, with the reason."""
        start = time.perf_counter()
        while not self._pass():  # each time one step more is left out
            pass
        for step in self.steps:
            if step.kind in ("check", "quiz", "test") and self._id(step) not in self.graded.results:
                self._record(step, self._result(step, "crashed", said("not-reached", reason=self._why_not_reached())))
        self.graded.seconds = time.perf_counter() - start
        cells = [readable(step.cell) for step in self.steps]
        self.graded.notebook = nbformat.v4.new_notebook(cells=cells)

    def _why_not_reached(self) -> str:
        reasons = "; ".join(dict.fromkeys(self.poisoned.values())) or "took too long"
        return f"Not reached: the notebook {reasons}."

    def _pass(self) -> bool:
        """Go through the notebook once; return whether it came to its end or to its time limit."""
        with self._sandbox() as box:
            # blamed: a step that had to be stopped, and may have left behind what ends a later one
            index, blamed = -1, -1
            try:
                self._write_files(box)
                for index, step in enumerate(self.steps):
                    if time.monotonic() > self.deadline:
                        self.poisoned[index] = f"took longer than {self.grader.limits.total_seconds:.0f} s in all"
                        return True
                    if index not in self.poisoned and self._step(step, box):
                        blamed = index
                self._keep_files(box)
                return True
            except (SandboxDied, NurseryFailed) as ended:
                if isinstance(ended, NurseryFailed) or box.lost():
                    self._try_again()
                else:
                    self._leave_out(index if blamed < 0 else blamed, ended.reason)
                return time.monotonic() > self.deadline
            finally:
                self._add_usage(box)

    def _sandbox(self) -> Sandbox:
        """Return a new sandbox; raises NurseryFailed where none can be made several times in a row."""
        cpus = max((getattr(item, "needs", {}).get("CPU", 0) for item in self.items.values()), default=0)
        for _ in range(LOST):
            with contextlib.suppress(NurseryFailed):  # the nursery may have just ended; the next try replaces it
                return self.grader.nursery.sandbox(cpus)
        return self.grader.nursery.sandbox(cpus)

    def _write_files(self, box: Sandbox) -> None:
        """Put the files that belong to the notebook beside it; what cannot be written is said, and left out."""
        outcome = box.run(cell_that_writes(self.files)) if self.files else None
        if outcome and outcome.error:
            reason = f"{outcome.error.get('kind')}: {outcome.error.get('message')}"
            self._add_note(f"files beside the notebook could not be written ({reason})")

    def _keep_files(self, box: Sandbox) -> None:
        """Keep the files that cells have written or changed; a notebook that ends its sandbox now has been graded already."""
        with contextlib.suppress(SandboxDied):
            self.graded.files = {name: data for name, data in box.files().items() if self.files.get(name) != data}

    def _try_again(self) -> None:
        """Have the pass repeated, with all the time that it may take; raises NotGradable when that has happened too often."""
        self.lost += 1
        if self.lost > LOST:
            raise NotGradable(ENDED)
        self.deadline = time.monotonic() + self.grader.limits.total_seconds

    def _leave_out(self, index: int, reason: str) -> None:
        """Leave a step out of the passes to come, with the reason; the files, where no step was reached."""
        if index < 0:
            self.files = {}
            self._add_note(f"the files beside the notebook were left out, because writing them {reason}")
            return
        step = self.steps[index]
        self.poisoned[index] = reason
        if step.kind not in ("check", "quiz", "test"):
            step.cell.outputs = outputs_of("", {"kind": "Stopped", "message": f"this cell {reason}"})
            self._note(f"a cell was left out, because it {reason}", step)
        elif self._id(step) not in self.graded.results:  # what was judged before stays so
            tried = self.answer.tried if self.answer and self.answer.name == step.name else ""
            text = said("stopped", reason=reason)
            self._record(step, self._result(step, "crashed", text, tried=tried, seconds=self._took()))

    def _step(self, step: Step, box: Sandbox) -> bool:
        """Run or judge a step; return whether it had to be stopped."""
        if step.kind == "run" or (step.kind == "demo" and self.grader.all_cells):
            return self._run_cell(step, box)
        if step.kind in ("check", "quiz"):
            self._judge(step, box)
        elif step.kind == "test":
            self._own_test(step, box)
        result = self.graded.results.get(self._id(step)) if step.kind in ("check", "quiz", "test") else None
        return result is not None and result.values.get("error", "").startswith("TimeoutError")

    def _run_cell(self, step: Step, box: Sandbox) -> bool:
        """Run a cell of the learner; return whether it had to be stopped."""
        with self._turn():
            outcome = box.run(step.cell.source, self._seconds_left())
        step.cell.outputs = outputs_of(self._kept(outcome.output), outcome.error, self._kept_shown(outcome.shown))
        error = outcome.error or {}
        if error:
            self.broken |= dict.fromkeys(defined_names(step.cell.source[:BEGINNING]), error)
        if error and not error.get("todo"):
            self._note(f"a cell ended with {error.get('kind')}: {error.get('message')}", step)
        return error.get("kind") == "TimeoutError"

    def _judge(self, step: Step, box: Sandbox) -> None:
        """Judge a coursekit exercise or quiz from outside; judged once, also when a later step restarts the notebook."""
        known = self.graded.results.get(self._id(step))
        if known is None:
            item = self.items[step.name]
            ask, records = partial(self._ask, box, step.name), partial(self._records, box)
            answer = self.answer = Answer(step.name, ask, records)
            with self._turn(getattr(item, "alone", False)):
                # a check that itself fails costs this exercise until a person decides, not the submission
                verdict = explained(judge(item, answer, self.grader.seed), self.broken.get(step.name))
                known = replace(verdict, seconds=self._took())
            self._record(step, known)
        box.tell(step.name, known.status == "passed")

    @contextlib.contextmanager
    def _turn(self, alone: bool = False) -> Iterator[None]:
        """Wait for this submission's turn, which does not count as its time."""
        turns = self.grader.turns
        with turns.alone() if alone else turns.shared() as waited:
            self.deadline += waited
            self.began = time.perf_counter()
            yield

    def _took(self) -> float:
        """Return the seconds since the cell or check had its turn."""
        return round(time.perf_counter() - self.began, 2)

    def _kept(self, output: str) -> str:
        """Return what may still be kept of a cell's output: all cells together have one limit."""
        kept, self.output_left = output[: self.output_left], max(0, self.output_left - len(output))
        if len(kept) < len(output):
            self._add_note(f"more than {OUTPUT} characters of output: the rest was not kept")
        return kept

    def _kept_shown(self, shown: list[Shown]) -> Iterator[Shown]:
        """Yield what may still be kept of what a cell showed."""
        for each in shown:
            if len(each.picture) > self.pictures_left:
                self._add_note(f"pictures of more than {PICTURES // 10**6} MB: the rest was not kept")
                each = replace(each, picture="")
            self.pictures_left -= len(each.picture)
            if (text := self._kept(each.text)) or each.picture:
                yield replace(each, text=text)

    def _ask(self, box: Sandbox, name: str, request: bytes) -> bytes:
        return box.ask(name, request, self._seconds_left())

    def _records(self, box: Sandbox, operation: str, **window: Any) -> Any:
        return box.evidence(operation, self._seconds_left(), **window)

    def _own_test(self, step: Step, box: Sandbox) -> None:
        """Run an instructor's own test cell by nbgrader's rules: an error earns nothing, a number at the end that much, else all."""
        with self._turn():
            outcome = box.run(step.cell.source, self._seconds_left())
            seconds = self._took()
        if self._id(step) in self.graded.results:
            return
        if error := outcome.error:
            text = said("own-test", error=f"{error.get('kind')}: {error.get('message')}")
            self._record(step, self._result(step, "wrong", text, seconds=seconds))
            return
        fraction = credit_of(outcome.shown, step.points) / step.points if step.points else 1
        self._record(step, self._result(step, "passed", share=fraction, seconds=seconds))

    def _note(self, text: str, step: Step) -> None:
        """Keep a note on a cell for the student and the instructor."""
        first = step.cell.source.strip().partition("\n")[0][:80]
        self._add_note(f"{text[:300]} (the cell that begins with {first!r})")

    def _add_note(self, note: str) -> None:
        notes = self.graded.notes
        if note not in notes and len(notes) <= NOTES:
            notes.append(note if len(notes) < NOTES else "there was more to note")

    def _record(self, step: Step, result: Result) -> None:
        texts: dict[str, Any] = {
            name: str(getattr(result, name))[:TEXT] for name in ("message", "tried", "got", "where")
        }
        texts["values"] = {name: text[:TEXT] for name, text in result.values.items()}
        result = replace(result, points=step.points, **texts)  # an instructor may weigh a cell otherwise
        self.graded.results[self._id(step)] = result
        error = None if result.status == "passed" else {"kind": "NotPassed", "message": str(result)}
        step.cell.outputs = outputs_of("", error)
        shown = {"text/plain": str(result), "text/html": result._repr_html_(), MIME: result.as_dict()}
        step.cell.outputs.insert(0, nbformat.v4.new_output("display_data", shown))

    def _seconds_left(self) -> float:
        return max(0.1, min(self.grader.limits.cell_seconds, self.deadline - time.monotonic()))

    def _add_usage(self, box: Sandbox) -> None:
        usage = box.usage()
        self.graded.cpu_seconds += usage.get("cpu_seconds", 0.0)
        self.graded.peak_mb = max(self.graded.peak_mb, usage.get("peak_mb", 0.0))

    @staticmethod
    def _id(step: Step) -> str:
        return str(step.cell.metadata.nbgrader.grade_id)

    def _result(self, step: Step, status: str, words: Said = NOTHING_SAID, **more: Any) -> Result:
        """Return the result of a step on which no check has judged."""
        chapter = self.items[step.name].chapter if step.name in self.items else ""
        place = (chapter, step.name, step.kind, status, step.points)
        return Result(*place, words.text, words.id, words.values, **more)
