"""What a sandbox sends, looked at before it is believed to be what it should be."""

from coursekit.judging import wire
from coursekit.sandbox.limits import SandboxDied, spoken

NO_ANSWER = "sent something that is not an answer"
NAME = 100  # bytes of an address or of one of Ray's ids
TEXT = 2000  # characters of an error that are kept


def place(reply: bytes) -> dict:
    """Return where the sandbox's Ray is, {} for nowhere; raises SandboxDied for what cannot be true."""
    told = _told(reply)
    if told == {}:
        return {}
    match told:
        case {"address": str(address), "job": bytes(job), "task": bytes(task), "marked": int(marked)} if (
            max(len(address), len(job), len(task)) <= NAME and 0 <= marked < 2**63
        ):
            return {"address": address, "job": job.hex(), "task": task.hex(), "marked": marked}
    raise SandboxDied(NO_ANSWER)


def error(reply: bytes) -> dict | None:
    """Return the error that a cell reports, None for none; raises SandboxDied for what is not a report."""
    match _told(reply):
        case {"error": None}:
            return None
        case {"error": {"kind": str(kind), "message": str(message), "where": str(where), "todo": todo}}:
            return {"kind": kind[:TEXT], "message": message[:TEXT], "where": where[:TEXT], "todo": todo is True}
    raise SandboxDied(NO_ANSWER)


def _told(reply: bytes) -> object:
    try:
        return wire.decode(reply)
    except ValueError:
        raise SandboxDied(NO_ANSWER) from None


def too_long(seconds: float, error: dict | None) -> dict:
    """Return the error of a cell or call that was interrupted, with the place where it was by then."""
    where = error["where"] if error else ""
    return {"kind": "TimeoutError", "message": f"stopped after {spoken(seconds)}", "where": where, "todo": False}
