"""What neural networks are made of: activations, the softmax family, encodings, attention."""

from tinyjax.exports import collect
from tinyjax.nn import activations, attention, encodings, initializers, scaled, softmaxes

collect(__name__, activations, attention, encodings, scaled, softmaxes, packages=(initializers,))
