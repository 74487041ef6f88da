"""Networks out of files: checkpoints, exported programs, Hugging Face, ONNX, Python functions."""
