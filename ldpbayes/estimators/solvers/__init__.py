"""The solvers behind the MLE, one idea a module; base.py holds the certificate that all of them answer to."""
