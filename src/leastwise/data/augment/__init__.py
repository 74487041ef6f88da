"""Augmentation: what happens to training images before the network sees them."""
