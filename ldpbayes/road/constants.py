"""Limits of memory."""

#: Memory: Bytes that the draws of P take by default; a fit takes some six times as many at its peak.
DRAWS_BYTES = 2**27
