"""The four papers: what each exhibit needs, what it leaves open, what it claims, and what it printed."""
