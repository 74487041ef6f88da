"""Fast adaptive boundary (Croce and Hein, ICML 2020), and the projection onto a hyperplane that it needs."""
