"""The folder in which a learner works: the course's own, or one that has work/ and leads to a course that lies elsewhere."""

import shutil
from pathlib import Path

from coursekit.basics.course_files import BESIDE_WORK
from coursekit.basics.paths import FROM_WHEEL, ROOT

NAME, PICTURES = "ray-rl-course", "img"


def learners_folder() -> Path:
    """Return the folder in or around that of the call which leads to the course, as on a hub; else the course's own, or where a wheel carries the course, a new one."""
    here = Path.cwd()
    leading = [folder for folder in (here, here.parent) if FROM_WHEEL or (folder / "notebooks").is_symlink()]
    around = [folder for folder in leading if (folder / "work" / ".course").is_dir()]
    return around[0] if around else here / NAME if FROM_WHEEL else ROOT


def link_to_course(folder: Path, course: Path = ROOT) -> Path:
    """Put links to what the course has beside work/ into a learner's folder, and return it; the course's own folder needs none.

    Pictures are copied: JupyterLab serves no file behind a link that leads out of its folder (tornado 6.5.9 and later).
    """
    if folder == course:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in BESIDE_WORK:
        mine, theirs = folder / name, course / name
        if mine.is_symlink() and (name == PICTURES or mine.readlink() != theirs):
            mine.unlink()
        if name == PICTURES:
            mine.mkdir(exist_ok=True)
            for picture in theirs.glob("*.*"):
                shutil.copyfile(picture, mine / picture.name)
        elif not mine.exists() and theirs.exists():
            mine.symlink_to(theirs)
    return folder
