"""Processes of the gate: each in a group of its own, with a limit, what it says kept."""

import codecs
import os
import re
import selectors
import signal
import subprocess
from collections import deque

TAIL = 2000  # lines of a process that are held; the log has more
GRACE = 2.0  # seconds between SIGTERM and SIGKILL; then as many again until it is given up
POLL = 0.05
ERROR = re.compile(r"(\w*(Error|Failure)|OutOfMemory|NotAvailable): ")


class Ended:
    """How a process ended. code: its exit code, negative for a signal; None where it was stopped,
    and then `stopped` says why in words."""

    def __init__(self, code, stopped, seconds, lines):
        self.code, self.stopped, self.seconds, self.lines = code, stopped, seconds, lines

    @property
    def last(self):
        """The last line that is no advice: those are indented."""
        for line in reversed(self.lines):
            if line.strip() and not line.startswith(" "):
                return line.strip()
        return ""

    def why(self):
        """A few words for whoever reads the page."""
        if self.stopped:
            return self.stopped
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}"
        told = next((line for line in self.lines if ERROR.match(line)), self.last)
        return f"exit code {self.code}: {told}"[:200]


class Process:
    """A running program. poll() is to be called until it returns an Ended."""

    def __init__(self, argv, *, clock, log, limit, quiet=None, env=None, on_line=None,
                 stdin=subprocess.DEVNULL):
        self._clock, self._log, self._on_line = clock, log, on_line
        self._begin = self._heard = clock.now()
        self._limit, self._quiet = limit, quiet
        self._lines, self._rest, self._stopped = deque(maxlen=TAIL), "", None
        self.closed = False  # it says nothing more, but may go on
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        log.write(f"$ {' '.join(argv)}\n")
        self._p = subprocess.Popen(
            argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
            start_new_session=True,
        )  # fmt: skip
        os.set_blocking(self._p.stdout.fileno(), False)

    def fileno(self):
        return self._p.stdout.fileno()

    def poll(self):
        """Reads what there is; an Ended once the process has ended or was stopped."""
        self._read()
        code = self._code()
        if code is not None:
            self._read()
            self._flush()
            kill_group(self._p, signal.SIGKILL)  # what it left running
            self._p.stdout.close()
            return Ended(code, self._stopped, self.seconds(), list(self._lines))
        if self.seconds() > self._limit:
            return self.stop(f"longer than {self._limit:.0f} s")
        if self._quiet and self._clock.now() - self._heard > self._quiet:
            return self.stop(f"hung: nothing for {self._quiet:.0f} s")
        return None

    def _code(self):
        if self.closed:  # it is about to end: sooner seen than by wait_any()
            try:
                return self._p.wait(POLL)
            except subprocess.TimeoutExpired:
                return None
        return self._p.poll()

    def send(self, line):
        """To one that was begun with stdin=PIPE."""
        try:
            self._p.stdin.write(line.encode() + b"\n")
            self._p.stdin.flush()
        except BrokenPipeError:  # it has ended: poll() says how
            pass

    def seconds(self):
        return self._clock.now() - self._begin

    def stop(self, why):
        """Ends it with its whole group. A process that the driver holds fast is left behind."""
        self._stopped = why
        for sign in (signal.SIGTERM, signal.SIGKILL):
            kill_group(self._p, sign)
            try:
                self._p.wait(GRACE)
                break
            except subprocess.TimeoutExpired:
                pass
        else:
            self._stopped += ", and it could not be killed"
        kill_group(self._p, signal.SIGKILL)
        self._read()
        self._flush()
        self._p.stdout.close()
        return Ended(None, self._stopped, self.seconds(), list(self._lines))

    def _read(self):
        while True:
            try:
                data = os.read(self.fileno(), 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self.closed = True
                return
            self._heard = self._clock.now()
            *whole, self._rest = (self._rest + self._decode.decode(data)).split("\n")
            for line in whole:
                self._line(line)

    def _flush(self):
        if self._rest:
            self._line(self._rest)
        self._rest = ""

    def _line(self, line):
        self._lines.append(line)
        self._log.write(line + "\n")
        if self._on_line:
            self._on_line(line)


def kill_group(p, sign):
    try:
        os.killpg(p.pid, sign)
    except (ProcessLookupError, PermissionError):
        pass


def wait_any(processes, seconds=POLL):
    """Returns when one of them has said something, or after that time."""
    with selectors.DefaultSelector() as s:
        for p in processes:
            if p.closed:
                return
            s.register(p.fileno(), selectors.EVENT_READ)
        s.select(seconds)


def run(argv, **how):
    """Runs it to its end."""
    p = Process(argv, **how)
    try:
        while (ended := p.poll()) is None:
            wait_any([p])
        return ended
    except BaseException:  # Ctrl-C: nothing may stay behind on the device
        p.stop("interrupted")
        raise
