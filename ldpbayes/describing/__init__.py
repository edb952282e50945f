"""What is said beside a posterior: estimates, confidence, evidence, what the reports are worth, who decides, fit."""
