"""What epochs saw, for the tools that draw curves of trainings: TensorBoard, Weights & Biases, MLflow.

Each gets the numbers of `epochs.jsonl` as curves of every class, of the average, of the worst class and of the spread.
Here are only the ways out; what is counted is decided in `leastwise.training`.
"""
