"""What reports can and cannot tell, before and after collecting them: risk, bounds, information metrics, planning."""
