"""Estimates of hardware that is not at hand: of boards, and learnt from measured models."""
