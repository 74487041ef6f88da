"""Auto-PGD (Croce and Hein, ICML 2020): the attack, its ascent, and its L1 form."""
