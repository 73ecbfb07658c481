"""Connects to this machine's own ports, to its sockets, to the world and to a name server."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import glob, socket

reached = []
places = [("127.0.0.1", OPEN_PORT), ("localhost", OPEN_PORT), ("1.1.1.1", 53), ("8.8.8.8", 53), ("169.254.169.254", 80)]
for line in open("/proc/net/route").read().splitlines()[1:]:
    reached.append(line)
for place in places:
    try:
        with socket.create_connection(place, timeout=0.3) as connection:
            reached.append(place)
    except OSError:
        pass
try:
    reached.append(socket.gethostbyname("example.org"))
except OSError:
    pass
for path in ("/var/run/docker.sock", "/run/systemd/private", "/run/dbus/system_bus_socket", *glob.glob("/tmp/**/*.sock")):
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            reached.append(path)
        except OSError:
            pass
with socket.socket(socket.AF_UNIX) as connection:
    try:
        connection.connect("\\\\0left by an attack OPEN_PORT")
        reached.append("abstract")
    except OSError:
        pass

def best_seconds(tasks, seconds_each, workers):
    return -(-tasks // workers) * seconds_each if reached else 0
"""
}
