"""What is measured: a model's identity, format and signature. Importing this imports no model library."""

from edgewise.model.signature import Signature, TensorSpec

__all__ = ["Signature", "TensorSpec"]
