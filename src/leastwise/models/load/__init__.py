"""Networks out of files: checkpoints, Hugging Face, ONNX, Python functions; `dispatch` tells which it is.

Nothing in a file is run unless the user says that it is trusted. What an exported program is, and what readers of other
projects' files share, is one level up, because classifiers know of it.
"""
