"""The road from reports to a result: what was asked, the prior by rule, the methods, and the walk itself."""
