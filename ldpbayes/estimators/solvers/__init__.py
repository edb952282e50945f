"""The solvers behind the MLE, one method per module; base.py holds the certificate that all of them share."""
