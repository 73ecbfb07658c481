"""Who a student is on the platform, in each assignment: participants.json in the course's folder, as `collect` read it in the zip."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from coursekit.basics.errors import CommandError
from coursekit.basics.files import write_whole

FILE = "participants.json"


@dataclass(frozen=True)
class Participant:
    """What a platform calls a student; `upload` is the number of the notebook that counts, where the platform numbers uploads."""

    platform: str
    name: str
    number: str
    upload: int = 0


def participants_of(course: Path) -> dict[str, Participant]:
    """Return the participants by `student/assignment`, none where nothing was collected; raises CommandError."""
    path = course / FILE
    try:
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {key: Participant(**each) for key, each in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CommandError(
            f"{path} cannot be read ({error}). Move it away, and run `coursekit collect` again with each zip."
        ) from None


def remember(course: Path, found: Mapping[str, Participant]) -> None:
    """Add participants to those that a course has."""
    everybody = participants_of(course) | dict(found)
    kept = {key: asdict(everybody[key]) for key in sorted(everybody)}
    write_whole(course / FILE, json.dumps(kept, indent=1, ensure_ascii=False))
