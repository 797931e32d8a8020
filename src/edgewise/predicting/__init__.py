"""Few-shot prediction: what a model takes on a device on which a few other models were measured."""
