"""Progress and Ctrl-C of a run, and the word before one that takes long."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from ldpbayes import progress
from ldpbayes.errors import LDPBayesWarning, warn


@dataclass
class Watch:
    """Progress and Ctrl-C of loops, in one object.

    Attributes
    ----------
    shown : bool
        Whether loops have a bar.
    interrupted : bool
        Whether one was cut short.
    long : float
        Seconds that a fit takes without a word, and for which cells without draws keep the learnt prior that the rule gives
        them. Derived: twice the ten for which a reader's attention holds (Miller 1968, AFIPS 33).
    """

    shown: bool = False
    interrupted: bool = False
    long: float = 20.0

    def announce(self, what: str, seconds: float) -> None:
        """Warn before it starts that something takes long; again where it takes twice as long as was said.

        Parameters
        ----------
        what : str
            The subject of the sentence.
        seconds : float
            Predicted, of one processor core; nan where nobody knows.
        """
        if math.inf > seconds >= self.long:
            self.long = 2 * seconds
            shown = "" if self.shown else "; progressbar=True shows how far it is"
            sentence = f"{what} takes about {seconds:.0f} s of one processor core{shown}."
            warn(sentence, LDPBayesWarning)

    def track(self, items, description, total=None, *, weight=None):
        """Yield items, behind a progress bar where shown; see progress.track."""
        return progress.track(items, description, total, shown=self.shown, weight=weight)

    @contextlib.contextmanager
    def keeping(self, enough: Callable[[], bool]):
        """End the block at Ctrl-C where enough() draws are finished; otherwise the KeyboardInterrupt goes on."""
        try:
            yield
        except KeyboardInterrupt:
            if not enough():
                raise
            self.interrupted = True

    def finished(self, results, least=1):
        """Return list(results); after Ctrl-C those that were finished, if there are at least ``least``."""
        out = []
        with self.keeping(lambda: len(out) >= least):
            out.extend(results)  # extends item by item: what came before the interruption stays
        return out
