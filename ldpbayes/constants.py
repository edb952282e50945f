"""Limits of memory, of double precision and of formats, for the modules beside this one."""

#: Longest TOML file, in bytes; its keys, tables and lists; and parts of a key. Every part takes the parser a kilobyte.
MAX_TOML_BYTES, MAX_TOML_ENTRIES, MAX_DOTS = 2**24, 2**15, 8
#: Brackets within brackets of a line of JSON: Arrow goes one call deeper for each.
MAX_NESTING = 64
