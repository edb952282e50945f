"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Format: Exit status of tools whose output nobody reads any more: as a shell has that of a process ended by SIGPIPE.
BROKEN_PIPE = 141
