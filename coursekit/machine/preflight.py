"""What the course asks of a machine: one small judgement for each thing, on the facts that were gathered."""

from collections.abc import Callable
from dataclasses import dataclass

from coursekit.basics.cards import plural
from coursekit.basics.readers_language import told
from coursekit.basics.versions import install_tested, within
from coursekit.machine.facts import PORTS, Facts

GIB = 2**30
# Ray's longest socket path below its temp folder; Linux allows 107 bytes for the whole, macOS 103.
SOCKET = "/ray/session_2026-01-31_12-00-00_123456_1234567/sockets/plasma_store"


@dataclass(frozen=True)
class Finding:
    """One line of the preflight: `status` is ok, note or problem; `fix` says what to do about it."""

    name: str
    status: str
    found: str
    fix: str = ""


def _python(facts: Facts) -> Finding:
    found = "{}.{}.{}".format(*facts.python)
    if (3, 11) <= facts.python[:2] <= (3, 13):
        return Finding("Python", "ok", found)
    fix = "The course needs Python 3.11, 3.12, or 3.13: make setup PYTHON=/path/to/python3.11"
    return Finding("Python", "problem", found, fix)


def _system(facts: Facts) -> Finding:
    if facts.system == "Windows":
        fix = "Ray needs Linux: run `wsl --install` in PowerShell, then clone and start the course in WSL."
        return Finding("System", "problem", "Windows", fix)
    if facts.system == "Darwin" and facts.machine == "x86_64":
        fix = "PyTorch no longer supports it: use Codespaces or a Linux machine."
        return Finding("System", "problem", "macOS on Intel", fix)
    if facts.system == "Darwin":
        fix = "When macOS asks whether Python may accept connections, allow it: Ray's processes need it."
        return Finding("System", "note", "macOS; Ray's object store holds at most 2 GB here", fix)
    where = [
        facts.system,
        "WSL" if facts.wsl else "",
        f"{facts.container} container" if facts.container else "",
    ]
    return Finding("System", "ok", ", ".join(filter(None, where)))


def _packages(facts: Facts) -> Finding:
    wrong = [told(f"{name} is missing") for name, version, _ in facts.versions if not version]
    for name, version, tested in facts.versions:
        if version and not within(version, tested):
            wrong.append(told(f"{name} {version} is outside {tested}"))
    if wrong:
        return Finding("Packages", "problem", "; ".join(wrong), f"{install_tested()}    (installs the tested versions)")
    return Finding("Packages", "ok", ", ".join(f"{name} {version}" for name, version, _ in facts.versions))


def _cores(facts: Facts) -> Finding:
    found = f"{facts.cores:g}"
    if facts.cores >= 2:
        return Finding("Cores", "ok", found)
    return Finding("Cores", "note", found, "Everything runs, but you won't see a speedup: two cores are better.")


def _memory(facts: Facts) -> Finding:
    found = f"{facts.memory_free / GIB:.1f} GB free of {facts.memory / GIB:.1f}"
    if facts.memory_free < 2 * GIB:
        fix = "Close other programs and notebooks: a chapter needs 2 to 6 GB."
        if facts.memory < 4 * GIB:
            fix = "A chapter needs 2 to 6 GB: give the container, or WSL (.wslconfig), 8 GB."
        return Finding("Memory", "problem", found, fix)
    if facts.memory_free < 5 * GIB:
        fix = "Keep one chapter open at a time, and shut down the kernels of the others."
        return Finding("Memory", "note", found, fix)
    return Finding("Memory", "ok", found)


def _shared_memory(facts: Facts) -> Finding:
    if facts.shm is None:
        return Finding("Shared memory", "ok", "no /dev/shm here; Ray uses files instead")
    found = f"{facts.shm / GIB:.1f} GB free in /dev/shm"
    if facts.shm >= GIB:
        return Finding("Shared memory", "ok", found)
    fix = "Delete old files in /dev/shm, or make it larger: sudo mount -o remount,size=2G /dev/shm"
    if facts.container:
        fix = "Start the container with more: docker run --shm-size=2g ..."
    return Finding("Shared memory", "note", f"{found}: Ray will keep its objects on disk, which is slow", fix)


def _disk(facts: Facts) -> Finding:
    found = f"{facts.disk_free / GIB:.1f} GB free for temporary files in {facts.temp}"
    fix = f"Delete files; old Ray sessions are in {facts.temp}/ray. Or: export RAY_TMPDIR=/a/larger/disk"
    if facts.disk_free < GIB:
        return Finding("Disk", "problem", found, fix)
    if facts.disk_used > 0.95:
        full = f"{found}, {facts.disk_used:.0%} used: above 95%, Ray does not move objects to disk"
        return Finding("Disk", "note", full, fix)
    return Finding("Disk", "ok", found)


def _temp_path(facts: Facts) -> Finding:
    limit = (103 if facts.system == "Darwin" else 107) - len(SOCKET)
    length = len(facts.temp.rstrip("/").encode())
    if length <= limit:
        return Finding("Temp path", "ok", f"{facts.temp} (short enough for Ray's sockets)")
    found = f"{facts.temp} ({plural(length, 'byte')}; Ray's sockets allow {limit})"
    return Finding("Temp path", "problem", found, "export RAY_TMPDIR=/tmp    (then start again)")


def _folders(facts: Facts) -> Finding:
    if not facts.unwritable:
        return Finding("Folders", "ok", "Ray and the course can write to theirs")
    found = "; ".join(told(f"cannot write to {folder} ({why})") for _, folder, why in facts.unwritable)
    fixes = " && ".join(f"export {name}=/a/folder/of/yours" for name, _, _ in facts.unwritable)
    return Finding("Folders", "problem", found, f"{fixes}    (then start again)")


def _proxy(facts: Facts) -> Finding:
    if not facts.proxies:
        return Finding("Proxy", "ok", "none is set")
    return Finding("Proxy", "ok", f"{', '.join(facts.proxies)}; this machine's own addresses are reached directly")


def _ports(facts: Facts) -> Finding:
    if not facts.busy_ports:
        both = f" {told('and')} ".join(map(str, PORTS))
        return Finding("Ports", "ok", f"{both} are free")
    busy = ", ".join(f"{port} ({PORTS[port]})" for port in facts.busy_ports)
    fix = "Nothing to do: each program takes the next free port and says which."
    return Finding("Ports", "note", f"in use: {busy}", fix)


def _other_ray(facts: Facts) -> Finding:
    if facts.ray_address:
        found = f"RAY_ADDRESS={facts.ray_address}: notebooks cannot start their own Ray"
        return Finding("Ray", "problem", found, "unset RAY_ADDRESS    (then start again)")
    if facts.rays:
        fix = "It shares your cores: shut down other notebooks' kernels before you measure anything."
        return Finding("Ray", "note", f"{plural(facts.rays, 'Ray node')} already running here", fix)
    return Finding("Ray", "ok", "no other Ray is running")


CHECKS: list[Callable[[Facts], Finding]] = [
    _python,
    _system,
    _packages,
    _cores,
    _memory,
    _shared_memory,
    _disk,
    _temp_path,
    _folders,
    _proxy,
    _ports,
    _other_ray,
]
