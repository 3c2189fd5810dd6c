"""What measurements on the data set `nacs` share: the release binaries, a node with the data in SQLite, and its load."""

import json
import os
import pathlib
import platform
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
METHODS = {
    "mab": ["mab", "--method", "pap"],
    "eap-md5": ["mab", "--method", "eap-md5"],
    "eap-tls": ["eap-tls", "--tls", "1.3"],
}


def machine():
    """What the machine is, as far as numbers depend on it."""
    models = (line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    model = next(models, platform.machine())
    return f"{os.cpu_count()} cores of {model}"


def standstills(core, seconds):
    """For how many milliseconds the machine took this idle core away, each time that it was more than one."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    gaps = []
    last = time.monotonic_ns()
    end = last + round(seconds * 1e9)
    while last < end:
        now = time.monotonic_ns()
        if now - last > 1_000_000:
            gaps.append((now - last) / 1e6)
        last = now
    os.sched_setaffinity(0, allowed)
    return gaps


def prepare(folder, **counts):
    """A configuration and the data in `folder`; returns the ports for RADIUS and for questions."""
    config = folder / "portreeve.toml"
    port, ops = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_STREAM)
    config.write_text(
        f'[radius]\nlisten = "127.0.0.1:{port}"\n[ops]\nlisten = "127.0.0.1:{ops}"\n[database]\nurl = "sqlite:nacs.db"\n'
        '[eap.tls]\ncertificate = "server.pem"\nprivate_key = "server.key"\nclient_ca = "ca.pem"\n'
    )
    run([binary("portreeve"), "cert", "init", folder])
    run([binary("portreeve"), "migrate", "--config", config])
    arguments = [word for key, value in counts.items() for word in (f"--{key.replace('_', '-')}", value)]
    run([binary("portreeve"), "seed", "--dataset", "nacs", "--config", config, "--plan", folder / "plan.toml", *arguments])
    return port, ops


def load(folder, port, method, arguments, before=(), fails=False):
    """The report of a run of the load client; unless it `fails`, every answer has to be right."""
    report = folder / "report.json"
    command = [*before, binary("portreeve-load"), *METHODS[method], "--target", f"127.0.0.1:{port}", "--plan", folder / "plan.toml"]
    if method == "eap-tls":
        command += ["--cert", folder / "client.pem", "--key", folder / "client.key", "--ca", folder / "ca.pem"]
    run([*command, *arguments, "--json", report], may_end_with=(0, 1) if fails else (0,))
    return json.loads(report.read_text())


class Server:
    """A node that is ready, until the end."""

    def __init__(self, folder, ops, before=()):
        self.log = open(folder / "portreeve.log", "ab")
        command = [*before, binary("portreeve"), "serve", "--config", folder / "portreeve.toml"]
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.ready = f"http://127.0.0.1:{ops}/readyz"

    def __enter__(self):
        end = time.monotonic() + 60
        while not answers(self.ready):
            if self.child.poll() is not None or time.monotonic() > end:
                self.__exit__()
                sys.exit(f"error: the server does not start\n{pathlib.Path(self.log.name).read_text()[-2000:]}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.log.close()

    def used(self):
        """Microseconds of processor time so far, in the kernel too, of threads that have ended too."""
        time.sleep(0.1)
        # the process's own clock, see clock_getcpuclockid(3)
        return time.clock_gettime((~self.child.pid << 3) | 2) * 1e6

    def memory(self):
        """Resident, in MiB."""
        lines = pathlib.Path(f"/proc/{self.child.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def binary(program):
    path = ROOT / "target" / "release" / program
    if not path.exists():
        sys.exit(f"error: there is no `{path}`\nhint: cargo build --release --workspace")
    return path


def run(command, may_end_with=(0,), **more):
    """What it printed."""
    command = [str(part) for part in command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    if done.returncode not in may_end_with:
        sys.exit(f"error: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def answers(url):
    """Whether a GET is answered with 200."""
    try:
        return urllib.request.urlopen(url, timeout=1).status == 200
    except OSError:
        return False


def free_port(kind):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
