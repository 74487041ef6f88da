"""Data sets from Python objects: arrays and tensors, torch data sets and loaders, frames, Hugging Face data sets.

Whatever an object computes is computed once. Pixels become uint8 and go into memory, or beyond 64 MB into a file of the
cache that is gone with the process, so that memory stays flat and every attack sees the same images.
"""
