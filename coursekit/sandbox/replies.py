"""What a sandbox sends, looked at before it is believed to be what it should be."""

from coursekit import wire
from coursekit.sandbox.limits import SandboxDied, spoken


def place(reply: bytes) -> dict:
    """Return where the sandbox's Ray is, {} for nowhere; raises SandboxDied for what cannot be true."""
    try:
        told = wire.decode(reply)
        if not told:
            return {}
        texts: dict = {"address": str(told["address"])[:100], "marked": int(told["marked"])}
        return texts | {"job": bytes(told["job"]).hex()[:100], "task": bytes(told["task"]).hex()[:100]}
    except (ValueError, KeyError, TypeError, IndexError):
        raise SandboxDied("sent something that is not an answer") from None


def error(reply: bytes) -> dict | None:
    """Return the error that a cell reports, None for none; raises SandboxDied for what is not a report."""
    try:
        told = wire.decode(reply)["error"]
        if told is None:
            return None
        texts = {key: str(told[key])[:2000] for key in ("kind", "message", "where")}
        return {**texts, "todo": told["todo"] is True}
    except (ValueError, KeyError, TypeError, IndexError):
        raise SandboxDied("sent something that is not an answer") from None


def too_long(seconds: float, error: dict | None) -> dict:
    """Return the error of a cell or call that was interrupted, with the place where it was by then."""
    where = error["where"] if error else ""
    return {"kind": "TimeoutError", "message": f"stopped after {spoken(seconds)}", "where": where, "todo": False}
