"""What is done to a trained network in place of training it again: its last layer, or a mean with another network.

An edit is a frozen value; the network that comes out has the same architecture and file format. What trains the body
of a network is a method (`training/methods/`) or a policy (`training/policies/`).
"""
