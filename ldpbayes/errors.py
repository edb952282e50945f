"""The exception tree: everything ldpbayes raises on purpose derives from LDPBayesError and is one clear sentence."""


class LDPBayesError(Exception):
    """Base of every error that ldpbayes raises on purpose; the command line prints its sentence and exits with status 2."""


class ArgumentError(LDPBayesError, ValueError):
    """An argument breaks its rule: ``<name> must be <rule>, got <value>[; <what to do>].``"""


class DataError(LDPBayesError, ValueError):
    """A file or a set of reports is malformed; the sentence names the file, the line or row, and the field.

    Parameters
    ----------
    message : str
        What is wrong, without a location.
    source : str, optional
        File that holds the data.
    line : int, optional
        Line in that file, counted from one.
    field : str, optional
        Column or key.
    """

    def __init__(self, message, *, source=None, line=None, field=None):
        self.message, self.source, self.line, self.field = message, source, line, field
        where = [str(source)] if source is not None else []
        where += [f"line {line}"] if line is not None else []
        where += [f"field {field!r}"] if field is not None else []
        super().__init__(f"{', '.join(where)}: {message}" if where else message)

    def at(self, *, source=None, line=None, field=None):
        """Return the same error with the location filled in where it was missing."""
        return DataError(
            self.message,
            source=self.source if self.source is not None else source,
            line=self.line if self.line is not None else line,
            field=self.field if self.field is not None else field,
        )


class InfeasibleError(LDPBayesError, ValueError):
    """A method's predicted cost is above its stated limit, or the method does not apply to this collection."""


class ConvergenceError(LDPBayesError, RuntimeError):
    """An iteration or a sampler stopped before its criterion was met; ``result`` holds what it had."""

    def __init__(self, message, result=None):
        super().__init__(message)
        self.result = result


class LDPBayesWarning(UserWarning):
    """Base of the warnings that ldpbayes issues."""


class RankDeficientWarning(LDPBayesWarning):
    """The channel maps different distributions to the same reports: part of the posterior is the prior."""


class CompositeWarning(LDPBayesWarning):
    """The counts are marginal: a composite likelihood stands in for the likelihood."""


class DiagnosticWarning(LDPBayesWarning):
    """A sampler's or an approximation's diagnostic is outside its acceptable range."""
