"""What a platform packed: the files of a zip or a folder, and the student of each, by the platform's naming.

Moodle (mod/assign/classes/downloader.php): a folder `Ada Lovelace_12345_assignsubmission_file` with the files, or, where
"Download submissions in folders" is off, the same words in front of each file's name. The number is the "Participant" of the
grading worksheet, another one in each assignment. A team's folder has the team's name; blind marking has one name for all.

Canvas (lib/content_zipper.rb): `lovelaceada_LATE_123_678910_ch01-1.ipynb`: family name first, small letters only; LATE where it
was; the student's ID as in the exported gradebook; the upload's; the file's own name, with Canvas' -1 from the second try on.

Both write the time of the download into the zip, not that of handing in.
"""

import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path, PurePosixPath

from coursekit.basics.errors import CommandError
from coursekit.basics.files import MAX_BYTES
from coursekit.grading.file_kinds import is_a_tools
from coursekit.grading.submission import NotGradable

MAX_STUDENT = 5 * MAX_BYTES  # of all files of one student
MAX_ALL = 20 * 2**30
# the longest that a platform packs: dates within it say when it did, not when students handed in
PACKED = timedelta(minutes=30)
# kinds of signs that are in no name, such as those that frame boxes
_NO_LETTERS = ("Sm", "So", "Sc", "Cc", "Cn", "Co", "No")
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]+)_?(?P<file>.*)", re.DOTALL)
_CANVAS = re.compile(r"(?P<name>\w+?)_(?P<late>LATE_)?(?P<number>\d+)_(?P<upload>\d+)_(?P<file>.+)", re.DOTALL)
_ANONYMOUS = re.compile(r"(?P<late>LATE_)?(?P<name>anon)_(?P<number>[^\W_]+)_(?P<upload>\d+)_(?P<file>.+)", re.DOTALL)


@dataclass(frozen=True)
class Arrival:
    """One file as the platform packed it; `read` returns its bytes, of a large one the beginning, or raises NotGradable.

    `problem` says why it must not be read.
    """

    path: PurePosixPath
    when: datetime | None
    read: Callable[[], bytes]
    problem: str = ""


@dataclass(frozen=True)
class Label:
    """Whose a file is, in the platform's words, and the file's own path among what that student handed in."""

    name: str
    number: str
    file: PurePosixPath
    upload: int = 0  # grows with each upload
    late: bool = False
    above: PurePosixPath = PurePosixPath()  # the folder of one download: Moodle's numbers are others in the next


@contextmanager
def arrivals(source: Path, zone: tzinfo | None) -> Iterator[list[Arrival]]:
    """Yield the files of a zip or a folder, without those of tools; raises CommandError where it is neither."""
    if source.is_dir():
        yield [each for each in _in_folder(source, zone) if not is_a_tools(each.path)]
        return
    try:
        archive = zipfile.ZipFile(source)
    except (OSError, zipfile.BadZipFile) as error:
        raise CommandError(
            f"{source} is neither a zip nor a folder ({error}). Download all submissions of the assignment from Moodle or Canvas, and give that zip."
        ) from None
    with archive:
        left = [MAX_ALL]
        found = (_in_zip(archive, info, zone, left) for info in archive.infolist() if not info.is_dir())
        yield [each for each in found if not is_a_tools(each.path)]


def labels(found: Iterable[Arrival]) -> tuple[str, dict[Arrival, Label]]:
    """Return the layout, moodle, canvas or folder, and the label of each file that has one."""
    found = list(found)
    notebooks = [each for each in found if is_notebook(each.path)] or found
    for layout, reading in (("moodle", _by_moodle), ("canvas", _by_canvas)):
        its = {each: label for each in found if (label := reading(each.path))}
        if 2 * sum(each in its for each in notebooks) > len(notebooks):  # one student's files decide for nobody else
            return layout, its
    deep = [each for each in found if len(each.path.parts) > 1]
    return "folder", {each: Label(each.path.parts[0], "", PurePosixPath(*each.path.parts[1:])) for each in deep}


def dates_mean_something(found: Iterable[Arrival]) -> bool:
    """Return whether the files' dates can be those of handing in: they spread over more time than packing takes."""
    dates = [each.when for each in found if each.when]
    return bool(dates) and max(dates) - min(dates) > PACKED


def is_notebook(path: PurePosixPath) -> bool:
    """Return whether a file is called like a notebook."""
    return path.suffix.lower() == ".ipynb"


def _by_moodle(path: PurePosixPath) -> Label | None:
    for number, part in enumerate(path.parts):
        if match := _MOODLE.fullmatch(part):
            own = [match["file"]] if match["file"] else []
            file, above = PurePosixPath(*own, *path.parts[number + 1 :]), PurePosixPath(*path.parts[:number])
            return Label(match["name"], match["number"], file, above=above)
    return None


def _by_canvas(path: PurePosixPath) -> Label | None:
    match = _ANONYMOUS.fullmatch(path.name) or _CANVAS.fullmatch(path.name)
    if not match or re.match(r"\d+_", match["file"]):  # a name that ends like another's number would be read as theirs
        return None
    file, late = PurePosixPath(match["file"]), bool(match["late"])
    return Label(match["name"], match["number"], file, int(match["upload"][:18]), late)


def _in_folder(folder: Path, zone: tzinfo | None) -> Iterator[Arrival]:
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(f"{place}/{name}")]
        for name in sorted([*names, *links]):
            path = Path(place, name)
            status = path.lstat()
            problem = "" if stat.S_ISREG(status.st_mode) else "it is a link, or not a regular file"
            when = datetime.fromtimestamp(status.st_mtime, zone).astimezone()
            yield Arrival(PurePosixPath(path.relative_to(folder)), when, partial(_content, path), problem)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotGradable(f"it cannot be read ({error.strerror})") from None


def _in_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo, zone: tzinfo | None, left: list[int]) -> Arrival:
    path = PurePosixPath(_name_of(info).replace("\\", "/"))
    problem = ""
    if path.is_absolute() or ".." in path.parts or not path.parts:
        problem = "its path leaves the folder"
    elif stat.S_ISLNK(info.external_attr >> 16):
        problem = "it is a link"
    return Arrival(path, _date_of(info, zone), partial(_unpacked, archive, info, left), problem)


def _name_of(info: zipfile.ZipInfo) -> str:
    """Return an entry's name: many programs write UTF-8 and do not say so."""
    if info.flag_bits & 0x800:
        return info.filename
    try:
        return info.filename.encode("cp437").decode()  # Python's guess, taken back
    except UnicodeError:
        return info.filename


def is_improbable(name: str) -> bool:
    """Return whether a name was probably written in another encoding than it was read in: its letters are no person's."""
    for word in re.split(r"[\W_]+", name):
        alphabets = {unicodedata.name(letter, "").partition(" ")[0] for letter in word if letter.isalpha()}
        if "LATIN" in alphabets and alphabets & {"GREEK", "CYRILLIC", "SUPERSCRIPT", "FEMININE", "MASCULINE"}:
            return True
    try:
        twice = name.encode("cp1252").decode() != name  # UTF-8 that was read as the letters of Windows
    except UnicodeError:
        twice = False
    return twice or any(
        letter in "«»¿¡" or (ord(letter) > 127 and unicodedata.category(letter) in _NO_LETTERS) for letter in name
    )


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, left: list[int]) -> bytes:
    """Return what an entry holds, as far as it may be long; what the zip says of its length is not believed."""
    try:
        with archive.open(info) as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, RuntimeError, NotImplementedError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise NotGradable(f"it cannot be unpacked ({error})") from None
    left[0] -= len(content)
    if left[0] < 0:
        raise CommandError(
            f"The zip unpacks to more than {MAX_ALL // 2**30} GB, which is more than any class hands in. Nothing more was read."
        )
    return content


def too_large(content: bytes) -> str:
    """Return why a file is not taken as it is, "" where it is small enough; of a larger one, the beginning was read."""
    return f"it is larger than {MAX_BYTES // 2**20} MB" if len(content) > MAX_BYTES else ""


def _date_of(info: zipfile.ZipInfo, zone: tzinfo | None) -> datetime | None:
    """Return an entry's date, which a zip keeps without a zone: that of the class, else this machine's."""
    try:
        date = datetime(*info.date_time)
        return date.replace(tzinfo=zone) if zone else date.astimezone()
    except ValueError:
        return None
