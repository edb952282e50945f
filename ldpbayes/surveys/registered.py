"""What the room brings: what a result states of respondents who deny or ignore the device, and a figure of no answers."""

DESCRIBERS = {"The test of who follows the device": "surveys.compliance.findings"}
ANSWERS = {"missing": "surveys.figures.of_missing"}
