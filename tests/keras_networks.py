"""Small Keras networks for tests of the runtimes keras and tensorflow, with fixed random weights."""

from __future__ import annotations


def small(side=16):
    """Images of `side` × `side` × 3 → 10 classes: a block in a model of its own, a branch, a product."""
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    inner = keras.Input((side, side, 8))
    block = keras.Model(inner, layers.Conv2D(8, 3, padding="same", name="conv")(inner), name="block")
    image = keras.Input((side, side, 3), name="image")
    stem = layers.Conv2D(8, 3, padding="same", activation="relu", name="stem")(image)
    joined = layers.Add(name="add")([stem, block(stem)])
    pooled = layers.GlobalAveragePooling2D(name="pool")(joined)
    return keras.Model(image, layers.Dense(10, activation="softmax", name="scores")(pooled), name="small")


def two_inputs():
    """Inputs ``zeta`` (int32) and ``alpha`` (float32), outputs ``sum`` and ``difference``."""
    import keras

    zeta = keras.Input((4,), dtype="int32", name="zeta")
    alpha = keras.Input((4,), name="alpha")
    number = keras.layers.Rescaling(2.0, name="double")(zeta)
    added = keras.layers.Add(name="sum")([number, alpha])
    return keras.Model([zeta, alpha], [added, keras.layers.Subtract(name="difference")([number, alpha])], name="two")


make = small
