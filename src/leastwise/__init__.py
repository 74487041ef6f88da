"""leastwise: audit and train image classifiers class by class under attack.

Import from the module that owns a name, as in `from leastwise.jobs import audit`. This file imports
nothing, so that `leastwise --help` need not wait for torch.
"""

__version__ = "0.1.0"
