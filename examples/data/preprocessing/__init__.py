"""From image files to the inputs of networks, as is customary for ImageNet and for CIFAR."""
