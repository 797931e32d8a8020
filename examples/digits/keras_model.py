"""The digits network in Keras, with the weights of the bundled ONNX file: the same function as ``model.py``'s.

Images are (batch, 32, 32, 1) here: Keras keeps channels last::

    edgewise bench examples/digits/keras_model.py:make_model
"""

from __future__ import annotations

import keras
import numpy as np
import onnx
from onnx import numpy_helper


def make_model() -> keras.Model:
    """The trained network: float32 logits (batch, 10) of images (batch, 32, 32, 1) with values 0..1."""
    from edgewise.data import path

    initializers = onnx.load(path("digits_cnn.onnx")).graph.initializer
    weights = {each.name: numpy_helper.to_array(each) for each in initializers}
    image = x = keras.Input((32, 32, 1), name="image")
    loads = []
    for block, stride in enumerate((1, 1, 2, 2, 1)):
        kernel = weights[f"features.{block}.0.weight"]  # (channels out, channels in, height, width)
        convolution = keras.layers.Conv2D(len(kernel), 3, strides=stride, activation="relu", name=f"block_{block}")
        # Keras' own padding of a strided convolution is not symmetric, unlike PyTorch's.
        x = convolution(keras.layers.ZeroPadding2D(1)(x))
        loads.append((convolution, [np.transpose(kernel, (2, 3, 1, 0)), weights[f"features.{block}.0.bias"]]))
    classifier = keras.layers.Dense(10, name="logits")
    model = keras.Model(image, classifier(keras.layers.GlobalAveragePooling2D()(x)))
    loads.append((classifier, [weights["classifier.weight"].T, weights["classifier.bias"]]))
    for layer, values in loads:
        layer.set_weights(values)
    return model
