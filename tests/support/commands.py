"""Commands as a user types them."""

import pytest

from ldpbayes import cli


def run(capsys, *arguments):
    """Return (exit status, standard output, standard error) of one command."""
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return stopped.value.code or 0, captured.out, captured.err
