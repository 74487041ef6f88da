"""The command line: one file per verb, and the options that several verbs share in `options`.

Verbs import torch when they run and not before, so that help is immediate. A verb makes jobs and shows what came of
them: it computes nothing itself.
"""
