"""The trade-off paper of 2022: exhibits, drawings, verdicts, printed numbers."""
