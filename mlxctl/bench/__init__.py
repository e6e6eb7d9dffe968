"""Measured sweeps over prompt length, generation length and depth."""
