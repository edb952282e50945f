"""Surveys of people who may not answer, or not by the device: missing answers, compliance, and list experiments.

From the core it takes posteriors, tests of nested models, collections with respondents who deny or ignore the device, and
the parts of answers and figures. It brings what a result states of such respondents (``registered.py``), the answer
``missing_answers`` and its figure, and the difference in means of lists.
"""
