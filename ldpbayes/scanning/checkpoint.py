"""Checkpoints: a scan that was killed goes on with the pieces that it had not read."""

import base64
import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

from ldpbayes import files
from ldpbayes.errors import DataError
from ldpbayes.scanning.partials import Partial

#: Time: A checkpoint may take this share of the time between two of them.
_SHARE = 0.02


class Checkpoint:
    """The state of a scan on disk: totals of each pass so far, and the pieces that they hold.

    Parameters
    ----------
    path : path-like
    marks : sequence of str
        What tells this scan from others: its files with their sizes and times, its columns and protocol.

    Raises
    ------
    DataError
        Where the path cannot be written, or holds the state of another scan.
    """

    def __init__(self, path: Any, marks: Sequence[str]) -> None:
        self.path = files.as_path(path)
        files.check_output(self.path)
        self._marks = hashlib.blake2b("\n".join(marks).encode(), digest_size=16).hexdigest()
        #: By the name of a pass, the identities of the pieces that it has read and their total.
        self.passes: dict[str, tuple[set[str], Partial]] = {}
        self._saved, self._took = time.perf_counter(), 0.0
        if self.path.exists():
            self._read()

    def add(self, name: str, done: set[str], total: Partial) -> None:
        """Note how far a pass is, and write it where the last writing is long enough ago."""
        self.passes[name] = done, total
        if time.perf_counter() - self._saved > self._took / _SHARE:
            self.save()

    def save(self) -> None:
        """Write the state, whole or not at all."""
        start = time.perf_counter()
        passes = {
            name: [sorted(done), base64.b64encode(total.to_bytes()).decode()] for name, (done, total) in self.passes.items()
        }
        files.write_text(self.path, json.dumps({"scan": self._marks, "passes": passes}))
        self._saved = time.perf_counter()
        self._took = self._saved - start

    def remove(self) -> None:
        """Remove the file: the scan is complete."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> None:
        try:
            document = json.loads(self.path.read_text())
            marks, passes = document["scan"], document["passes"].items()
            state = {name: (set(done), Partial.from_bytes(base64.b64decode(text))) for name, (done, text) in passes}
        except Exception as err:
            raise DataError("is not a checkpoint of a scan; name another file", source=self.path) from err
        if marks != self._marks:
            raise DataError(
                "is the checkpoint of another scan (other files, columns, protocol or settings); remove it or name another",
                source=self.path,
            )
        self.passes = state
