"""The digits network as a PyTorch module: what ``train.py`` trains, and the trained one for every engine.

The weights come out of the bundled ONNX file, whose initialisers carry the module's own names, so that no pickle is
read::

    edgewise bench examples/digits/model.py:make_model
    edgewise optimize examples/digits/model.py:make_model --data digits_test.npz --task classification
"""

from __future__ import annotations

import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

CLASSES = 10


class DigitsCnn(nn.Module):
    """Five 3×3 convolutions of 32 and 64 channels, global average pooling, one linear layer: float32 logits.

    Plain convolutions with many channels are what int8 instructions are good at; depthwise ones are not.
    """

    def __init__(self) -> None:
        super().__init__()
        # (channels in, channels out, stride): 32×32 → 32×32 → 32×32 → 16×16 → 8×8 → 8×8
        plan = ((1, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 2), (64, 64, 1))
        blocks = []
        for channels_in, channels_out, stride in plan:
            convolution = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
            blocks.append(nn.Sequential(convolution, nn.BatchNorm2d(channels_out), nn.ReLU()))
        self.features = nn.Sequential(*blocks)
        self.pool = nn.AvgPool2d(8)
        self.classifier = nn.Linear(64, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits (batch, 10) of images (batch, 1, 32, 32) with values 0..1."""
        return self.classifier(self.pool(self.features(image)).flatten(1))

    def fold(self) -> DigitsCnn:
        """Put each batch normalisation into its convolution: the same function with fewer operators."""
        self.eval()
        for block in self.features:
            block[0], block[1] = fuse_conv_bn_eval(block[0], block[1]), nn.Identity()
        return self


def make_model() -> tuple[DigitsCnn, tuple[torch.Tensor]]:
    """The network with the weights of the bundled ``digits_cnn.onnx``, and an example input (1, 1, 32, 32)."""
    from edgewise.data import path  # here, so that train.py needs no edgewise

    initializers = onnx.load(path("digits_cnn.onnx")).graph.initializer
    weights = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in initializers}
    model = DigitsCnn().fold()
    model.load_state_dict(weights)
    return model, (torch.zeros(1, 1, 32, 32),)
