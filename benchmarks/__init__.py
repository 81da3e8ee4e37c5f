"""Figures of kgen itself: CPU seconds of what people wait for, and the shape of the code."""
