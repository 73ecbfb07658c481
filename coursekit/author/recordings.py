"""What the demonstrations of a chapter showed when its solved notebook last ran, cell by cell, for the course's pages.

Cells are kept by their ids, which the builder makes of their code: a cell that has changed since finds nothing.
"""

import base64
import io
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from coursekit.basics.cards import plural
from coursekit.basics.errors import CommandError, chapter_names, existing_chapter
from coursekit.basics.paths import ROOT
from coursekit.judging.result import MIME

SHOWN = ["text/html", "image/svg+xml", "image/png", "text/plain"]  # the first that an output has is kept, and its text
UNSAID = "You made no prediction."  # what `measured` answers where nobody predicts
LONG = 20  # seconds on two cores: a cell that takes longer says so in the text above it, and shows how far it is
SAYS_HOW_LONG = re.compile(r"\b(seconds?|\d+ s|minutes?)\b")
BARS = ("track(", "compare_times(", "check(", "bar_of(")  # a check says for itself what it waits for
NO_CARD = {"begin(", "progress()", "predict("}  # what these show is of one learner


def record_all(names: list[str], root: Path = ROOT) -> list[str]:
    """Record one chapter after the other, say what came of each, and return those that failed: they keep what they had."""
    failed = []
    for name in [existing_chapter(name, root) for name in names]:  # a wrong name stops all of them, before hours pass
        began = time.monotonic()
        try:
            told = f"wrote {record(name, root).relative_to(root)}"
        except CommandError as error:
            failed.append(name)
            told = f"{name}: {error}"
        print(f"{told} ({time.monotonic() - began:.0f} s)", flush=True)
    return failed


def record(name: str, root: Path = ROOT) -> Path:
    """Run a solved chapter in full mode, keep what its demonstrations showed, and return the file."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError

    notebook = nbformat.read(root / f"solutions/{name}.ipynb", as_version=4)
    resources = {"metadata": {"path": str(root / "solutions")}}
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as rays:
        env = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}  # a Ray of its own
        env |= {"COURSEKIT_QUICK": "0", "COURSEKIT_HOME": home, "RAY_TMPDIR": rays}
        client = NotebookClient(notebook, timeout=3600, resources=resources)
        try:
            seconds = {}
            with client.setup_kernel(env=env):
                for index, cell in enumerate(notebook.cells):
                    began = time.monotonic()
                    client.execute_cell(cell, index)
                    seconds[cell.id] = round(time.monotonic() - began)
        except (CellControlSignal, DeadKernelError) as error:
            raise CommandError(f"Nothing was recorded: a cell failed.\n{error}") from error
    if failed := _not_passed(notebook):
        raise CommandError(f"Nothing was recorded: {', '.join(failed)} did not pass. Run the notebook and see why.")
    outputs = {cell.id: _joined(filter(None, map(_kept, cell.outputs))) for cell in demonstrations(notebook)}
    long = {cell_id: taken for cell_id, taken in seconds.items() if taken > LONG}
    found = {"machine": machine(), "date": time.strftime("%Y-%m-%d"), "seconds": long, "outputs": outputs}
    text = json.dumps(found, indent=1, ensure_ascii=False)
    readers = {
        home: "~/.local/share/coursekit",
        rays: "/tmp/ray",
        str(root): "~/ray-rl-course",
        sys.base_prefix: "/usr",
    }
    for folder, place in readers.items():
        text = text.replace(folder, place)  # where it lies for a reader, not on this machine
    path = recording(name, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")
    return path


def recording(name: str, root: Path = ROOT) -> Path:
    """Return the file that keeps what a chapter showed."""
    return root / f"site/recorded/{name}.json"


def load(name: str, root: Path = ROOT) -> dict[str, Any]:
    """Return machine, date and outputs by cell; a chapter that has not been recorded has none of them."""
    path = recording(name, root)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def demonstrations(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Yield the code cells that are neither answers nor checks, nor show how far one learner is."""
    for cell in notebook.cells:
        plain = cell.cell_type == "code" and "nbgrader" not in cell.metadata
        if plain and not any(call in cell.source for call in NO_CARD):
            yield cell


def silent_waits(name: str, root: Path = ROOT) -> list[str]:
    """Return a line for each cell that took longer than 20 s when its chapter was recorded and doesn't say so, or shows no bar.

    A function of the chapter that shows a bar counts as one.
    """
    seconds, above, bars, found = load(name, root).get("seconds", {}), "", [*BARS], []
    for cell in nbformat.read(root / f"solutions/{name}.ipynb", as_version=4).cells:
        if cell.cell_type == "markdown":
            above = cell.source
            continue
        if "track(" in cell.source:
            bars += [f"{function}(" for function in re.findall(r"^def (\w+)", cell.source, re.MULTILINE)]
        if taken := seconds.get(cell.id):
            said = f"{name}: `{cell.source.splitlines()[0]}` took {taken} s"
            if not SAYS_HOW_LONG.search(above):
                found.append(f"{said}: say in the text above how long it takes.")
            if not any(bar in cell.source for bar in bars):
                found.append(f"{said}: loop over `track(items, label)`.")
    return found


def not_run_again(root: Path = ROOT) -> str:
    """Return which chapters have demonstrations that changed since they were recorded, and how many; "" for none."""
    counts = dict[str, int]()
    for name in filter(lambda name: recording(name, root).exists(), chapter_names(root)):
        outputs = load(name, root)["outputs"]
        notebook = nbformat.read(root / f"solutions/{name}.ipynb", as_version=4)
        counts[name] = sum(cell.id not in outputs for cell in demonstrations(notebook))
    return ", ".join(f"{name} ({plural(count, 'cell')})" for name, count in counts.items() if count)


def _kept(output: NotebookNode) -> dict[str, Any]:
    """Return an output as the page shows it: text, or the richest form it has, an animation as it ended; {} if that is empty."""
    if output.output_type == "stream":
        return {"output_type": "stream", "name": "stdout", "text": output.text}
    if output.output_type == "error":
        return {"output_type": "stream", "name": "stdout", "text": f"{output.ename}: {output.evalue}\n"}
    mime = next(mime for mime in SHOWN if mime in output.data)
    if not output.data[mime] or UNSAID in output.data[mime]:  # a progress bar that has ended, or for a learner alone
        return {}
    data = {mime: output.data[mime], "text/plain": output.data.get("text/plain", "")}
    if data[mime].startswith("<img src='data:image/gif;base64,"):
        data = {"image/png": _last_picture(data[mime].split(",")[1].split("'")[0]), "text/plain": data["text/plain"]}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def _joined(outputs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return outputs with what was printed in several pieces, one after the other, as one."""
    found = list[dict[str, Any]]()
    for output in outputs:
        if found and found[-1]["output_type"] == output["output_type"] == "stream":
            found[-1]["text"] += output["text"]
        else:
            found.append(output)
    return found


def _last_picture(gif: str) -> str:
    from PIL import Image, ImageSequence

    with Image.open(io.BytesIO(base64.b64decode(gif))) as film, io.BytesIO() as file:
        ImageSequence.all_frames(film)[-1].convert("RGB").save(file, "PNG", optimize=True)
        return base64.b64encode(file.getvalue()).decode()


def _not_passed(notebook: NotebookNode) -> list[str]:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    results = [output.data[MIME] for output in outputs if MIME in output.get("data", {})]
    return [result["name"] for result in results if result["status"] != "passed"]


def machine() -> str:
    """Return in a few words on what this runs."""
    import psutil

    from coursekit.basics.cpus import cores

    memory = psutil.virtual_memory().total / 2**30
    return f"{cores():g} cores, {memory:.0f} GB, {platform.system()}, Python {platform.python_version()}"
