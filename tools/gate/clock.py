"""The time that a call of the gate counts."""

import os
import time


class Clock:
    """Seconds since the call began. WT_GATE_CLOCK names a file whose number is added: a rehearsal
    moves the clock by writing there instead of waiting."""

    def __init__(self):
        self._file, self._added = os.environ.get("WT_GATE_CLOCK"), 0.0
        self._begin = self._time()

    def _time(self):
        if self._file:
            try:
                with open(self._file, encoding="ascii") as f:
                    self._added = float(f.read())
            except (OSError, ValueError):  # not there, or being written: as it was
                pass
        return time.monotonic() + self._added

    def now(self):
        return self._time() - self._begin
