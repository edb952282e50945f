"""The same posterior by other means: exact or drawn, NUTS, maxima of the likelihood, and what the posterior predicts.

From the core it takes fits by several methods, point estimates, tests of the fit of the reports, and the parts of answers,
pages and figures. It brings the answer ``crosscheck``, its page (``registered.py``) and its figure.
"""
