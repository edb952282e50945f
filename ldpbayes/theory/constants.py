"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Mathematics: Step of the trapezoidal rule for ∫ e^{−t(1+βs)} dt with t = e^τ: its error is below the last digit of a
#: double.
STEP = 0.3
