"""What the room brings: what a result states of respondents who deny or ignore the device."""

DESCRIBERS = {"The test of who follows the device": "surveys.compliance.findings"}
