"""The folder in which a learner works: the course's own, or one that has work/ and leads to a course that lies elsewhere."""

from pathlib import Path

from coursekit.basics.course_files import BESIDE_WORK
from coursekit.basics.paths import FROM_WHEEL, ROOT

NAME = "ray-rl-course"


def learners_folder() -> Path:
    """Return the course's own folder; where a wheel carries the course, `ray-rl-course/` in the folder of the call, or around it."""
    if not FROM_WHEEL:
        return ROOT
    here = Path.cwd()
    around = [folder for folder in (here, here.parent) if (folder / "work" / ".course").is_dir()]
    return around[0] if around else here / NAME


def link_to_course(folder: Path, course: Path = ROOT) -> Path:
    """Put links to all that the course has beside work/ into a learner's folder, and return it; the course's own needs none."""
    if folder == course:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in BESIDE_WORK:
        link = folder / name
        if link.is_symlink() and link.readlink() != course / name:
            link.unlink()
        if not link.exists() and (course / name).exists():
            link.symlink_to(course / name)
    return folder
