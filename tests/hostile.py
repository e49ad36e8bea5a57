"""Bundles that attack whoever replays them: code that runs as soon as the values are read.

Every attack has an end of its own, far beyond the limits that the tests set: a sandbox that does not hold must fail a
test, not the machine.
"""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

from bundles import plain_manifest

from replay.bundle import BundleWriter
from replay.recording import CompileInfo

SECRET = "the-secret-of-the-home"

SPY = """
import json, os, socket, subprocess, sys
def tried(attack):
    try:
        return attack()
    except BaseException as error:
        return f"failed: {type(error).__name__}: {error}"
def write(path):
    with open(path, "a") as file:
        file.write("x")
    return "wrote"
def connect(family, address):
    with socket.socket(family) as one:
        one.settimeout(5)
        one.connect(address)
    return "connected"
def signal(pid):
    os.kill(pid, 0)
    return "reached"
told = {
    "reads": tried(lambda: open(HOME + "/secret").read()),
    "lists": tried(lambda: os.listdir(HOME)),
    "home": tried(lambda: os.listdir(os.path.expanduser("~"))),
    "writes": tried(lambda: write(HOME + "/written")),
    "bundle": tried(lambda: write(BUNDLE)),
    "package": tried(lambda: write(os.path.dirname(sys.modules["replay"].__file__) + "/_version.py")),
    "system": tried(lambda: write("/usr/written-by-a-hostile-bundle")) if BOXED else "",
    "network": tried(lambda: connect(socket.AF_INET, ("127.0.0.1", PORT))),
    "outside": tried(lambda: connect(socket.AF_INET, ("192.0.2.1", 80))),
    "socket": tried(lambda: connect(socket.AF_UNIX, HOME + "/socket")),
    "process": tried(lambda: signal(PID)),
    "token": os.environ.get("HOSTILE_TOKEN", "failed: not set"),
    "terminal": tried(lambda: open("/dev/tty", "w").write("x")) if BOXED else "",
    "starts": tried(lambda: subprocess.run(["/bin/ls", HOME], capture_output=True, text=True, check=True).stdout),
    "mounts": tried(lambda: subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=True) and "mounted"),
}
print("TOLD" + json.dumps(told) + "TOLD", flush=True)
os._exit(3)
"""

FORKS = """
import os, time
end = time.monotonic() + 30
while time.monotonic() < end:
    try:
        os.fork()
    except OSError:
        pass
os._exit(3)
"""

EATS = """
import os, time
eaten = []
for _ in range(4 << 7):
    eaten.append(bytearray(8 << 20))
time.sleep(30)
os._exit(3)
"""

EATS_IN_MANY = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        eaten = bytearray(400 << 20)
        time.sleep(30)
        os._exit(0)
time.sleep(30)
os._exit(3)
"""

WRITES = """
import os, tempfile
for number in range(60):
    with open(os.path.join(tempfile.gettempdir(), str(number)), "wb") as file:
        file.write(bytes(10 << 20))
import time; time.sleep(30)
os._exit(3)
"""

SLEEPS = "import time; time.sleep(120)"


class _Runs:
    """An object whose loading runs code."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __reduce__(self):
        return exec, (self._code, {"__name__": "hostile"})


def write_hostile(directory: Path, code: str, stem: str = "hostile") -> Path:
    """An unsealed bundle whose values run `code` when they are read."""
    manifest = plain_manifest(compile=CompileInfo("eager", "registered"), config={}, state={})
    with BundleWriter(directory, stem) as writer:
        writer.add_values(pickle.dumps(_Runs(code), protocol=5))
        return writer.commit(manifest)


def spying(home: Path, port: int, bundle: Path, *, boxed: bool) -> str:
    """The code that looks around; where it is not `boxed`, it leaves the system alone."""
    names = {"HOME": str(home), "PORT": port, "BUNDLE": str(bundle), "PID": os.getpid(), "BOXED": boxed}
    return "".join(f"{name} = {value!r}\n" for name, value in names.items()) + SPY


def told(message: str) -> dict[str, str]:
    """What a spy has told, from the end of its output."""
    return json.loads(message.split("TOLD")[1])
