"""Loops that run when nothing is asked: counters, the projector, the job runner, clean-up."""
